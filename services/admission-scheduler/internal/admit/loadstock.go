package admit

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"hanjul/pkg/kafka"
	"hanjul/pkg/order"
	"hanjul/pkg/telemetry"
)

// loadStock asks for the product's stock by a command behind everything accepted before it (F11): whoever judges it has
// judged all of that, so the number it brings to Redis is right. The room lets one scheduler ask in a second. A copy too many, or one
// lost, is no harm: it changes nothing in the books, and the next second asks again.
func (n *line) loadStock(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, n.loop.Deadline)
	defer cancel()
	ask, err := n.loop.Room.LoadAsked(ctx, n.id)
	if err != nil {
		return fmt.Errorf("ask for the stock of %s: %w", n.id, err)
	}
	if !ask {
		return nil
	}
	command, err := order.Command{
		Kind: order.KindLoadStock, ID: "load-" + n.loop.Nonce(), Product: n.id,
		AtMS: time.Now().UnixMilli(), Traceparent: telemetry.NewTraceparent().String(),
	}.Sign(n.loop.Commands)
	if err != nil {
		return err
	}
	value, err := command.Encode()
	if err != nil {
		return err
	}
	results := n.loop.Producer.Produce(ctx, []kafka.Record{{
		Topic: n.loop.TopicOrders, Key: []byte(n.id), Value: value,
		Headers: []kafka.Header{{Key: telemetry.TraceparentHeader, Value: []byte(command.Traceparent)}},
	}})
	n.loop.metrics.loads.WithLabelValues(results[0].Outcome.String()).Inc()
	if err := results[0].Err; err != nil {
		return fmt.Errorf("send load_stock of %s: %w", n.id, err)
	}
	n.loop.logger.LogAttrs(ctx, slog.LevelInfo, "stock asked for", slog.String("product_id", string(n.id)),
		slog.String("command_id", command.ID), slog.Int("partition", results[0].Partition))
	return nil
}
