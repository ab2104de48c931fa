package admit

import (
	"context"
	"errors"
	"time"

	"hanjul/pkg/ledger"
	"hanjul/pkg/waitingroom"
	"hanjul/services/admission-scheduler/internal/pace"
)

// lapsedMost is how many passes one run of the script frees at most; a run that freed as many may have left some.
const lapsedMost = 100

// awayCalls is how many more calls a turn makes to move absent people out of the way; what they leave waits for the next turn.
const awayCalls = 50

// turn asks the line to move, as often as it gives all it was asked for within the plan, and says when to ask again.
func (n *line) turn(ctx context.Context) (time.Duration, error) {
	row, tick, share := n.row.Load(), n.loop.Tick, n.loop.share(n.id)
	limits := limits(row)
	limits.Rate *= share
	plan := pace.For(limits, pace.Stock{Known: true, Left: row.Total - row.Sold + int64(row.Settings.Oversub)}, tick)
	for calls, more := plan.Calls, awayCalls; calls > 0; calls-- {
		result, err := n.loop.Admitter.AdmitShare(ctx, n.id, plan.Ask, share)
		if errors.Is(err, waitingroom.ErrNotReady) {
			// Redis lost the line since the last upkeep: see to it at once.
			n.loop.metrics.runs.WithLabelValues("lost").Inc()
			n.upkeepAt = time.Time{}
			return pace.Least, nil
		}
		if err != nil {
			return 0, err
		}
		n.loop.metrics.ran(result)
		n.waiting = result.Waiting
		n.held.Store(result.Reason == waitingroom.AdmitCapacity)
		if result.Reason != waitingroom.AdmitEmpty {
			n.idle = 0
		}
		switch {
		case result.Reason == waitingroom.AdmitAway && more > 0:
			calls, more = calls+1, more-1 // those behind them are reached within the turn
			continue
		case result.Lapsed >= lapsedMost, result.Reason == waitingroom.AdmitAway:
			continue
		case result.Reason == waitingroom.AdmitFull:
			continue
		case result.Reason == waitingroom.AdmitRate || result.Reason == waitingroom.AdmitLag:
			n.earliest = time.Now().Add(result.NextToken)
			return min(max(plan.Every, result.NextToken), tick), nil
		case result.NextEnd > 0:
			// Nobody tells when a pass ends: it is looked for at that moment. Twice, or late: another look.
			return min(n.rest(result.Reason), max(result.NextEnd, pace.Least)), nil
		default:
			return n.rest(result.Reason), nil
		}
	}
	return plan.Every, nil
}

// idleLooks is how many looks at an empty line come at the tick; the wait for each further one is doubled.
const idleLooks = 16

// rest is how long a line is left alone that no token makes move. Its passes lapse meanwhile and what ended is forgotten, so it is never
// left for longer than an upkeep.
func (n *line) rest(reason waitingroom.AdmitReason) time.Duration {
	tick, longest := n.loop.Tick, max(n.loop.Tick, n.loop.Upkeep)
	switch reason {
	case waitingroom.AdmitPaused, waitingroom.AdmitQueueOff, waitingroom.AdmitClosed, waitingroom.AdmitNotOpen:
		return longest // only an operator changes it, whose settings wake the line
	case waitingroom.AdmitSoldOut:
		if n.loop.heard.Load() {
			return longest
		}
	case waitingroom.AdmitEmpty:
		if n.loop.heard.Load() {
			return longest
		}
		n.idle++
		return min(tick<<min(max(n.idle-idleLooks, 0), 10), longest)
	}
	return tick
}

func limits(row *ledger.ProductRow) pace.Limits {
	s := row.Settings
	return pace.Limits{Rate: s.Rate, Burst: s.Burst, Capacity: s.Capacity, UnitsPerPass: s.UnitsPerPass}
}
