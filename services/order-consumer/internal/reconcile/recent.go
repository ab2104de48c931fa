package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"hanjul/pkg/ledger"
	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// seen is how a line stood at the last good look.
type seen struct {
	inc   int
	runID string
	at    time.Time
}

// job is a rewrite under way: everything judged behind the cursor, of those products, or of all. It is kept over errors and goes on
// where it stood.
type job struct {
	cause    string
	products map[product.ID]bool // nil means all
	cursor   ledger.Cursor
	rows     int
}

// rounds is one round of the loop over lines and recent orders: look for losses, then do what is to be done.
func (r *Reconciler) rounds() func(ctx context.Context) error {
	// The first rewrite comes at once and reaches as far back as after a loss: nobody knows what happened while no consumer ran.
	next := time.Time{}
	first := true
	return func(ctx context.Context) error {
		looked := r.look(ctx)
		if now := r.Now(); r.job == nil && !now.Before(next) {
			next = now.Add(r.RecentEvery/2 + rand.N(r.RecentEvery))
			back := r.RecentSpan
			if first {
				back = max(back, r.LossMargin)
			}
			r.begin(&job{cause: "recent", cursor: ledger.Cursor{At: now.Add(-back)}})
			first = false
		}
		return errors.Join(looked, r.work(ctx))
	}
}

// look compares each line with the last good look at it. A line is well when its slot has settings of the ledger's incarnation; a
// change of incarnation or of the server's run means that Redis lost something since. (A slot that was emptied has no settings
// until the scheduler restored it under a new incarnation.)
func (r *Reconciler) look(ctx context.Context) error {
	rows, err := r.Ledger.Products(ctx)
	if err != nil {
		return fmt.Errorf("look at lines: %w", err)
	}
	for _, row := range rows {
		if row.OpenedUS == 0 {
			continue // Nobody can have ordered.
		}
		line, err := r.Room.Line(ctx, row.ID)
		if err != nil {
			return fmt.Errorf("look at lines: %w", err)
		}
		if !line.Present || line.Moved || line.Inc != row.LineInc {
			continue
		}
		now, last := r.Now(), r.lines[row.ID]
		if last.inc != 0 && (last.inc != line.Inc || last.runID != line.RunID) {
			r.metrics.losses.Inc()
			r.Logger.WarnContext(ctx, "redis lost something", slog.String("product_id", string(row.ID)), slog.Int("inc", line.Inc),
				slog.Int("inc_before", last.inc), slog.Time("well_until", last.at))
			r.begin(&job{
				cause: "loss", products: map[product.ID]bool{row.ID: true},
				cursor: ledger.Cursor{At: last.at.Add(-r.LossMargin)},
			})
		}
		r.lines[row.ID] = seen{line.Inc, line.RunID, now}
	}
	return nil
}

// begin takes a job in hand; one that is under way is widened and starts over.
func (r *Reconciler) begin(next *job) {
	if r.job != nil {
		if r.job.cursor.At.Before(next.cursor.At) {
			next.cursor.At = r.job.cursor.At
		}
		switch {
		case r.job.products == nil || next.products == nil:
			next.products = nil
		default:
			for p := range r.job.products {
				next.products[p] = true
			}
		}
	}
	next.cursor.ID = order.ID("")
	r.job = next
}

// work takes the job to its end, page by page.
func (r *Reconciler) work(ctx context.Context) error {
	for r.job != nil {
		page, err := r.Ledger.OrdersJudgedSince(ctx, r.job.cursor, r.Page)
		if err != nil {
			return fmt.Errorf("reconcile orders judged since %s: %w", r.job.cursor.At.Format(time.RFC3339), err)
		}
		var rows []ledger.OrderRow
		for _, row := range page {
			if r.job.products == nil || r.job.products[row.Product] {
				rows = append(rows, row)
			}
		}
		if len(rows) > 0 {
			if err := r.rewrite(ctx, rows); err != nil {
				return err
			}
			r.job.rows += len(rows)
		}
		if len(page) < r.Page {
			if r.job.cause == "loss" {
				r.Logger.InfoContext(ctx, "orders reconciled after a loss", slog.Int("orders", r.job.rows))
			}
			r.job = nil
			return nil
		}
		r.job.cursor = page[len(page)-1].Cursor()
	}
	return nil
}
