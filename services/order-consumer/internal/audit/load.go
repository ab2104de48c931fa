package audit

import (
	"context"
	"fmt"
	"time"

	"hanjul/pkg/journal"
	"hanjul/pkg/kafka"
	"hanjul/pkg/keyring"
	"hanjul/pkg/ledger"
	"hanjul/pkg/order"
	"hanjul/pkg/orderstatus"
	"hanjul/pkg/pass"
	"hanjul/pkg/product"
	"hanjul/pkg/waitingroom"
)

// Sources are the stores that the books are read from. The auditor only reads.
type Sources struct {
	Ledger      *ledger.Ledger
	Room        *waitingroom.Room
	Status      *orderstatus.Store
	Kafka       kafka.Config
	Group       string // the consumers' group
	Topics      ledger.Topics
	Partitions  int
	UserKey     keyring.Key
	CommandKeys keyring.Ring
	Passes      pass.Verifier
}

// clocks is more than the machines' clocks differ by, and more than passes between an event's acknowledgement and the note of it.
const clocks = time.Minute

// Load takes one cut of a product's books, in the order of docs/joint.md, 2.7, so that what changes meanwhile can be told from
// what is wrong: committed offsets, then one snapshot of the ledger, the end of the log, the events up to their end, and the line last.
func Load(ctx context.Context, s Sources, p product.ID, entries []journal.Entry) (Books, error) {
	b := Books{Product: p, Journal: entries, Passes: verifyPasses(s.Passes, entries)}
	b.Hash = func(u product.UserID) product.UserHash { return product.HashUser(s.UserKey, u) }
	b.Log.Partition = kafka.Partition([]byte(p), s.Partitions)

	committed, err := kafka.Committed(ctx, s.Kafka, s.Group, s.Topics.Orders)
	if err != nil {
		return Books{}, fmt.Errorf("audit %s: committed offsets: %w", p, err)
	}
	b.Log.Committed = committed[b.Log.Partition]
	if err := loadLedger(ctx, s, &b); err != nil {
		return Books{}, fmt.Errorf("audit %s: ledger: %w", p, err)
	}
	if err := loadLog(ctx, s, &b); err != nil {
		return Books{}, fmt.Errorf("audit %s: topic %s: %w", p, s.Topics.Orders, err)
	}
	if err := loadEvents(ctx, s, &b); err != nil {
		return Books{}, fmt.Errorf("audit %s: topic %s: %w", p, s.Topics.Events, err)
	}
	if err := loadLine(ctx, s, &b); err != nil {
		return Books{}, fmt.Errorf("audit %s: line: %w", p, err)
	}
	return b, nil
}

func verifyPasses(v pass.Verifier, entries []journal.Entry) map[string]pass.Pass {
	passes := map[string]pass.Pass{}
	for _, e := range entries {
		if e.Pass == "" {
			continue
		}
		if _, known := passes[e.Pass]; known {
			continue
		}
		if p, err := v.Verify(e.Pass); err == nil {
			passes[e.Pass] = p
		}
	}
	return passes
}

func loadLedger(ctx context.Context, s Sources, b *Books) error {
	return s.Ledger.Snapshot(ctx, b.Product, func(snap *ledger.Snapshot) error {
		row, err := snap.Product()
		if err != nil {
			return err
		}
		if b.Ledger.Kept, err = snap.Kept(); err != nil {
			return err
		}
		judged, err := snap.Progress(s.Topics.Orders)
		if err != nil {
			return err
		}
		b.Log.Judged = judged[b.Log.Partition]
		b.Settings, b.Inc = row.Settings, row.LineInc
		b.Ledger.Total, b.Ledger.Sold, b.Ledger.Seq = row.Total, row.Sold, row.Seq
		if err := snap.EachOrder(func(o ledger.OrderRow) error {
			b.Ledger.Orders = append(b.Ledger.Orders, o)
			return nil
		}); err != nil {
			return err
		}
		if err := snap.EachCommand(func(c ledger.CommandRow) error {
			b.Ledger.Commands = append(b.Ledger.Commands, c)
			return nil
		}); err != nil {
			return err
		}
		if err := snap.EachLetter(func(l ledger.LetterRow) error {
			b.Ledger.DeadLetters = append(b.Ledger.DeadLetters, l)
			return nil
		}); err != nil {
			return err
		}
		return snap.EachOutbox(func(o ledger.OutboxRow) error {
			if o.Seq == 0 {
				if !o.Published {
					b.Ledger.Unsent++
				}
				return nil
			}
			e, err := order.DecodeEvent(o.Payload)
			if err != nil {
				return fmt.Errorf("outbox row %s: %w", o.ID, err)
			}
			b.Ledger.Outbox = append(b.Ledger.Outbox, OutboxRow{
				ID: o.ID, Seq: o.Seq, Type: order.EventType(o.Type), Event: e, LeftAfter: o.LeftAfter, At: o.CreatedAt,
				Published: o.Published,
			})
			return nil
		})
	})
}

// ends are the first and the end offset of the product's partition of a topic.
func ends(ctx context.Context, s Sources, topic string, partition int) (first, end int64, err error) {
	firsts, lasts, err := kafka.Offsets(ctx, s.Kafka, topic)
	if err != nil {
		return 0, 0, err
	}
	return firsts[partition], lasts[partition], nil
}

