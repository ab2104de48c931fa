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
const lapsedMost = 200

// turn asks the line to move, as often as it gives all it was asked for within the plan, and says when to ask again.
func (n *line) turn(ctx context.Context) (time.Duration, error) {
	row, tick := n.row.Load(), n.loop.Tick
	plan := pace.For(limits(row), pace.Stock{Known: true, Left: row.Total - row.Sold + int64(row.Settings.Oversub)}, tick)
	for range plan.Calls {
		result, err := n.loop.Admitter.Admit(ctx, n.id, plan.Ask)
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
		switch {
		case result.Lapsed >= lapsedMost:
			continue
		case result.Reason == waitingroom.AdmitFull:
			continue
		case result.Reason == waitingroom.AdmitRate:
			return min(max(plan.Every, result.NextToken), tick), nil
		case resting(result.Reason):
			return max(tick, n.loop.Upkeep), nil
		default:
			return tick, nil
		}
	}
	return plan.Every, nil
}

// resting says that only an operator can make the line move again; the script is still run now and then, because passes lapse.
func resting(reason waitingroom.AdmitReason) bool {
	return reason == waitingroom.AdmitPaused || reason == waitingroom.AdmitClosed || reason == waitingroom.AdmitNotOpen
}

func limits(row *ledger.ProductRow) pace.Limits {
	s := row.Settings
	return pace.Limits{Rate: s.Rate, Burst: s.Burst, Capacity: s.Capacity, UnitsPerPass: s.UnitsPerPass}
}
