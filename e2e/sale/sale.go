// Package sale runs one whole sale against a local stack, as the demo and the end-to-end tests do: product, opening, buyers, faults
// when asked, audit. It talks to our binaries as everybody else does: over HTTP and by their subcommands.
package sale

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"hanjul/e2e/buyers"
	"hanjul/pkg/journal"
	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// Settings are those of the product on sale.
type Settings struct {
	Rate, Burst        float64
	Capacity           int
	PassLife, OrderTTL time.Duration
	VoidGrace          time.Duration // the consumers' setting, shown only
}

// Stack is what a sale needs of the processes it runs against.
type Stack struct {
	APIs          []string // base URLs
	OperatorURLs  []string
	OperatorToken string
	AdminAddrs    []string // none: the report has no hops that only the processes see
	// Audit runs `order-consumer audit` with the stack's settings and these further arguments.
	Audit func(ctx context.Context, args []string, out io.Writer) error
	// Victims are the processes that chaos may kill, the storefront's first; Empty takes everything from Redis. Nil: no chaos.
	Victims []Victim
	Empty   func(context.Context) error
	// Faults are struck in addition, each once. With any of them buyers need not manage to misbehave as often as they wanted to.
	Faults []Fault
	// Judged gives the ids of every order that the ledger has of the product.
	Judged func(ctx context.Context, p product.ID) ([]order.ID, error)
}

func (s Stack) chaotic() bool { return len(s.Victims)+len(s.Faults) > 0 }

// Config is one sale.
type Config struct {
	Product  product.ID
	Buyers   int
	Stock    int
	Seed     uint64
	Settings Settings
	Dir      string        // for the journal
	Limit    time.Duration // of the buyers' part; those who are still there then are unaccounted
	Progress func(buyers.Result)
}

// Report is what a sale came to.
type Report struct {
	Config   Config
	Buyers   *buyers.Result
	Audit    Audit
	Journal  string // its file
	Struck   []string
	Accepted int       // ids that were answered with 202, each once
	Judged   int       // ids that the ledger has
	FreeSlot Quantiles // free slot → next grant, from the schedulers
	Verdict  Quantiles // record in the log → verdict told, from the consumers
	Event    Quantiles // judged → event on the topic, from the relays
	PerTx    float64   // orders per judge transaction
	Absorbed float64   // commands that were known already
	Faults   []string  // why the sale as a whole is not what it should be
}

// Quantiles of one hop; negative where nothing was observed.
type Quantiles struct{ P50, P95, P99 time.Duration }

// Audit is what `order-consumer audit --json` says.
type Audit struct {
	Product  string    `json:"product"`
	OK       bool      `json:"ok"`
	Findings []Finding `json:"findings"`
	Notes    []string  `json:"notes"`
}

// Finding is the auditor's word on one promise.
type Finding struct {
	Promise string   `json:"promise"`
	Verdict string   `json:"verdict"`
	Looked  string   `json:"looked_at"`
	Faults  []string `json:"faults"`
	More    int      `json:"more_faults"`
}

// OK says that the sale ended as promised.
func (r *Report) OK() bool { return r.Audit.OK && len(r.Faults) == 0 }

// The names of the histograms and counters that the table shows; docs/operations.md lists them.
const (
	metricFreeSlot = "hanjul_admit_free_slot_seconds"
	metricVerdict  = "hanjul_fulfil_verdict_seconds"
	metricEvent    = "hanjul_relay_event_seconds"
	metricPerTx    = "hanjul_fulfil_batch_commands"
	metricKnown    = "hanjul_fulfil_known_total"
)

// Run opens the product, lets the buyers in, and audits. An error means that the sale could not be run; what went wrong in it is in
// the report.
func Run(ctx context.Context, stack Stack, cfg Config) (*Report, error) {
	report := &Report{Config: cfg}
	opening, cancel := context.WithTimeout(ctx, time.Minute)
	err := Open(opening, stack, cfg.Product, cfg.Stock, cfg.Settings)
	cancel()
	if err != nil {
		return nil, err
	}
	before := scrape(ctx, stack.AdminAddrs)
	if err := runBuyers(ctx, stack, cfg, report); err != nil {
		return nil, err
	}
	if err := runAudit(ctx, stack, cfg, report); err != nil {
		return nil, err
	}
	after := scrape(ctx, stack.AdminAddrs)
	between := func(name string) Quantiles {
		s := histogram(after, name).minus(histogram(before, name))
		return Quantiles{s.percentile(0.50), s.percentile(0.95), s.percentile(0.99)}
	}
	report.FreeSlot, report.Verdict, report.Event = between(metricFreeSlot), between(metricVerdict), between(metricEvent)
	if s := histogram(after, metricPerTx).minus(histogram(before, metricPerTx)); s.count > 0 {
		report.PerTx = s.sum / float64(s.count)
	}
	report.Absorbed = max(0, total(after, metricKnown)-total(before, metricKnown))
	if err := compareIDs(ctx, stack, report); err != nil {
		return nil, err
	}
	report.judge(stack)
	return report, nil
}

