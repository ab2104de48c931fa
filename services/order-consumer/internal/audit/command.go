package audit

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"hanjul/pkg/journal"
	"hanjul/pkg/product"
)

// ErrBroken says that the books do not balance; the report was printed.
var ErrBroken = errors.New("a promise is broken")

// Options are what a caller of the subcommand chose.
type Options struct {
	Product product.ID
	Journal string // a file, or empty
	Wait    time.Duration
	JSON    bool
}

// ParseOptions reads the subcommand's arguments. Every fault names its flag.
func ParseOptions(args []string, usage io.Writer) (Options, error) {
	var o Options
	var id string
	flags := flag.NewFlagSet("audit", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.StringVar(&id, "product", "", "the `product` to audit (required)")
	flags.StringVar(&o.Journal, "journal", "", "the buyers' journal, a `file` of JSON lines; without it I4, I7 and parts of I2, I6 and I8 have less to look at")
	flags.DurationVar(&o.Wait, "wait", time.Minute, "how long to wait until nothing is on its way")
	flags.BoolVar(&o.JSON, "json", false, "print one JSON document instead of lines")
	flags.Usage = func() {
		fmt.Fprint(usage, `Holds a product's books against the promises I1 to I10, and says for each what it looked at.
It waits until no command, event or hold is on its way, reads, and changes nothing.
Of a product whose oldest outbox partitions or records in Kafka are gone for their age, it checks the rest and says what it could not look at.
Exit code 0: audit: ok, or ok in what is kept. 1: audit: FAILED, or the books could not be read. 2: wrong arguments.

Example:
  order-consumer audit --product demo --journal journal.jsonl

`)
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return Options{}, err
	}
	if flags.NArg() > 0 {
		return Options{}, fmt.Errorf("audit: unexpected argument %q", flags.Arg(0))
	}
	var err error
	if o.Product, err = product.ParseID(id); err != nil {
		return Options{}, fmt.Errorf("audit: --product: %w", err)
	}
	if o.Wait <= 0 {
		return Options{}, errors.New("audit: --wait: expected a time above 0, such as 60s")
	}
	return o, nil
}

// Run waits until the product is at rest, takes the cut, and prints the report. ErrBroken when a promise is broken; any other error
// when the books could not be read. A product that does not come to rest in time is reported as it is, with a note.
func Run(ctx context.Context, s Sources, o Options, out io.Writer) error {
	var entries []journal.Entry
	if o.Journal != "" {
		file, err := os.Open(o.Journal)
		if err != nil {
			return fmt.Errorf("audit: --journal: %w", err)
		}
		entries, err = journal.Read(file, o.Product)
		if err := errors.Join(err, file.Close()); err != nil {
			return fmt.Errorf("audit: --journal: %w", err)
		}
	}
	waiting, cancel := context.WithTimeout(ctx, o.Wait)
	restless := Wait(waiting, s, o.Product)
	cancel()
	if ctx.Err() != nil {
		return fmt.Errorf("audit: %w", ctx.Err())
	}
	books, err := Load(ctx, s, o.Product, entries)
	if err != nil {
		return err
	}
	report := Check(books)
	if restless != nil {
		report.Notes = append(report.Notes, fmt.Sprintf("after %s still %s", o.Wait, restless))
	}
	if o.JSON {
		err = json.NewEncoder(out).Encode(struct {
			Report
			OK      bool `json:"ok"`
			Partial bool `json:"partial"`
		}{report, report.OK(), report.Partial()})
	} else {
		err = report.Print(out)
	}
	if err != nil {
		return fmt.Errorf("audit: print: %w", err)
	}
	if !report.OK() {
		return fmt.Errorf("audit of %s: %w", o.Product, ErrBroken)
	}
	return nil
}
