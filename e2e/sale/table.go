package sale

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"hanjul/e2e/buyers"
)

// Announce prints what will be run before it is.
func (c Config) Announce(w io.Writer) error {
	s := c.Settings
	_, err := fmt.Fprintf(w, "product %s: %d units, %d buyers, seed %d\nrate %g/s, burst %g, capacity %d, pass life %s, order_ttl %s, void_grace %s\n",
		c.Product, c.Stock, c.Buyers, c.Seed, s.Rate, s.Burst, s.Capacity, s.PassLife, s.OrderTTL, s.VoidGrace)
	return err
}

// Print writes the table of a sale, then the auditor's lines without the last word, which the caller says once every process has
// ended.
func (r *Report) Print(w io.Writer) error {
	var text strings.Builder
	t := tabwriter.NewWriter(&text, 0, 8, 2, ' ', 0)
	b := r.Buyers
	row := func(name string, value any) { fmt.Fprintf(t, "%s\t%v\n", name, value) }
	row("buyers", b.Buyers)
	row("joined", fmt.Sprintf("%d within %.1f s over %d connections", b.Joined, b.JoinedWithin.Seconds(), b.Connections))
	row("admitted", b.Admitted)
	for _, o := range []buyers.Outcome{buyers.Confirmed, buyers.Rejected, buyers.Lapsed, buyers.Left, buyers.SoldOut, buyers.NoJoin, buyers.Lost} {
		row("  "+string(o), b.Outcomes[o])
	}
	accounted := "yes"
	if !b.Accounted() {
		accounted = "NO"
	}
	row("every buyer accounted for", accounted)
	fmt.Fprintln(t, "verdicts\t")
	for _, v := range slices.Sorted(maps.Keys(b.Verdicts)) {
		row("  "+v, b.Verdicts[v])
	}
	fmt.Fprintln(t, "misbehaviour\t")
	for _, role := range buyers.Misbehaviours() {
		row("  "+string(role), b.Roles[role])
	}
	list := func(title string, counts map[string]int) {
		if len(counts) == 0 {
			row(title, "none")
			return
		}
		fmt.Fprintf(t, "%s\t\n", title)
		for _, what := range slices.Sorted(maps.Keys(counts)) {
			row("  "+what, counts[what])
		}
	}
	list("refusals", b.Refusals)
	list("errors", b.Errors)
	row("ids accepted, judged", fmt.Sprintf("%d, %d", r.Accepted, r.Judged))
	row("duplicates absorbed", r.Absorbed)
	row("commands per transaction", fmt.Sprintf("%.1f", r.PerTx))
	for _, what := range r.Struck {
		row("struck", what)
	}
	row("sale took", fmt.Sprintf("%.1f s", b.Duration.Seconds()))
	fmt.Fprintln(t, "hop\tp50\tp95\tp99\tseen by")
	hop := func(name string, q Quantiles, by string) {
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\n", name, show(q.P50), show(q.P95), show(q.P99), by)
	}
	own := func(h buyers.Hop) Quantiles {
		if b.Samples(h) == 0 {
			return Quantiles{-1, -1, -1}
		}
		return Quantiles{b.Percentile(h, 0.50), b.Percentile(h, 0.95), b.Percentile(h, 0.99)}
	}
	hop("join", own(buyers.HopJoin), "buyers")
	hop("poll", own(buyers.HopPoll), "buyers")
	hop("free slot to next grant", r.FreeSlot, "schedulers")
	hop("order accept", own(buyers.HopOrder), "buyers")
	hop("verdict read", own(buyers.HopVerdict), "buyers, asking every 0.1 to 0.2 s")
	hop("verdict told", r.Verdict, "consumers")
	hop("event published", r.Event, "relay")
	if err := t.Flush(); err != nil {
		return fmt.Errorf("print table: %w", err)
	}
	for _, f := range r.Audit.Findings {
		fmt.Fprintf(&text, "%s %s: %s\n", f.Promise, f.Verdict, f.Looked)
		for _, fault := range f.Faults {
			fmt.Fprintf(&text, "    %s\n", fault)
		}
		if f.More > 0 {
			fmt.Fprintf(&text, "    and %d more\n", f.More)
		}
	}
	for _, note := range r.Audit.Notes {
		fmt.Fprintf(&text, "note: %s\n", note)
	}
	for _, fault := range r.Faults {
		fmt.Fprintf(&text, "FAULT: %s\n", fault)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

func show(d time.Duration) string {
	if d < 0 {
		return "-"
	}
	return d.Round(100 * time.Microsecond).String()
}
