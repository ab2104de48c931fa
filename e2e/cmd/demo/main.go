// Command demo holds a whole sale on one machine: it starts the servers and two of each binary, sells a product to simulated
// buyers who misbehave, audits the books, ends every process, and says "audit: ok" or "audit: FAILED" as its last line.
//
// It is set by the environment: BUYERS (1000), STOCK (a tenth of them), SEED (drawn), RATE (50 a second), CHAOS=1 (kills one of each
// binary and empties Redis once; with HANJUL_REDIS=cluster it kills the primary that serves the line, a second ahead of its replica, instead),
// DATA (.data/demo, or with an ending such as .data/demo-jars where HANJUL_KAFKA or HANJUL_SERVERS asks for other servers; state and logs stay there).
//
// With API and DESK (base URLs, comma lists), TOKENS (the operators' file) and order-consumer's own settings it starts nothing and sells
// on a hanjul that runs already, such as one in containers; ADMINS (host:port, a comma list) adds what only its processes see. Its
// consumers' HANJUL_CONSUMER_VOID_GRACE should be 5s, or the audit waits longer.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"hanjul/deploy/local"
	"hanjul/e2e/buyers"
	"hanjul/e2e/sale"
	"hanjul/pkg/product"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ok, err := run(ctx, os.Getenv, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
	}
	// Every child has ended: this is the last line.
	if ok && err == nil {
		fmt.Println("audit: ok")
		return
	}
	fmt.Println("audit: FAILED")
	os.Exit(1)
}

// options are what the environment chose.
type options struct {
	buyers, stock int
	seed          uint64
	rate          float64
	chaos         bool
	data          string
	given         given
}

func parse(getenv func(string) string) (options, error) {
	var faults []error
	number := func(name string, def, least, most int) int {
		text := getenv(name)
		if text == "" {
			return def
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < least || n > most {
			faults = append(faults, fmt.Errorf("%s: expected a whole number from %d to %d, got %q", name, least, most, text))
		}
		return n
	}
	o := options{chaos: getenv("CHAOS") == "1", data: getenv("DATA")}
	o.buyers = number("BUYERS", 1000, 1, 100_000)
	o.stock = number("STOCK", max(1, o.buyers/10), 0, 1_000_000)
	o.rate = float64(number("RATE", 50, 1, 10_000))
	o.seed = uint64(number("SEED", 1+rand.IntN(1<<30), 1, 1<<31-1))
	if o.data == "" {
		o.data = filepath.Join(".data", "demo") + local.StateSuffix(getenv)
	}
	if o.chaos && getenv("HANJUL_REDIS_ADDRS") != "" {
		faults = append(faults, errors.New("CHAOS=1 takes everything from Redis, and HANJUL_REDIS_ADDRS names one that is not the demo's own"))
	}
	var err error
	o.given, err = parseGiven(getenv)
	return o, errors.Join(append(faults, err)...)
}

// settings are the product's: a pass life of 5 s instead of minutes, so that unused passes lapse while people watch, and a capacity that
// holds people up now and then, so that the time from a free slot to the next grant is measured.
func (o options) settings() sale.Settings {
	return sale.Settings{
		Rate: o.rate, Burst: max(1, math.Floor(o.rate/10)), Capacity: max(10, int(o.rate/2)),
		PassLife: 5 * time.Second, OrderTTL: 20 * time.Second, VoidGrace: 5 * time.Second,
	}
}

// environment scales the cadence to the pass life and to how many buyers share this machine.
func (o options) environment() map[string]string {
	far := min(4*time.Second, max(time.Second, time.Duration(o.buyers)*time.Millisecond))
	return map[string]string{
		"HANJUL_API_POLL_NEAR":       "500ms",
		"HANJUL_API_POLL_MID":        (far / 2).String(),
		"HANJUL_API_POLL_FAR":        far.String(),
		"HANJUL_CONSUMER_VOID_GRACE": o.settings().VoidGrace.String(),
	}
}

// limit bounds the buyers' part: the joins, the admissions at the rate, and time for what chaos breaks.
func (o options) limit() time.Duration {
	expected := float64(min(o.buyers, 2*o.stock+o.buyers/10)) / o.rate
	return 90*time.Second + time.Duration((float64(o.buyers)/500+expected)*float64(time.Second))
}

func run(ctx context.Context, getenv func(string) string, out io.Writer) (ok bool, err error) {
	o, err := parse(getenv)
	if err != nil {
		return false, err
	}
	self, err := os.Executable()
	if err != nil {
		return false, fmt.Errorf("find the binaries: %w", err)
	}
	if !o.given.empty() {
		return runGiven(ctx, o, filepath.Dir(self), out)
	}
	fmt.Fprintln(out, "starting the servers and two of each binary")
	stack, err := local.StartStack(ctx, local.StackOptions{
		DataDir: o.data, Persist: true, BinDir: filepath.Dir(self), PerService: 2, Env: o.environment(), Log: out,
	})
	if err != nil {
		return false, err
	}
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, stack.Stop(ending))
	}()

	env := o.environment()
	fmt.Fprintf(out, "polls every %s near the front, %s within 1,000, %s behind; data and logs in %s\n",
		env["HANJUL_API_POLL_NEAR"], env["HANJUL_API_POLL_MID"], env["HANJUL_API_POLL_FAR"], o.data)
	target, err := sale.Of(stack, o.chaos)
	if err != nil {
		return false, err
	}
	id := fresh()
	if o.chaos && stack.RedisCluster() != nil {
		lose, err := sale.LosePrimary(stack, id, time.Second)
		if err != nil {
			return false, err
		}
		target.Empty, target.Faults = nil, []sale.Fault{lose}
	}
	return sell(ctx, o, id, target, out)
}

// fresh is the product of this run: an id is never used again.
func fresh() product.ID { return product.ID(time.Now().UTC().Format("demo-20060102-150405")) }

// sell holds the sale and prints its table.
func sell(ctx context.Context, o options, id product.ID, target sale.Stack, out io.Writer) (ok bool, err error) {
	say := &progress{out: out, terminal: isTerminal(out)}
	cfg := sale.Config{
		Product: id, Buyers: o.buyers, Stock: o.stock, Seed: o.seed, Settings: o.settings(), Dir: o.data, Limit: o.limit(), Progress: say.tell,
	}
	if err := cfg.Announce(out); err != nil {
		return false, err
	}
	report, err := sale.Run(ctx, target, cfg)
	say.end()
	if err != nil {
		return false, err
	}
	if err := report.Print(out); err != nil {
		return false, err
	}
	return report.OK(), nil
}

// progress is one line that is written over on a terminal, and a plain line every few seconds elsewhere.
type progress struct {
	out      io.Writer
	terminal bool
	last     time.Time
}

const plainPause = 3 * time.Second

func (p *progress) tell(r buyers.Result) {
	if !p.terminal && time.Since(p.last) < plainPause {
		return
	}
	p.last = time.Now()
	line := fmt.Sprintf("joined %d of %d, admitted %d, confirmed %d, lapsed %d, left %d, sold out %d",
		r.Joined, r.Buyers, r.Admitted, r.Outcomes[buyers.Confirmed], r.Outcomes[buyers.Lapsed], r.Outcomes[buyers.Left], r.Outcomes[buyers.SoldOut])
	if p.terminal {
		fmt.Fprintf(p.out, "\r\x1b[K%s", line)
		return
	}
	fmt.Fprintln(p.out, line)
}

func (p *progress) end() {
	if p.terminal {
		fmt.Fprintln(p.out)
	}
}

func isTerminal(w io.Writer) bool {
	file, is := w.(*os.File)
	if !is {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
