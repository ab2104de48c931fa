package main

import (
	"fmt"
	"net/url"
	"testing"

	"hanjul/pkg/kafka"
	"hanjul/pkg/ledger"
	"hanjul/pkg/ledger/ledgertest"
	"hanjul/pkg/order"
	"hanjul/pkg/postgres"
	"hanjul/pkg/product"
)

// Postgres is put back to an earlier moment while Redis, the topics and the group's offsets stay where they are: the consumers read the log
// again from where the ledger stands and come to the same verdicts, with the same events.
func TestAppReadsTheLogAgainForARestoredLedger(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if code, _, stderr := call(t, w.environ(), "topics", "--create"); code != 0 {
		t.Fatalf("topics: %s", stderr)
	}
	const pear = product.ID("pear")
	c := w.client(t)
	ledgertest.Product(t, c.books, pear, 3)
	_, stop := w.start(t)
	var ids []order.ID
	buy := func(user product.UserID, state order.State, reason order.Reason) {
		t.Helper()
		id, record := c.place(pear, user, product.Place(len(ids)+1), 1)
		c.send(record)
		c.untilStatus(id, state, reason)
		ids = append(ids, id)
	}
	buy("ann", order.StateConfirmed, "")
	if err := stop(); err != nil {
		t.Fatal(err)
	}

	// The copy, of a database that nobody uses meanwhile.
	c.books.Close()
	now, err := url.Parse(w.url)
	if err != nil {
		t.Fatal(err)
	}
	name := now.Path[1:]
	server, older := *now, *now
	server.Path, older.Path = "/postgres", "/"+name+"_older"
	admin := ledgertest.OpenAt(t, server.String())
	if _, err := admin.Pool().Exec(t.Context(), fmt.Sprintf(`CREATE DATABASE %q TEMPLATE %q`, name+"_older", name)); err != nil {
		t.Fatal(err)
	}
	_, stop = w.start(t)
	buy("ben", order.StateConfirmed, "")
	buy("cid", order.StateConfirmed, "")
	buy("dan", order.StateRejected, order.ReasonSoldOut)
	until(t, "published", func() error {
		if n := len(c.facts(pear)); n < len(ids) {
			return fmt.Errorf("%d events", n)
		}
		return nil
	})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	before := c.facts(pear)

	w.url = older.String()
	books, err := ledger.Open(t.Context(), postgres.At(w.url), ledger.Config{Topics: w.topics})
	if err != nil {
		t.Fatal(err)
	}
	defer books.Close()
	if have, err := books.OrdersByID(t.Context(), ids); err != nil || len(have) != 1 {
		t.Fatalf("the copy knows %d orders, expected the first alone: %v", len(have), err)
	}
	_, stop = w.start(t)
	until(t, "judged again", func() error {
		have, err := books.OrdersByID(t.Context(), ids)
		if err == nil && len(have) != len(ids) {
			err = fmt.Errorf("%d orders", len(have))
		}
		return err
	})
	until(t, "published again", func() error {
		if n := len(c.facts(pear)); n < len(before)+3 {
			return fmt.Errorf("%d events", n)
		}
		return nil
	})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	have, err := books.OrdersByID(t.Context(), ids)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []order.State{order.StateConfirmed, order.StateConfirmed, order.StateConfirmed, order.StateRejected} {
		if row := have[ids[i]]; row.State != want {
			t.Errorf("order %d is %s, it was %s", i, row.State, want)
		}
	}
	// Every event of the second time is one of the first: same id, same seq.
	seqs := map[int64]string{}
	partition := kafka.Partition([]byte(pear), 3)
	first, end, err := kafka.Offsets(t.Context(), kafka.Config{Brokers: w.brokers}, w.topics.Events)
	if err != nil {
		t.Fatal(err)
	}
	err = kafka.Read(t.Context(), kafka.Config{Brokers: w.brokers}, w.topics.Events, partition, first[partition], end[partition], func(m kafka.Message) error {
		event, err := order.DecodeEvent(m.Value)
		if err != nil || event.Product != pear {
			return err
		}
		for _, header := range m.Headers {
			if header.Key != "ce_id" {
				continue
			}
			id := string(header.Value)
			if earlier, seen := seqs[event.Seq]; seen && id != earlier {
				t.Errorf("seq %d is of the events %s and %s", event.Seq, earlier, id)
			}
			seqs[event.Seq] = id
		}
		return nil
	})
	if err != nil || len(seqs) != len(before) {
		t.Errorf("%d events by seq, expected %d: %v", len(seqs), len(before), err)
	}
}
