// Package fulfil takes a batch of commands from one partition through numbered steps: read, judge, settle, tell. It owns the
// order of these steps and the verification of passes and MACs; verdicts are the ledger's, stock and statuses in Redis their owners'. It
// commits no offset: intake does, once all steps are done. Before it in the flow is intake, after it stock and orderstatus.
package fulfil

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"hanjul/pkg/ledger"
	"hanjul/pkg/order"
	"hanjul/pkg/orderstatus"
	"hanjul/pkg/product"
	"hanjul/pkg/stock"
	"hanjul/services/order-consumer/internal/intake"
)

// Ledger judges; *ledger.Ledger does.
type Ledger interface {
	Judge(ctx context.Context, b ledger.Batch) (ledger.Result, error)
}

// Stock ends orders in Redis; *stock.Counter does.
type Stock interface {
	Settle(ctx context.Context, p product.ID, base, seq int64, create bool, judged []stock.Judged) error
}

// Status tells users; *orderstatus.Store does.
type Status interface {
	PutMany(ctx context.Context, entries []orderstatus.Entry) (int, error)
}

// The steps, as Config.Fault names them and the durations are labelled.
const (
	StepJudge  = "judge"
	StepSettle = "settle"
	StepTell   = "tell"
)

// Config is what a Fulfiller is made of. All fields but Logger, Registerer and Fault are needed.
type Config struct {
	Ledger     Ledger
	Stock      Stock
	Status     Status
	Verifier   Verifier
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	// Fault is called after each step; its error stands for a crash between the step and the next. Nil in production.
	Fault func(step string) error
}

// Fulfiller fulfils batches. Safe for concurrent use by different partitions.
type Fulfiller struct {
	Config
	metrics metrics
}

// New makes a Fulfiller and registers its metrics.
func New(c Config) *Fulfiller {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Fault == nil {
		c.Fault = func(string) error { return nil }
	}
	return &Fulfiller{c, newMetrics(c.Registerer)}
}

// Fulfil takes a batch to its end: Judge, and what is left of it, one after the other. Errors are those of the two.
func (f *Fulfiller) Fulfil(ctx context.Context, b intake.Batch) error {
	rest, err := f.Judge(ctx, b)
	if err != nil || rest == nil {
		return err
	}
	return rest(ctx)
}

// Judge takes a batch through its first steps and returns the others. When it returns no error, every record of the batch has its verdict in
// the ledger, or waits there as a dead letter; when the rest returned none either, Redis was told, and the offset may be committed. The rest
// may run while the next batch is judged: what it writes carries the ledger's own version, so late and repeated writes change nothing. After an
// error the same batch, or any that overlaps it, is given to Judge again until it passes: no error means that a record is at fault, so none is
// ever parked for one, and no attempt is counted. The errors are a store that is away, or order.ErrVersion: a command of a later build
// stops the partition where it stands, behind everything before it.
func (f *Fulfiller) Judge(ctx context.Context, b intake.Batch) (intake.Rest, error) {
	// 0 Read. Decodes and verifies; touches nothing. What fails here is parked by the judge, in its transaction; so parking is
	//   as atomic as judging. A version of a later build cuts the batch short: what lies before it is fulfilled, then the
	//   error is returned and the partition waits for a newer consumer.
	r, prepared := b.Prepared.(reading)
	if !prepared {
		r = f.read(b)
	}
	inputs, stopped := r.inputs, f.stopped(b, r)
	if len(inputs) == 0 {
		return nil, stopped
	}

	// 1 Judge. Guarantee: each order id of the batch has its one verdict, with its event and its movement of stock, in one
	//   transaction; copies change nothing. Failure: nothing, or (commit unknown) all of it is written; the batch comes again and finds out.
	//   A crash behind it: redelivery finds everything known and goes on with step 2.
	started := time.Now()
	back := intake.AtStore(ctx)
	result, err := f.Ledger.Judge(ctx, ledger.Batch{Topic: b.Topic, Partition: b.Partition, NextOffset: r.next, Commands: inputs})
	back()
	f.metrics.step(StepJudge, started)
	if err != nil {
		return nil, err
	}
	f.metrics.judged(result)
	f.logParked(b, inputs, result)
	if err := f.Fault(StepJudge); err != nil {
		return nil, err
	}
	rest := func(ctx context.Context) error { return f.end(ctx, inputs, result) }
	if stopped != nil { // Nothing behind it may be judged, so nothing is gained by leaving the rest for later.
		return nil, errors.Join(rest(ctx), stopped)
	}
	return rest, nil
}

// end is the rest of a judged batch.
func (f *Fulfiller) end(ctx context.Context, inputs []ledger.Input, result ledger.Result) error {
	// 2 Settle, one call per product. Guarantee: what is left in Redis is the ledger's number of an event no older than this batch's; the
	//   holds of its orders are gone; their users have ordered. Absolute numbers with a version, and removal by id: repeats and
	//   late calls change nothing. Failure: part of the products done; the batch comes again.
	started := time.Now()
	back := intake.AtStore(ctx)
	err := f.settle(ctx, result)
	back()
	f.metrics.step(StepSettle, started)
	if err != nil {
		return err
	}
	if err := f.Fault(StepSettle); err != nil {
		return err
	}

	// 3 Tell. Guarantee: the user of every order of the batch reads its verdict, which no later write of a lower version undoes.
	//   Failure: part of the statuses written; the batch comes again. A crash behind it, before the offset: all of it again, for nothing.
	started = time.Now()
	back = intake.AtStore(ctx)
	_, err = f.Status.PutMany(ctx, statuses(result))
	back()
	f.metrics.step(StepTell, started)
	if err != nil {
		return err
	}
	f.metrics.told(inputs, result, time.Now())
	return f.Fault(StepTell)
}

func (f *Fulfiller) settle(ctx context.Context, r ledger.Result) error {
	judged := map[product.ID][]stock.Judged{}
	for _, row := range last(r) {
		judged[row.Product] = append(judged[row.Product], stock.Judged{OrderID: row.OrderID, User: row.User, Place: row.Place})
	}
	for _, s := range r.Settlements {
		if err := f.Stock.Settle(ctx, s.Product, s.Base, s.Seq, s.Load, judged[s.Product]); err != nil {
			return err
		}
	}
	return nil
}

func statuses(r ledger.Result) []orderstatus.Entry {
	rows := last(r)
	entries := make([]orderstatus.Entry, len(rows))
	for i, row := range rows {
		entries[i] = orderstatus.Entry{ID: row.OrderID, Status: row.Status()}
	}
	return entries
}

// last is the state of each order after the batch, once, in the order of its first record.
func last(r ledger.Result) []ledger.OrderRow {
	rows := make([]ledger.OrderRow, 0, len(r.Verdicts))
	at := make(map[order.ID]int, len(r.Verdicts))
	for _, v := range r.Verdicts {
		if v.Order == nil {
			continue
		}
		if i, met := at[v.Order.OrderID]; met {
			rows[i] = *v.Order
			continue
		}
		at[v.Order.OrderID] = len(rows)
		rows = append(rows, *v.Order)
	}
	return rows
}

func (f *Fulfiller) logParked(b intake.Batch, inputs []ledger.Input, r ledger.Result) {
	for i, v := range r.Verdicts {
		if v.Outcome == ledger.Parked {
			f.Logger.Error("command parked as a dead letter", "topic", b.Topic, "partition", b.Partition, "offset", inputs[i].Offset,
				"product", string(v.Product), "reason", v.Park)
		}
	}
}
