// Package stock owns the copy of a product's stock in Redis (base units of the ledger's event seq, and the units held by
// orders in flight) and the decrement that ends an order there. The ledger has judged before it is called; it decides no
// verdict and never raises what is left by itself. Before it in the flow is order-consumer's judge transaction (package
// ledger), after it the order's status. In docs/joint.md this step is called settle.
package stock

import (
	"github.com/redis/go-redis/v9"

	"hanjul/lua"
	"hanjul/pkg/order"
	"hanjul/pkg/product"
	"hanjul/pkg/redisconn"
)

// Judged is one order that has its verdict.
type Judged struct {
	OrderID order.ID
	User    product.UserHash
	Place   product.Place // 0 where the command had none (void, tombstone, queue off): only a record that names the order is touched
}

// Counter settles products. Safe for concurrent use.
type Counter struct {
	rdb       redis.UniversalClient
	keys      product.Keyspace
	decrement *redisconn.Script
}

// New takes a client that may retry (redisconn.ClientOptions). It does not connect.
func New(rdb redis.UniversalClient, keys product.Keyspace) *Counter {
	return &Counter{rdb, keys, redisconn.LoadScript(lua.FS, "stock_decrement.lua")}
}