// readTopic gives fn the product's records in its partition of a topic and says where the partition begins and ends. Records that retention
// takes away while it reads are an error; the next try begins behind them.
func readTopic(ctx context.Context, s Sources, b *Books, topic string, fn func(kafka.Message) error) (Start, int64, error) {
	first, end, err := ends(ctx, s, topic, b.Log.Partition)
	if err != nil {
		return Start{}, 0, err
	}
	start := Start{First: first}
	err = kafka.Read(ctx, s.Kafka, topic, b.Log.Partition, first, end, func(m kafka.Message) error {
		if start.At.IsZero() {
			start.At = m.Time
		}
		if string(m.Key) != string(b.Product) {
			return nil
		}
		return fn(m)
	})
	// What was taken away is older than what is there, a product's records are younger than the product.
	start.Cut = first > 0 && (start.At.IsZero() || b.Ledger.Kept.Since.Before(start.At.Add(clocks)))
	return start, end, err
}

func loadLog(ctx context.Context, s Sources, b *Books) (err error) {
	b.Log.Start, b.Log.End, err = readTopic(ctx, s, b, s.Topics.Orders, func(m kafka.Message) error {
		rec := LogRecord{Offset: m.Offset}
		if c, err := order.DecodeCommand(m.Value); c.Kind != "" && c.Product == b.Product {
			rec.Decoded, rec.Kind, rec.OrderID, rec.ID = err == nil, c.Kind, c.OrderID, c.ID
			rec.Verified = verified(s, c)
		}
		b.Log.Records = append(b.Log.Records, rec)
		return nil
	})
	return err
}

// verified repeats what the consumer checks before it judges, from the same public keys.
func verified(s Sources, c order.Command) bool {
	if c.Kind != order.KindPlace || c.Direct() {
		return c.Verify(s.CommandKeys) == nil
	}
	p, err := s.Passes.Verify(c.Pass)
	return err == nil && p.User == c.User && p.Product == c.Product && p.Place == c.Place && p.OrderID == c.OrderID
}

func loadEvents(ctx context.Context, s Sources, b *Books) (err error) {
	b.EventLog, _, err = readTopic(ctx, s, b, s.Topics.Events, func(m kafka.Message) error {
		e, err := order.DecodeEvent(m.Value)
		if err != nil {
			return fmt.Errorf("offset %d: %w", m.Offset, err)
		}
		rec := EventRecord{Offset: m.Offset, Seq: e.Seq, Event: e}
		for _, h := range m.Headers {
			if h.Key == order.HeaderID {
				rec.ID = string(h.Value)
			}
		}
		b.Events = append(b.Events, rec)
		return nil
	})
	return err
}

// AtRest says what is still on its way, empty when nothing is: commands in the log before their commit, outbox rows before their
// publication, units held in Redis.
func AtRest(ctx context.Context, s Sources, p product.ID) (string, error) {
	partition := kafka.Partition([]byte(p), s.Partitions)
	first, end, err := ends(ctx, s, s.Topics.Orders, partition)
	if err != nil {
		return "", fmt.Errorf("end of %s: %w", s.Topics.Orders, err)
	}
	committed, err := kafka.Committed(ctx, s.Kafka, s.Group, s.Topics.Orders)
	if err != nil {
		return "", fmt.Errorf("committed offsets: %w", err)
	}
	if lag := end - max(committed[partition], first); lag > 0 { // Nobody can judge what is no longer in the log.
		return fmt.Sprintf("%d commands of partition %d before their verdict", lag, partition), nil
	}
	unpublished, unsent := 0, 0
	var letters []ledger.LetterRow
	err = s.Ledger.Snapshot(ctx, p, func(snap *ledger.Snapshot) error {
		if err := snap.EachLetter(func(l ledger.LetterRow) error {
			letters = append(letters, l)
			return nil
		}); err != nil {
			return err
		}
		return snap.EachOutbox(func(o ledger.OutboxRow) error {
			switch {
			case o.Published:
			case o.Seq == 0:
				unsent++
			default:
				unpublished++
			}
			return nil
		})
	})
	if err != nil {
		return "", fmt.Errorf("outbox: %w", err)
	}
	if unpublished+unsent > 0 {
		return fmt.Sprintf("%d events and %d commands in the outbox", unpublished, unsent), nil
	}
	line, err := s.Room.Audit(ctx, p)
	if err != nil {
		return "", fmt.Errorf("line: %w", err)
	}
	waiting, err := s.Room.HeldBy(ctx, p, parked(letters)) // for an operator, as long as it takes
	if err != nil {
		return "", fmt.Errorf("line: %w", err)
	}
	if n := line.View.InFlight - int64(len(waiting)); n > 0 {
		return fmt.Sprintf("%d orders bound and not settled", n), nil
	}
	return "", nil
}

// parked are the orders of the letters that wait for an operator.
func parked(letters []ledger.LetterRow) []order.ID {
	var ids []order.ID
	for _, l := range letters {
		if l.State == ledger.LetterParked && l.OrderID != "" {
			ids = append(ids, l.OrderID)
		}
	}
	return ids
}

// Wait returns when the product is at rest, or with what is still on its way when ctx ends. A store that does not answer is asked again.
func Wait(ctx context.Context, s Sources, p product.ID) error {
	ticker := time.NewTicker(250 * time.Millisecond)
	defer ticker.Stop()
	for {
		what, err := AtRest(ctx, s, p)
		if err == nil && what == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			if err != nil {
				return fmt.Errorf("not at rest: %w", err)
			}
			return fmt.Errorf("not at rest: %s: %w", what, ctx.Err())
		case <-ticker.C:
		}
	}
}
