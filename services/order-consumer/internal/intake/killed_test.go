package intake

import (
	"testing"

	"hanjul/deploy/local/localtest"
)

// K30: the only broker is killed while a member has work, and comes back: the member
// goes on by itself, as often as that happens, and passes over nothing.
func TestKafkaIntakeOutlivesItsBroker(t *testing.T) {
	t.Parallel()

	const kills = 2

	broker := localtest.KafkaNode(t)
	b := fresh(t, broker.Addrs())

	var handled journal

	m := b.start(t, handled.handle, func(c *Config) { c.MaxRecords = 5 })
	m.ready(t)

	for range kills {
		b.send(t, 200, 0, 1, 2)
		eventually(t, "some were handled", func() bool { return handled.count(0) > b.sent[0]-200 })
		broker.Kill()

		if err := broker.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}

	b.send(t, 10, 0, 1, 2)
	eventually(t, "everything is committed", func() bool { return b.allCommitted(t) })
	m.stop(t)

	if handled.orders != nil {
		t.Error(handled.orders)
	}

	// What was not committed comes again; nothing is passed over.
	for p, seen := range handled.seen {
		next := int64(0)

		for _, offset := range seen {
			if offset > next {
				t.Fatalf("partition %d: offset %d comes before %d", p, offset, next)
			}

			next = max(next, offset+1)
		}

		if int(next) != b.sent[p] {
			t.Errorf("partition %d: %d records came, want %d", p, next, b.sent[p])
		}
	}
}
