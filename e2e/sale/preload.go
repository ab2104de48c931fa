package sale

import (
	"context"
	"errors"
	"fmt"
	"os"
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
func Preload(ctx context.Context, stack *local.Stack, products []product.ID, each int) (err error) {
	line, err := os.ReadFile(stack.Keys().Pass)
	if err != nil {
		return fmt.Errorf("preload: %w", err)
	}
	key, err := keyring.Parse(string(line))
	if err != nil {
		return fmt.Errorf("preload: %w", err)
	}
	signer, err := pass.NewSigner(key)
	if err != nil {
		return fmt.Errorf("preload: %w", err)
	}
	now, topic := time.Now(), stack.Setting("HANJUL_TOPIC_ORDERS")
	records := make([]kafka.Record, 0, each*len(products))
	for n := range each {
		for i, id := range products {
			p := pass.Pass{
				User: product.UserID(fmt.Sprintf("user-%d", n)), Product: id, Place: product.MakePlace(1, int64(n)+1),
				OrderID: PreloadedID(i, n), Epoch: 1, Admitted: now, IssuedAt: now, ExpiresAt: now.Add(time.Hour),
			}
			text, err := signer.Sign(p)
			if err != nil {
				return fmt.Errorf("preload: %w", err)
			}
			value, err := order.Command{
				Kind: order.KindPlace, ID: string(p.OrderID), Product: id, OrderID: p.OrderID, User: p.User, Place: p.Place, Quantity: 1,
				Pass: text, DeadlineMS: now.Add(time.Hour).UnixMilli(), AtMS: now.UnixMilli(),
			}.Encode()
			if err != nil {
				return fmt.Errorf("preload: %w", err)
			}
			records = append(records, kafka.Record{Topic: topic, Key: []byte(id), Value: value})
		}
	}
	producer, err := kafka.NewProducer(kafka.ProducerConfig{
		Config:     kafka.Config{Brokers: strings.Split(stack.Setting("HANJUL_KAFKA_BROKERS"), ",")},
		Partitions: map[string]int{topic: local.DefaultPartitions}, QueueRecords: len(records),
	})
	if err != nil {
		return fmt.Errorf("preload: %w", err)
	}
	running, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- producer.Run(running) }()
	defer func() {
		cancel()
		err = errors.Join(err, <-ended)
	}()
	for _, result := range producer.Produce(ctx, records) {
		if result.Outcome != kafka.Accepted {
			return fmt.Errorf("preload: %s: %w", result.Outcome, result.Err)
		}
	}
	return nil
}

// PreloadedID is the id of a preloaded order.
func PreloadedID(index, n int) order.ID {
	return order.ID(fmt.Sprintf("0189%04x-%04x-7000-8000-%012x", n%0xffff, index, n))
}
