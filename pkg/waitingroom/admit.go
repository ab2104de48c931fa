package waitingroom

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"hanjul/lua"
	"hanjul/pkg/product"
	"hanjul/pkg/redisconn"
	"hanjul/pkg/ticket"
)

// AdmitMax is the most people that one call of Admit lets through.
const AdmitMax = 500

// AdmitReason is why Admit let through fewer than it was asked for.
type AdmitReason string

// The reasons. AdmitFull means that there may be more: call again.
const (
	AdmitFull         AdmitReason = "" // as many as asked for
	AdmitEmpty        AdmitReason = "empty"
	AdmitCapacity     AdmitReason = "capacity"
	AdmitRate         AdmitReason = "rate"
	AdmitLag          AdmitReason = "lag"  // the rate, of which the caller allowed a share only
	AdmitAway         AdmitReason = "away" // more may be absent at the front than one call moves: call again at once
	AdmitPaused       AdmitReason = "paused"
	AdmitQueueOff     AdmitReason = "queue_off" // people order without a pass; the line stands as it is
	AdmitClosed       AdmitReason = "closed"
	AdmitNotOpen      AdmitReason = "not_open"
	AdmitSoldOut      AdmitReason = "sold_out"      // every unit is sold, held, or spoken for by a pass
	AdmitStockUnknown AdmitReason = "stock_unknown" // ask for load_stock (LoadAsked)
)

// AdmitResult is what one call did.
type AdmitResult struct {
	Admitted int
	Lapsed   int // passes whose time was over, freed by this call; at most 100, so call again when it is 100
	Reason   AdmitReason
	// Waits are, for those among the admitted who were let through because a slot became free in a line that was held up by its
	// capacity, how long that slot had been free. Admissions that waited for a token or for somebody to come have none.
	Waits     []time.Duration
	Waiting   int64         // people still waiting
	Active    int64         // unexpired passes
	NextToken time.Duration // of AdmitRate and AdmitLag: until the next token
	NextEnd   time.Duration // of AdmitCapacity: until the first pass ends, unless it is used before; 0 for none, and while pass time stands still
	// Stood is how much of the time since the last run of whichever scheduler did not count for passes, and why.
	Stood    time.Duration
	StoodFor Standstill
	// Away were unheard for too long and moved out of the way of others, with their place kept; AwayLapsed were not heard in their grace
	// either (U4).
	Away, AwayLapsed int
}

// Standstill is why the running time of a product stands still.
type Standstill string

// The reasons. Nothing lapses meanwhile, and every pass keeps what was left of its time.
const (
	StandsNot    Standstill = ""
	StandsHalted Standstill = "halted" // orders are halted by an operator
	StandsDeaf   Standstill = "deaf"   // no queue-api said that it is there (Room.Beat)
	StandsHeld   Standstill = "held"   // every unit left is held by an order that awaits its verdict, which may give it back (F37)
	StandsGap    Standstill = "gap"    // admit was not run for longer than Allowance
)

// Allowance is the longest time from one run of Admit for a product to the next that counts whole for its passes. Run it more often
// than that for every open line, also where nobody can be admitted.
const Allowance = 5 * time.Second

// Admitter lets people through. It is apart from Room because its client must not repeat a command by itself (F41).
// Safe for concurrent use and for any number of processes: the script keeps to rate and capacity.
type Admitter struct {
	rdb   redis.UniversalClient
	keys  product.Keyspace
	admit *redisconn.Script
	deaf  atomic.Bool // what Listen found last
}

// NewAdmitter takes a client that sends each command at most once (redisconn.OnceOptions).
func NewAdmitter(rdb redis.UniversalClient, keys product.Keyspace) *Admitter {
	return &Admitter{rdb: rdb, keys: keys, admit: redisconn.LoadScript(lua.FS, "waitingroom_admit.lua")}
}

// Admit is AdmitShare with the whole rate.
func (a *Admitter) Admit(ctx context.Context, p product.ID, limit int) (AdmitResult, error) {
	return a.AdmitShare(ctx, p, limit, 1)
}

// AdmitShare frees passes whose time is over (U6), forgets what ended longer ago than a ticket lives, a hundred people and a hundred
// orders at most, then lets the first of the line through (U5), at most limit (1–AdmitMax) and within capacity, stock and the share of
// the product's rate (above 0, at most 1; what flowed in since the last call is counted with it). ErrNotReady without settings. After an
// error it may have run; a repeat admits others, still within the bounds.
func (a *Admitter) AdmitShare(ctx context.Context, p product.ID, limit int, share float64) (AdmitResult, error) {
	k := a.keys.Product(p)
	deaf := "0"
	if a.deaf.Load() {
		deaf = "1"
	}
	answer, err := a.admit.Run(ctx, a.rdb, []string{
		k.Settings, k.Clock, k.Waiting, k.Active, k.Who, k.WhoT, k.Stock, k.Tally, k.Admits, k.Judged, k.Changes, k.Away, k.AwayTill, k.Seen,
	}, strconv.Itoa(min(max(limit, 1), AdmitMax)), strconv.FormatInt(ticket.Remembered.Milliseconds(), 10), strconv.FormatFloat(share, 'f', -1, 64), deaf)
	if err != nil {
		return AdmitResult{}, fmt.Errorf("admit: product %s: %w", p, err)
	}
	if answer.Text(0) == "absent" {
		return AdmitResult{}, fmt.Errorf("admit: product %s: %w", p, ErrNotReady)
	}
	result := AdmitResult{
		Reason: AdmitReason(answer.Text(1)), Admitted: int(answer.Int(2)), Lapsed: int(answer.Int(3)),
		Waiting: answer.Int(4), Active: answer.Int(5), NextToken: time.Duration(answer.Int(6)) * time.Millisecond,
		Stood: time.Duration(answer.Int(8)) * time.Millisecond, StoodFor: Standstill(answer.Text(9)),
		Away: int(answer.Int(10)), AwayLapsed: int(answer.Int(11)),
	}
	if result.Reason == AdmitCapacity {
		result.NextToken, result.NextEnd = 0, result.NextToken
	}
	waits := answer.List(7)
	for i := range waits.Len() {
		result.Waits = append(result.Waits, time.Duration(waits.Int(i))*time.Millisecond)
	}
	if err := answer.Err(); err != nil {
		return AdmitResult{}, broken(p, fmt.Errorf("admit: %w", err))
	}
	return result, nil
}
