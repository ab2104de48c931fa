package intake

import (
	"fmt"
	"log/slog"
)

// locate finds where to start: at the smaller of the committed offset and what
// the ledger has not judged, and at the first record of the log where one of
// them knows nothing. The log is then read again from there, which changes
// nothing but costs time; to pass over records would lose orders. It returns
// false when the work ended before the answer was there.
func (w *worker) locate(committed int64) bool {
	known := committed >= 0 // Below zero it stands for the first record.

	if known && w.cfg.Progress != nil {
		next, ok, err := w.progress()
		for ; err != nil; next, ok, err = w.progress() {
			w.pause("progress", err)

			if w.reading.Err() != nil {
				return false
			}
		}

		known = ok

		if ok && next < committed {
			w.log.Warn("the ledger is behind the group", slog.Int64("committed", committed), slog.Int64("next_offset", next))
			committed = next
		}

		if !ok {
			w.log.Warn("the ledger knows nothing of this partition", slog.Int64("committed", committed))
		}
	}

	if known {
		w.next = committed
		w.recovered()

		return true
	}

	for w.reading.Err() == nil {
		first, _, err := w.client.Bounds(w.reading, w.cfg.Topic, w.partition)
		if err == nil {
			w.next = first
			w.recovered()

			return true
		}

		w.pause("first offset", err)
	}

	return false
}

func (w *worker) progress() (next int64, ok bool, err error) {
	defer w.pulse.rest()()

	return w.cfg.Progress(w.working, w.cfg.Topic, w.partition)
}

// relocate decides what follows when the position is not in the log. Below its
// start, records were deleted before they were judged: they are counted as
// lost, and the rest goes on. Above its end, the topic is not the one that was
// consumed before: the partition waits for somebody to look.
func (w *worker) relocate() {
	first, end, err := w.client.Bounds(w.reading, w.cfg.Topic, w.partition)

	switch {
	case w.reading.Err() != nil:
	case err != nil:
		w.pause("bounds", err)
	case w.next < first:
		w.metrics.lost.WithLabelValues(w.label).Add(float64(first - w.next))
		w.log.Error("records were deleted before they were read", slog.Int64("offset", w.next), slog.Int64("first_offset", first))
		w.next = first
		w.recovered()
	case w.next > end:
		err := fmt.Errorf("partition %d: offset %d is above the end %d of the log; was the topic made anew?", w.partition, w.next, end)
		if w.strand(err) {
			w.log.Error("partition is stranded", slog.Int64("offset", w.next), slog.Int64("end_offset", end))
		}

		w.pause("fetch", err)
	default:
		w.pause("fetch", fmt.Errorf("offset %d is out of range, but the log reaches from %d to %d", w.next, first, end))
	}
}

// strand notes that the partition cannot go on, or with nil that it can; it
// returns whether that is new.
func (w *worker) strand(err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()

	_, was := w.stranded[w.partition]

	if err == nil {
		delete(w.stranded, w.partition)
		w.metrics.stranded.DeleteLabelValues(w.label)

		return was
	}

	w.stranded[w.partition] = err
	w.metrics.stranded.WithLabelValues(w.label).Set(1)

	return !was
}
