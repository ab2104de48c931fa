package intake

import (
	"slices"

	"hanjul/pkg/kafka"
)

// fetchesOfWindow bounds the answers, and with them the bytes, that a window is made of.
const fetchesOfWindow = 4

// window is a run of fetched records that are handled in turns: one of each product, then the next of each, so that the few of one do
// not wait for the many of another. The order within a product is that of the log.
type window struct {
	turns []kafka.Message // in the order of handling
	open  []int64         // offsets that are not handled yet, rising
	end   int64           // the offset behind the last record
}

func newWindow(records []kafka.Message) *window {
	w := &window{turns: make([]kafka.Message, 0, len(records)), open: make([]int64, len(records))}
	queues := make(map[string][]kafka.Message)

	var keys []string // In the order of their first record.

	for i, r := range records {
		w.open[i], w.end = r.Offset, r.Offset+1

		key := string(r.Key)
		if queues[key] == nil {
			keys = append(keys, key)
		}

		queues[key] = append(queues[key], r)
	}

	for turn := 0; len(keys) > 0; turn++ {
		keys = slices.DeleteFunc(keys, func(key string) bool { return len(queues[key]) <= turn })
		for _, key := range keys {
			w.turns = append(w.turns, queues[key][turn])
		}
	}

	return w
}

// take removes the next records from the window, in the order of the log, and gives the offset below which everything is handled once
// they are. It returns none when the window is empty.
func (w *window) take(most int) (records []kafka.Message, next int64) {
	count := min(len(w.turns), most)
	if count == 0 {
		return nil, w.end
	}

	records, w.turns = slices.Clone(w.turns[:count]), w.turns[count:]
	slices.SortFunc(records, func(a, b kafka.Message) int { return int(a.Offset - b.Offset) })

	i := 0
	w.open = slices.DeleteFunc(w.open, func(offset int64) bool {
		for i < len(records) && records[i].Offset < offset {
			i++
		}

		return i < len(records) && records[i].Offset == offset
	})

	if len(w.open) == 0 {
		return records, w.end
	}

	return records, w.open[0]
}
