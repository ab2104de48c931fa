// Package orderstatus owns the statuses of orders in Redis, one versioned hash per order, and the list of orders whose status
// somebody asked for and Redis does not know. A status is a cache of the ledger: it may vanish, and comes back when it is
// asked for. Whoever follows is told, as a hint, which statuses were written. It decides nothing. queue-api writes pending and accepted and reads; order-consumer writes verdicts and drains
// the list.
package orderstatus

import (
	"time"

	"github.com/redis/go-redis/v9"

	"hanjul/lua"
	"hanjul/pkg/product"
	"hanjul/pkg/redisconn"
)

// Config is what a service chooses; zero values mean the defaults.
type Config struct {
	TTL       time.Duration // of a status after its last write; default 7 days
	WantedMax int           // entries of the list of wanted orders; default 100,000
}

// Store reads and writes statuses. Safe for concurrent use; all methods are safe to repeat.
type Store struct {
	rdb                   redis.UniversalClient
	keys                  product.Keyspace
	config                Config
	put, want, takeWanted *redisconn.Script
}

// New takes a client that may retry (redisconn.ClientOptions). It does not connect.
func New(rdb redis.UniversalClient, keys product.Keyspace, c Config) *Store {
	if c.TTL <= 0 {
		c.TTL = 7 * 24 * time.Hour
	}
	if c.WantedMax <= 0 {
		c.WantedMax = 100_000
	}
	return &Store{
		rdb, keys, c,
		redisconn.LoadScript(lua.FS, "orderstatus_put.lua"), redisconn.LoadScript(lua.FS, "orderstatus_want.lua"),
		redisconn.LoadScript(lua.FS, "orderstatus_take_wanted.lua"),
	}
}
