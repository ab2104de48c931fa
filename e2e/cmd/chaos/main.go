// Command chaos holds sale after sale on one stack and strikes it with seeded faults: SIGKILL of each binary and of the relay with the most shards, a
// consumer frozen until its partitions have moved, Postgres, Redis (of a Redis Cluster the primary that serves the line) and the broker killed and
// restarted, Redis emptied. After each round the auditor must pass, and the ids that clients were answered with must be those of the ledger. It
// stops at the first round that is not as promised, keeps its data, and prints the command that repeats its seed.
//
// It is set by the environment: ROUNDS (20), SEED (drawn; round n has the seed SEED+n-1), FAULTS (4 of the nine kinds in each round),
// ORDERS (100 units on sale), BUYERS (three times as many, for more than 1,000 orders a fifth more), DATA (.data/chaos).
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
	"strings"
	"syscall"
	"time"

	"hanjul/deploy/local"
	"hanjul/e2e/sale"
	"hanjul/pkg/product"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ok, err := run(ctx, os.Getenv, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
	}
	if ok && err == nil {
		fmt.Println("chaos: ok")
		return
	}
	fmt.Println("chaos: FAILED")
	os.Exit(1)
}

// options are what the environment chose.
type options struct {
	rounds, faults, orders, buyers int
	seed                           uint64
	data                           string
	apache                         bool
}

// manyOrders is where a sale is about the pipeline and no longer about the crowd.
const manyOrders = 1000

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
	o := options{data: getenv("DATA"), apache: getenv("HANJUL_KAFKA") == "jars" || getenv("HANJUL_KAFKA") == "docker"}
	o.rounds = number("ROUNDS", 20, 1, 1_000_000)
	o.faults = number("FAULTS", 4, 0, len(sale.Kinds()))
	o.orders = number("ORDERS", 100, 1, 100_000)
	crowd := 3 * o.orders
	if o.orders > manyOrders {
		crowd = o.orders + o.orders/5
	}
	o.buyers = number("BUYERS", crowd, 1, 200_000)
	o.seed = uint64(number("SEED", 1+rand.IntN(1<<30), 1, 1<<31-1))
	if o.data == "" {
		o.data = filepath.Join(".data", "chaos")
	}
	return o, errors.Join(faults...)
}

// settings admit a large sale faster, so that it takes a minute or two as a whole.
func (o options) settings(s sale.Settings) sale.Settings {
	if o.orders > manyOrders {
		s.Rate = max(s.Rate, float64(o.orders)/60)
		s.Burst, s.Capacity = math.Floor(s.Rate/10), int(2*s.Rate)
		s.PassLife, s.OrderTTL = 30*time.Second, time.Minute // the crowd shares the cores: most are to order, few to lapse
	}
	return s
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
	if err := os.MkdirAll(o.data, 0o755); err != nil {
		return false, fmt.Errorf("make %s: %w", o.data, err)
	}
	dir, err := os.MkdirTemp(o.data, "run-")
	if err != nil {
		return false, fmt.Errorf("make a folder in %s: %w", o.data, err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { // Postgres runs as another user
		return false, fmt.Errorf("open %s: %w", dir, err)
	}
	defer func() {
		if !ok || err != nil {
			fmt.Fprintf(out, "data and logs are kept in %s\n", dir)
			return
		}
		err = os.RemoveAll(dir)
	}()
	env, settings := sale.Quick(o.apache)
	stack, err := local.StartStack(ctx, local.StackOptions{
		DataDir: dir, Persist: true, Private: true, BinDir: filepath.Dir(self), PerService: 2, Env: env, Log: out,
	})
	if err != nil {
		return false, err
	}
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, stack.Stop(ending))
	}()
	fmt.Fprintf(out, "%d rounds of %d buyers and %d units, %d faults in each, seeds from %d\n", o.rounds, o.buyers, o.orders, o.faults, o.seed)
	for n := range o.rounds {
		r := sale.Round{
			Product: product.ID(fmt.Sprintf("chaos-%d", n+1)), Buyers: o.buyers, Stock: o.orders, Seed: o.seed + uint64(n),
			Settings: o.settings(settings), Dir: dir,
		}
		r.Kinds = sale.Draw(r.Seed, o.faults)
		if !hold(ctx, stack, r, n+1, out) {
			redis := ""
			if stack.RedisCluster() != nil {
				redis = " REDIS=cluster"
			}
			fmt.Fprintf(out, "again: make chaos ROUNDS=1 SEED=%d FAULTS=%d ORDERS=%d BUYERS=%d%s\n", r.Seed, o.faults, o.orders, o.buyers, redis)
			return false, nil
		}
	}
	return true, nil
}

// hold tells of one round, in a line when it went well and in full when it did not.
func hold(ctx context.Context, stack *local.Stack, r sale.Round, n int, out io.Writer) bool {
	begun := time.Now()
	report, err := r.Hold(ctx, stack)
	switch {
	case err != nil:
		fmt.Fprintf(out, "round %d, seed %d: %v\n  drawn: %s\n", n, r.Seed, err, strings.Join(r.Kinds, "; "))
		return false
	case !report.OK():
		fmt.Fprintf(out, "round %d, seed %d: not as promised\n", n, r.Seed)
		if err := report.Print(out); err != nil {
			fmt.Fprintf(out, "%v\n", err)
		}
		return false
	}
	fmt.Fprintf(out, "round %d, seed %d: audit ok, %d ids accepted, %d judged, %.1f s; %s\n",
		n, r.Seed, report.Accepted, report.Judged, time.Since(begun).Seconds(), strings.Join(report.Struck, "; "))
	return true
}
