package sale

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"

	"hanjul/deploy/local"
	"hanjul/pkg/journal"
	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// compareIDs holds the ids that clients were answered with against those that the ledger has: each that was accepted is judged, and
// nothing was judged of which no client was told. An order whose 202 was lost on its way is told by a later answer.
func compareIDs(ctx context.Context, stack Stack, report *Report) error {
	file, err := os.Open(report.Journal)
	if err != nil {
		return fmt.Errorf("compare ids: %w", err)
	}
	entries, err := journal.Read(file, report.Config.Product)
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("compare ids: %w", err)
	}
	accepted, told := map[order.ID]bool{}, map[order.ID]bool{}
	for _, e := range entries {
		if e.OrderID == "" {
			continue
		}
		told[e.OrderID] = true
		if e.Call == journal.CallOrder && e.Status == 202 {
			accepted[e.OrderID] = true
		}
	}
	ids, err := stack.Judged(ctx, report.Config.Product)
	if err != nil {
		return err
	}
	report.Accepted, report.Judged = len(accepted), len(ids)
	for _, id := range ids {
		delete(accepted, id)
		if !told[id] {
			report.Faults = append(report.Faults, fmt.Sprintf("order %s was judged, and no client was ever told its id", id))
		}
	}
	for id := range accepted {
		report.Faults = append(report.Faults, fmt.Sprintf("order %s was accepted with 202 and never judged", id))
	}
	return nil
}

// books is the address of the ledger at the server itself, with its schema.
func books(stack *local.Stack) string {
	url := cmp.Or(stack.Setting("HANJUL_POSTGRES_DIRECT_URL"), stack.Setting("HANJUL_POSTGRES_URL"))
	if schema := stack.Setting("HANJUL_POSTGRES_SCHEMA"); schema != "" {
		url += "&search_path=" + schema
	}
	return url
}

func judged(ctx context.Context, url string, p product.ID) ([]order.ID, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("judged ids of %s: %w", p, err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // it only read
	rows, err := conn.Query(ctx, `SELECT order_id::text FROM orders WHERE product_id = $1`, string(p))
	if err != nil {
		return nil, fmt.Errorf("judged ids of %s: %w", p, err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("judged ids of %s: %w", p, err)
	}
	out := make([]order.ID, len(ids))
	for i, id := range ids {
		out[i] = order.ID(id)
	}
	return out, nil
}
