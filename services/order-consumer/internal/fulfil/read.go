package fulfil

import (
	"fmt"
	"runtime"
	"sync"

	"hanjul/pkg/ledger"
	"hanjul/services/order-consumer/internal/intake"
)

// reading is what step 0 made of a batch: the judge's inputs, up to the first record of a version that this build does not know, and
// the offset below which every record has its verdict once these have theirs. at is that record's, err says what is wrong with it.
type reading struct {
	inputs []ledger.Input
	next   int64
	at     int64
	err    error
}

// Prepare is step 0, which may be done ahead of a batch's turn: it decodes and verifies, and touches nothing. Pass it to intake, which
// keeps what it returns with the batch; Fulfil does without where there is none. Safe for concurrent use.
func (f *Fulfiller) Prepare(b intake.Batch) any { return f.read(b) }

// read verifies on all processors, the signatures of each part together: one by one they would take longer than everything else that
// this process does for an order.
func (f *Fulfiller) read(b intake.Batch) reading {
	inputs, faults := make([]ledger.Input, len(b.Records)), make([]error, len(b.Records))
	var parts sync.WaitGroup
	size := max(minPart, (len(b.Records)+runtime.GOMAXPROCS(0)-1)/runtime.GOMAXPROCS(0))
	for from := 0; from < len(b.Records); from += size {
		parts.Go(func() {
			to := min(from+size, len(b.Records))
			read, failed := f.Verifier.read(b.Records[from:to])
			copy(inputs[from:to], read)
			copy(faults[from:to], failed)
		})
	}
	parts.Wait()
	for i, err := range faults {
		if err != nil {
			at := b.Records[i].Offset
			return reading{inputs: inputs[:i], next: min(b.Next, at), at: at, err: err}
		}
	}
	return reading{inputs: inputs, next: b.Next}
}

// minPart is the fewest records that are worth a goroutine, and that have most of what verifying together gains.
const minPart = 64

// stopped is the error of a batch that was cut short, told each time it comes.
func (f *Fulfiller) stopped(b intake.Batch, r reading) error {
	if r.err == nil {
		return nil
	}
	f.metrics.unknownVersion.Inc()
	f.Logger.Error("command of a later build stops the partition; deploy a consumer that knows it",
		"topic", b.Topic, "partition", b.Partition, "offset", r.at, "err", r.err)
	return fmt.Errorf("fulfil %s/%d at %d: %w", b.Topic, b.Partition, r.at, r.err)
}
