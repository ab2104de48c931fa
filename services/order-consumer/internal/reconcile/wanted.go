package reconcile

import (
	"context"
	"errors"
	"fmt"

	"hanjul/pkg/kafka"
	"hanjul/pkg/ledger"
	"hanjul/pkg/order"
	"hanjul/pkg/orderstatus"
	"hanjul/pkg/waitingroom"
)

// wantedBatches bounds one look.
const wantedBatches = 10

// serve answers what is wanted now. An order with a row gets its status and its settle back. One without is voided once its deadline
// and a grace are gone and nobody holds its intent; until then it is asked for again by itself. A look-up without a deadline is
// answered by there being no row: whoever judges later writes the status. An entry leaves the list only behind its answer, so a crash
// between the two serves it twice.
//
// However many are wanted, one look takes so many batches and sends so many voids; the rest keeps its turn.
func (r *Reconciler) serve(ctx context.Context) error {
	voids := r.WantedBatch
	for range wantedBatches {
		wanted, err := r.Status.TakeWanted(ctx, r.WantedBatch)
		if err != nil || len(wanted) == 0 {
			return err
		}
		overdue, err := r.answer(ctx, wanted)
		if err != nil {
			return err
		}
		if overdue = overdue[:min(voids, len(overdue))]; len(overdue) > 0 {
			if err := r.void(ctx, overdue); err != nil {
				return err
			}
			voids -= len(overdue)
		}
		if len(wanted) < r.WantedBatch {
			return nil
		}
	}
	return nil
}

// answer serves those that have a row or never will be voided, and returns those that are overdue.
func (r *Reconciler) answer(ctx context.Context, wanted []orderstatus.Wanted) (overdue []orderstatus.Wanted, err error) {
	ids := make([]order.ID, len(wanted))
	for i, w := range wanted {
		ids[i] = w.OrderID
	}
	rows, err := r.Ledger.OrdersByID(ctx, ids)
	if err != nil {
		return nil, err
	}
	var found []ledger.OrderRow
	for _, row := range rows {
		found = append(found, row)
	}
	var answered []orderstatus.Wanted
	now := r.Now().UnixMilli()
	for _, w := range wanted {
		_, known := rows[w.OrderID]
		switch {
		case known:
			r.metrics.wanted.WithLabelValues("found").Inc()
			answered = append(answered, w)
		case w.DeadlineMS == 0:
			r.metrics.wanted.WithLabelValues("no_row").Inc()
			answered = append(answered, w)
		case now > w.DeadlineMS+r.VoidGrace.Milliseconds():
			overdue = append(overdue, w)
		default:
			r.metrics.wanted.WithLabelValues("early").Inc()
		}
	}
	if err := r.rewrite(ctx, found); err != nil {
		return nil, err
	}
	return overdue, r.Status.Unwant(ctx, answered...)
}

// void asks the judge to reject what nobody can account for. Behind everything that is in the log of its product, so that an order
// which is there after all keeps its verdict. An order that is parked has an operator to wait for, one with
// an intent a sweeper, and one whose user stands in the line its turn: the place may be the order's own, brought back by a rollback.
// So does one whose line Redis has lost: its id cannot be closed there, and its user may come back with an old ticket before the void is judged.
func (r *Reconciler) void(ctx context.Context, overdue []orderstatus.Wanted) error {
	ids := make([]order.ID, len(overdue))
	for i, w := range overdue {
		ids[i] = w.OrderID
	}
	parked, err := r.Ledger.Parked(ctx, ids)
	if err != nil {
		return err
	}
	var records []kafka.Record
	var sent, parkedNow []orderstatus.Wanted
	for _, w := range overdue {
		if parked[w.OrderID] {
			r.metrics.wanted.WithLabelValues("parked").Inc()
			parkedNow = append(parkedNow, w)
			continue
		}
		// From here on the slot takes the order for judged. Crash: it is asked for again, and forsaken already.
		found, err := r.Room.Forsake(ctx, w.Product, w.User, w.OrderID)
		if err != nil {
			return err
		}
		if found != waitingroom.ForsakeDone { // bound, in the line, or a line that is restored first
			r.metrics.wanted.WithLabelValues(string(found)).Inc()
			continue
		}
		record, err := r.voidRecord(w)
		if err != nil {
			return err
		}
		records, sent = append(records, record), append(sent, w)
	}
	if err := r.Status.Unwant(ctx, parkedNow...); err != nil {
		return err
	}
	if len(records) == 0 {
		return nil
	}
	var answered []orderstatus.Wanted
	var faults []error
	for i, result := range r.Producer.Produce(ctx, records) {
		r.metrics.voids.WithLabelValues(result.Outcome.String()).Inc()
		if result.Outcome == kafka.Accepted {
			r.metrics.wanted.WithLabelValues("voided").Inc()
			answered = append(answered, sent[i])
		} else {
			faults = append(faults, fmt.Errorf("void order %s: %w", sent[i].OrderID, result.Err))
		}
	}
	if err := r.Status.Unwant(ctx, answered...); err != nil {
		return err
	}
	if len(faults) > 0 {
		return errors.Join(faults[0], fmt.Errorf("%d of %d voids not acknowledged", len(faults), len(records)))
	}
	return nil
}

func (r *Reconciler) voidRecord(w orderstatus.Wanted) (kafka.Record, error) {
	command, err := order.Command{
		Kind: order.KindVoid, ID: order.VoidID(w.OrderID), Product: w.Product, OrderID: w.OrderID, UserHash: w.User,
		AtMS: r.Now().UnixMilli(),
	}.Sign(r.Key)
	if err != nil {
		return kafka.Record{}, fmt.Errorf("void order %s: %w", w.OrderID, err)
	}
	value, err := command.Encode()
	if err != nil {
		return kafka.Record{}, fmt.Errorf("void order %s: %w", w.OrderID, err)
	}
	return kafka.Record{
		Topic: r.Orders, Key: []byte(w.Product), Value: value,
		Headers: []kafka.Header{{Key: order.HeaderContentType, Value: []byte("application/json")}},
	}, nil
}
