package bench

import (
	"fmt"
	"testing"

	"hanjul/deploy/local"
	"hanjul/pkg/kafka"
	"hanjul/pkg/product"
)

const (
	hotOrders = 20_000  // of one product, waiting in the log when the consumer starts
	oneOrders = 1_000   // for the consumer that takes them one by one
	burst     = 100_800 // over twelve products
)

// BenchmarkHotProduct is one product, one partition, one consumer: from the log through judge and decrement to the event on the topic,
// with a signed pass on every command. Its ceiling is the same number of rows put into a table of the ledger's own form in batches of
// 500, one transaction each, on the same Postgres. Its second line sets it beside the same consumer made to take message by message: one
// command per judge transaction, decrement, status and committed offset, and so with the same guarantees.
func BenchmarkHotProduct(b *testing.B) {
	bin := build(b)
	stack := start(b, bin)
	for n := range b.N {
		one := flow{stack: stack, first: 2 * n, ids: []product.ID{product.ID(fmt.Sprintf("one-%d", n))}, each: oneOrders, settings: oneByOne, bin: bin}.measure(b)
		hot := flow{stack: stack, first: 2*n + 1, ids: []product.ID{product.ID(fmt.Sprintf("hot-%d", n))}, each: hotOrders}.measure(b)
		report(b, "hot-product-beside-one-by-one", hot.perSecond, one.perSecond)
		report(b, "hot-product", hot.perSecond, bareInsert(b, stack.Setting("HANJUL_POSTGRES_URL"), hotOrders))
	}
}

// BenchmarkTwelveProducts is a product on each of twelve partitions, and one consumer for all. Its second line is the time in which a
// burst is drained, from the start of the consumer, its join of the group included, to the last event on the topic.
func BenchmarkTwelveProducts(b *testing.B) {
	stack := start(b, build(b))
	for n := range b.N {
		twelve := flow{stack: stack, first: n * local.DefaultPartitions, ids: spread(n), each: burst / local.DefaultPartitions}.measure(b)
		ceiling := bareInsert(b, stack.Setting("HANJUL_POSTGRES_URL"), burst)
		fmt.Printf("%d accepted orders drained in %.1f s\n", burst, twelve.drained.Seconds())
		report(b, "drain-after-burst", burst/twelve.drained.Seconds(), ceiling)
		report(b, "twelve-products", twelve.perSecond, ceiling)
	}
}

// spread names a product for each partition.
func spread(n int) []product.ID {
	ids := make([]product.ID, local.DefaultPartitions)
	for i, found := 0, 0; found < len(ids); i++ {
		id := product.ID(fmt.Sprintf("spread-%d-%d", n, i))
		if at := kafka.Partition([]byte(id), len(ids)); ids[at] == "" {
			ids[at], found = id, found+1
		}
	}
	return ids
}