func runBuyers(ctx context.Context, stack Stack, cfg Config, report *Report) (err error) {
	report.Journal = filepath.Join(cfg.Dir, "journal-"+string(cfg.Product)+".jsonl")
	file, err := os.Create(report.Journal)
	if err != nil {
		return fmt.Errorf("create journal: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	book := journal.NewWriter(file)
	selling, cancel := context.WithTimeout(ctx, cfg.Limit)
	defer cancel()
	var chaos *Chaos
	progress := cfg.Progress
	if stack.chaotic() {
		chaos = newChaos(selling, cfg.Seed, cfg.Buyers, cfg.Stock, stack)
		progress = func(r buyers.Result) {
			chaos.watch(r)
			if cfg.Progress != nil {
				cfg.Progress(r)
			}
		}
	}
	report.Buyers, err = buyers.Run(selling, buyers.Config{
		APIs: stack.APIs, Product: cfg.Product, Buyers: cfg.Buyers, Stock: cfg.Stock, Seed: cfg.Seed, Journal: book, Progress: progress,
	})
	if chaos != nil {
		struck, never, errs := chaos.finish()
		report.Struck = struck
		for _, what := range never {
			report.Faults = append(report.Faults, "never came to: "+what)
		}
		for _, err := range errs {
			report.Faults = append(report.Faults, err.Error())
		}
	}
	return errors.Join(err, book.Close(), ctx.Err())
}

func runAudit(ctx context.Context, stack Stack, cfg Config, report *Report) error {
	var out bytes.Buffer
	err := stack.Audit(ctx, []string{"--product", string(cfg.Product), "--journal", report.Journal, "--json"}, &out)
	if errDecode := json.Unmarshal(out.Bytes(), &report.Audit); errDecode != nil {
		return fmt.Errorf("audit of %s: %w (%w)", cfg.Product, err, errDecode)
	}
	return nil
}

// judge adds what is wrong with the sale beyond the promises.
func (r *Report) judge(stack Stack) {
	chaos := stack.chaotic()
	fault := func(format string, args ...any) { r.Faults = append(r.Faults, fmt.Sprintf(format, args...)) }
	b := r.Buyers
	if !b.Accounted() || b.Joined != b.Buyers {
		fault("%d buyers came, %d joined, and %d are unaccounted for", b.Buyers, b.Joined, b.Outcomes[buyers.Lost])
	}
	for _, last := range b.LastWords {
		fault("unaccounted for: %s", last)
	}
	for _, role := range buyers.Misbehaviours() {
		if len(stack.Faults) > 0 {
			break
		}
		least := max(1, b.Buyers*2/100)
		// A stock below what the roles of the pass need cannot give each of them its two per cent.
		if role == buyers.TwoOrders || role == buyers.Cut || role == buyers.Unused {
			least = max(1, min(least, r.Config.Stock*2/5))
		}
		if role == buyers.Leaver || role == buyers.Refresh || role == buyers.DoubleJoin || r.Config.Stock > 0 {
			if b.Roles[role] < least {
				fault("%q was played by %d buyers, expected at least %d", role, b.Roles[role], least)
			}
		}
	}
	if !chaos {
		for what, n := range b.Errors {
			fault("%d times: %s", n, what)
		}
	}
	if b.Outcomes[buyers.Confirmed] > 0 && !chaos && len(stack.AdminAddrs) > 0 && (r.Verdict.P50 < 0 || r.Event.P50 < 0) {
		fault("the consumers' or the relay's histogram was not found")
	}
	for _, f := range r.Audit.Findings {
		if f.Verdict == "not checked" {
			fault("%s could not be checked", f.Promise)
		}
	}
}
