package relay

import (
	"context"
	"time"

	"hanjul/pkg/kafka"
	"hanjul/pkg/outbox"
)

// flight is what one ownership has on its way: of each lane at most one run of rows. A lane whose partition does not answer stays
// on its way until the producer gives up, and the others go on without it. Not safe for concurrent use: the loop owns it, its
// goroutines only report to landings.
type flight struct {
	ctx      context.Context //nolint:containedctx // the life of the sends, which outlive the call that began them
	cancel   context.CancelFunc
	producer Producer
	landings chan landing
	lanes    map[outbox.Lane]int // rows on their way
	rows     int
}

// landing is the answer to one lane's rows.
type landing struct {
	lane    outbox.Lane
	rows    []outbox.Row
	results []kafka.Result
	at      time.Time
}

// good is how many of the rows count as published.
func (l landing) good() int {
	for i, result := range l.results {
		if result.Outcome != kafka.Accepted {
			return i
		}
	}
	return len(l.rows)
}

func newFlight(ctx context.Context, producer Producer) *flight {
	ctx, cancel := context.WithCancel(ctx)
	return &flight{ctx: ctx, cancel: cancel, producer: producer, landings: make(chan landing), lanes: make(map[outbox.Lane]int)}
}

// launch hands rows to the producer, each lane's for itself and in order, and returns how many lanes that were.
func (f *flight) launch(rows []outbox.Row) int {
	runs := make(map[outbox.Lane][]outbox.Row)
	for _, row := range rows {
		runs[row.Lane()] = append(runs[row.Lane()], row)
	}
	for lane, run := range runs {
		f.lanes[lane] = len(run)
		f.rows += len(run)
		go func() {
			records := make([]kafka.Record, len(run))
			for i, row := range run {
				records[i] = Record(row)
			}
			results := f.producer.Produce(f.ctx, records)
			f.landings <- landing{lane, run, results, time.Now()}
		}()
	}
	return len(runs)
}

// land notes that a landing was taken, and returns it.
func (f *flight) land(l landing) landing {
	f.rows -= f.lanes[l.lane]
	delete(f.lanes, l.lane)
	return l
}

// collect takes so many landings, but waits no longer than patience for them; beyond most rows on their way it waits for one at
// least, so that what a partition holds up stays bounded.
func (f *flight) collect(fresh int, patience time.Duration, most int) []landing {
	var landed []landing
	timer := time.NewTimer(patience)
	defer timer.Stop()
	late := timer.C
	for len(landed) < fresh {
		select {
		case l := <-f.landings:
			landed = append(landed, f.land(l))
		case <-late:
			if f.rows < most {
				return landed
			}
			late, fresh = nil, len(landed)+1
		}
	}
	return landed
}

// drain waits for everything that is on its way.
func (f *flight) drain() []landing {
	var landed []landing
	for len(f.lanes) > 0 {
		landed = append(landed, f.land(<-f.landings))
	}
	return landed
}

// abandon gives up what is on its way: it may still reach the log, and is published again by whoever owns the outbox next.
func (f *flight) abandon() {
	f.cancel()
	f.drain()
}
