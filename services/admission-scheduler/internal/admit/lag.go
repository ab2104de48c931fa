package admit

import (
	"context"
	"time"

	"hanjul/pkg/product"
	"hanjul/services/admission-scheduler/internal/pace"
)

// Behind is what comes after the lines and is not done yet.
type Behind struct {
	Records map[int]int64 // commands that no consumer has handled, by partition
	Outbox  int64         // rows that are not published
}

// Lag says how a backlog behind the lines holds them back. The zero Lag holds nothing back.
type Lag struct {
	Measure     func(ctx context.Context) (Behind, error)
	PartitionOf func(p product.ID) int // the partition of the product's commands

	// Of the commands in a product's partition, so that one hot product holds back its own line and those beside it in the log; and of
	// the outbox, which is everybody's.
	Records, Outbox pace.Marks
}

const (
	measureEvery = time.Second
	// lagHolds is for how long the last measure counts when no other can be had. Then the whole rate is admitted: it is what the operator
	// allows, and nobody waits for ever because a number cannot be read.
	lagHolds = 30 * time.Second
)

// measure asks how far behind everything is, each second until ctx ends. Every scheduler measures for itself and holds its own runs back;
// the share only ever lowers the rate, so the bounds of the script hold whatever the measures are.
func (l *Loop) measure(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	shares := map[int]float64{}
	measured := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		timer.Reset(measureEvery)
		behind, err := l.behind(ctx)
		switch {
		case err == nil:
			measured = time.Now()
			shares = l.Lag.follow(shares, behind)
			l.repeats.Over(ctx, "lag not measured")
		case time.Since(measured) >= lagHolds:
			shares = map[int]float64{}
			fallthrough
		default:
			l.complain(ctx, "lag not measured", err)
		}
		current := shares
		l.shares.Store(&current)
		least := 1.0
		for _, share := range shares {
			least = min(least, share)
		}
		l.metrics.lagShare.Set(least)
	}
}

func (l *Loop) behind(ctx context.Context) (Behind, error) {
	ctx, cancel := context.WithTimeout(ctx, l.Deadline)
	defer cancel()
	return l.Lag.Measure(ctx)
}

// follow makes the shares of all partitions after a measure; what is not in before was whole.
func (g Lag) follow(before map[int]float64, behind Behind) map[int]float64 {
	outbox := g.Outbox.Share(behind.Outbox)
	after := make(map[int]float64, len(behind.Records))
	for partition, records := range behind.Records {
		last, known := before[partition]
		if !known {
			last = 1
		}
		after[partition] = pace.Follow(last, min(outbox, g.Records.Share(records)))
	}
	return after
}

// share is the share of its rate that a product's line may move at now.
func (l *Loop) share(p product.ID) float64 {
	shares := l.shares.Load()
	if shares == nil {
		return 1
	}
	if share, known := (*shares)[l.Lag.PartitionOf(p)]; known {
		return share
	}
	return 1
}
