package sale

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"hanjul/deploy/local"
	"hanjul/pkg/kafka"
	"hanjul/pkg/keyring"
	"hanjul/pkg/order"
	"hanjul/pkg/pass"
	"hanjul/pkg/product"
)

// Preload puts the genuine place commands of as many people into the log of each product, in turns, past the storefront: for who wants
// much to be judged and no crowd. The nth order of a product has the id PreloadedID(product's index, n).
func Preload(ctx context.Context, stack *local.Stack, products []product.ID, each int) error {
	records, _, err := SignOrders(stack, products, 0, each)
	if err == nil {
		err = SendOrders(ctx, stack, records, 0)
	}
	return err
}

// SignOrders makes those commands, and the passes that they carry, in the same order. first is the index of the first product: it keeps the
// ids of several calls on one stack apart.
func SignOrders(stack *local.Stack, products []product.ID, first, each int) (records []kafka.Record, passes []string, err error) {
	line, err := os.ReadFile(stack.Keys().Pass)
	if err != nil {
		return nil, nil, fmt.Errorf("sign orders: %w", err)
	}
	key, err := keyring.Parse(string(line))
	if err != nil {
		return nil, nil, fmt.Errorf("sign orders: %w", err)
	}
	signer, err := pass.NewSigner(key)
	if err != nil {
		return nil, nil, fmt.Errorf("sign orders: %w", err)
	}
	now, topic := time.Now(), stack.Setting("HANJUL_TOPIC_ORDERS")
	for n := range each {
		for i, id := range products {
			p := pass.Pass{
				User: PreloadedUser(n), Product: id, Place: product.MakePlace(1, int64(n)+1),
				OrderID: PreloadedID(first+i, n), Epoch: 1, Admitted: now, IssuedAt: now, ExpiresAt: now.Add(time.Hour),
			}
			text, err := signer.Sign(p)
			if err != nil {
				return nil, nil, fmt.Errorf("sign orders: %w", err)
			}
			value, err := order.Command{
				Kind: order.KindPlace, ID: string(p.OrderID), Product: id, OrderID: p.OrderID, User: p.User, Place: p.Place, Quantity: 1,
				Pass: text, DeadlineMS: now.Add(time.Hour).UnixMilli(), AtMS: now.UnixMilli(),
			}.Encode()
			if err != nil {
				return nil, nil, fmt.Errorf("sign orders: %w", err)
			}
			records, passes = append(records, kafka.Record{Topic: topic, Key: []byte(id), Value: value}), append(passes, text)
		}
	}
	return records, passes, nil
}

// sendsPerSecond is how often SendOrders sends at a given rate.
const sendsPerSecond = 50

// SendOrders puts commands into the log, so many per second, or all at once for 0, and returns when each was acknowledged.
func SendOrders(ctx context.Context, stack *local.Stack, records []kafka.Record, perSecond int) (err error) {
	producer, err := kafka.NewProducer(kafka.ProducerConfig{
		Config:     kafka.Config{Brokers: strings.Split(stack.Setting("HANJUL_KAFKA_BROKERS"), ",")},
		Partitions: map[string]int{stack.Setting("HANJUL_TOPIC_ORDERS"): local.DefaultPartitions}, QueueRecords: max(1, len(records)),
	})
	if err != nil {
		return fmt.Errorf("send orders: %w", err)
	}
	running, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- producer.Run(running) }()
	defer func() {
		cancel()
		err = errors.Join(err, <-ended)
	}()
	chunk := max(1, len(records))
	if perSecond > 0 {
		chunk = max(1, perSecond/sendsPerSecond)
	}
	turn := time.NewTicker(time.Second / sendsPerSecond)
	defer turn.Stop()
	for part := range slices.Chunk(records, chunk) {
		<-turn.C
		for _, result := range producer.Produce(ctx, part) {
			if result.Outcome != kafka.Accepted {
				return fmt.Errorf("send orders: %s: %w", result.Outcome, result.Err)
			}
		}
	}
	return nil
}

// PreloadedID is the id of a preloaded order.
func PreloadedID(index, n int) order.ID {
	return order.ID(fmt.Sprintf("0189%04x-%04x-7000-8000-%012x", n%0xffff, index, n))
}

// PreloadedUser is whose order it is.
func PreloadedUser(n int) product.UserID { return product.UserID(fmt.Sprintf("user-%d", n)) }
