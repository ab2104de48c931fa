package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/jackc/pgx/v5"
)

// gap is a range of numbers of a product that did not come although later ones did; to is 0 when it was closed.
type gap struct {
	product  string
	from, to int64
}

// wait keeps an event that came before one that is missing. Its product stands still at the last number it has, others go on; the
// offset may go on too, since the event is kept here.
func (p *page) wait(ctx context.Context, e event) error {
	var first int64 // the lowest that waits already
	err := p.tx.QueryRow(ctx, `SELECT coalesce(min(seq), 0) FROM bookkeeper.early WHERE product = $1`, p.product).Scan(&first)
	if err != nil {
		return err
	}
	if first == 0 || e.Seq < first {
		p.gaps = append(p.gaps, gap{p.product, p.seq + 1, e.Seq - 1})
	}
	_, err = p.tx.Exec(ctx, `INSERT INTO bookkeeper.early (product, seq, event_id, data) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`,
		p.product, e.Seq, e.id, string(e.data))
	return err
}

// follow applies what waited for the event that was just applied.
func (p *page) follow(ctx context.Context) error {
	for came := false; ; came = true {
		var id, data string
		err := p.tx.QueryRow(ctx, `DELETE FROM bookkeeper.early WHERE product = $1 AND seq = $2 RETURNING event_id, data`, p.product, p.seq+1).Scan(&id, &data)
		switch {
		case errors.Is(err, pgx.ErrNoRows) && came:
			return p.closed(ctx)
		case errors.Is(err, pgx.ErrNoRows):
			return nil
		case err != nil:
			return err
		}
		e, err := decodeData(id, []byte(data))
		if err != nil {
			return err
		}
		if err := p.apply(ctx, e); err != nil {
			return err
		}
	}
}

// closed says that the gap is no more, or where the next one is.
func (p *page) closed(ctx context.Context) error {
	var next int64
	if err := p.tx.QueryRow(ctx, `SELECT coalesce(min(seq), 0) FROM bookkeeper.early WHERE product = $1`, p.product).Scan(&next); err != nil {
		return err
	}
	g := gap{product: p.product, from: p.seq + 1}
	if next > 0 {
		g.to = next - 1
	}
	p.gaps = append(p.gaps, g)
	return nil
}

// openGaps are those that an earlier run left.
func (b *books) openGaps(ctx context.Context) ([]gap, error) {
	rows, err := b.pool.Query(ctx, `
SELECT product, p.seq + 1, min(e.seq) - 1 FROM bookkeeper.early e JOIN bookkeeper.products p USING (product) GROUP BY product, p.seq ORDER BY product`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (g gap, err error) {
		err = row.Scan(&g.product, &g.from, &g.to)
		return g, err
	})
}

// tell is the alarm. The events are in the outbox still: a replay brings them.
func (b *books) tell(g gap) {
	if g.to == 0 {
		b.log.Info("gap is closed", slog.String("product", g.product), slog.Int64("next_seq", g.from))
		return
	}
	b.log.Error("events are missing; the product waits for a replay of them", slog.String("product", g.product),
		slog.Int64("from_seq", g.from), slog.Int64("to_seq", g.to))
}
