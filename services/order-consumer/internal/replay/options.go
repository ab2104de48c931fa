// Package replay publishes events again for operators: those of one product, by range, time, type or id, to the topic of events or to another
// of a closed list, at a bounded rate, with their own ids and in their own order. It owns the subcommand's options, the questions it asks,
// the pace and the progress lines; what is read and how far it came is package outbox's. It never publishes what the relay has not
// published before, and never touches the relay's claims.
package replay

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"hanjul/pkg/order"
	"hanjul/pkg/outbox"
	"hanjul/pkg/product"
)

// Options are what an operator asked for.
type Options struct {
	outbox.Wanted
	Resume   string
	Topic    string // empty: the topic of events
	Rate     int
	Operator string
	DryRun   bool
	Yes      bool
	JSON     bool
}

const help = `Publishes events of one product again, for readers that lost or spoiled theirs. Says first how many events match. Events keep their ids, and each
carries the headers ce_replayid and ce_replayattempt. They leave in the order of their seq, at most --rate per second, while the
relay goes on beside it. Only what was published before is replayed. Ctrl-C stops after the batch in hand and keeps the progress;
the same command with --resume ID goes on. A replay to the live topic asks for the product's name, unless --yes.
Times are turned into a range of seq, which may hold a few neighbours whose own time is outside.
It runs as long as this command; on the operators' port POST /v1/products/PRODUCT/replays asks for one that order-consumer runs in
the background, and lists and cancels both kinds.
Exit code 0: done, or counted. 1: stopped or failed. 2: wrong arguments, or not confirmed.

Examples:
  order-consumer outbox replay --product demo --from-seq 100 --to-seq 200 --dry-run
  order-consumer outbox replay --product demo --since 2027-01-15T08:00:00Z --until 2027-01-15T09:00:00Z --to-topic order-events.rebuild
  order-consumer outbox replay --product demo --type hanjul.order.confirmed,hanjul.order.cancelled --rate 200 --yes
  order-consumer outbox replay --product demo --event-id 0f2c1d3e-5a6b-5c7d-8e9f-001122334455
  order-consumer outbox replay --product demo --resume k3v9x2m4q8ab

`

// ParseOptions reads the subcommand's arguments. topics are those that --to-topic may name, the live one first. Every fault names its flag.
func ParseOptions(args []string, topics []string, operator string, usage io.Writer) (Options, error) {
	var o Options
	var id, types, since, until string
	flags := flag.NewFlagSet("outbox replay", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.StringVar(&id, "product", "", "the `product` whose events are replayed (required)")
	flags.Int64Var(&o.FromSeq, "from-seq", 0, "first `seq`; default the oldest")
	flags.Int64Var(&o.ToSeq, "to-seq", 0, "last `seq`; default the newest published")
	flags.StringVar(&since, "since", "", "events from this `time` on, as 2027-01-15T08:00:00Z")
	flags.StringVar(&until, "until", "", "events before this `time`")
	flags.StringVar(&types, "type", "", "only events of these `types`, with commas between")
	flags.StringVar(&o.EventID, "event-id", "", "only the event with this `id`")
	flags.StringVar(&o.Topic, "to-topic", topics[0], "where to: one of "+strings.Join(topics, ", "))
	flags.IntVar(&o.Rate, "rate", outbox.RateDefault, "most events per `second`, 1 to 100000")
	flags.StringVar(&o.Resume, "resume", "", "go on with the stopped replay of this `id`")
	flags.StringVar(&o.Operator, "operator", operator, "`who` asks, for the operators' actions")
	flags.BoolVar(&o.DryRun, "dry-run", false, "count and end")
	flags.BoolVar(&o.Yes, "yes", false, "do not ask")
	flags.BoolVar(&o.JSON, "json", false, "print JSON lines")
	flags.Usage = func() {
		fmt.Fprint(usage, help)
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("outbox replay: "+format, args...))
	}
	if flags.NArg() > 0 {
		fault("unexpected argument %q", flags.Arg(0))
	}
	var err error
	if o.Product, err = product.ParseID(id); err != nil {
		fault("--product: %w", err)
	}
	if o.FromSeq < 0 || o.ToSeq < 0 || o.ToSeq > 0 && o.ToSeq < o.FromSeq {
		fault("--from-seq, --to-seq: expected a range of numbers above 0")
	}
	for _, t := range []struct {
		name, text string
		into       *time.Time
	}{{"since", since, &o.Since}, {"until", until, &o.Until}} {
		if t.text == "" {
			continue
		}
		if *t.into, err = time.Parse(time.RFC3339, t.text); err != nil {
			fault("--%s: expected a time such as 2027-01-15T08:00:00Z, found %q", t.name, t.text)
		}
	}
	if types != "" {
		o.Types = strings.Split(types, ",")
	}
	for _, t := range o.Types {
		if known := order.EventTypes(); !slices.Contains(known, order.EventType(t)) {
			fault("--type: expected some of %v, found %q", known, t)
		}
	}
	if o.EventID != "" && !regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`).MatchString(o.EventID) {
		fault("--event-id: expected a UUID in lower case, found %q", o.EventID)
	}
	if !slices.Contains(topics, o.Topic) {
		fault("--to-topic: expected one of %s, found %q", strings.Join(topics, ", "), o.Topic)
	}
	if o.Rate < 1 || o.Rate > outbox.RateMax {
		fault("--rate: expected 1 to 100000")
	}
	if o.Operator == "" {
		fault("--operator: expected a name")
	}
	return o, errors.Join(faults...)
}

// Who is the operator's name as the environment has it.
func Who(environ []string) string {
	for _, name := range []string{"SUDO_USER=", "USER=", "LOGNAME="} {
		for _, entry := range environ {
			if value, found := strings.CutPrefix(entry, name); found && value != "" {
				return value
			}
		}
	}
	return ""
}

// isTerminal says whether somebody may be there to answer.
func isTerminal(in io.Reader) bool {
	file, ok := in.(*os.File)
	if !ok {
		return in != nil
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
