// Package ledger is the one owner of the ledger's SQL: products and their stock, orders, commands, dead letters, operators' actions,
// how far the judge has come, and the insertion of outbox rows in the transactions that make them (package outbox publishes
// those). It decides every verdict, in log order, under the product's stock row lock; decide.go is that decision, pure. It
// holds no key and signs nothing: signed command bytes come from its callers. Before it in the flow is fulfil (and the operators' desk),
// after it are stock and orderstatus in Redis, and the relay.
package ledger

import (
	"context"
	"errors"
	"maps"

	"hanjul/pkg/postgres"
)

// ErrTransient is wrapped by every error that passes by waiting (the server away, restarting, or busy): do the same call again, count
// no attempt. It is postgres.ErrTransient.
var ErrTransient = postgres.ErrTransient

// The outcomes that callers branch on.
var (
	ErrUnknownProduct = errors.New("product is unknown")
	ErrClosed         = errors.New("product is closed; its id is never used again")
	ErrState          = errors.New("product is in another state")                          // for example resume of a product that never opened
	ErrVersion        = errors.New("settings were changed meanwhile")                      // Action.IfVersion is not the product's
	ErrStockExists    = errors.New("product exists: its stock is changed by restock only") // PutProduct with stock
	ErrRequestReused  = errors.New("request id was used for another call")
	ErrLineEnd        = errors.New("line has reached its last incarnation") // no place is left; JOINT F42
	ErrInvalid        = errors.New("invalid")                               // the text names the field
	ErrUnknownOrder   = errors.New("the product has no such order")
	ErrOrderState     = errors.New("order cannot be taken back: only a confirmed one holds units")
	ErrUnknownLetter  = errors.New("no such dead letter")
	ErrJudged         = errors.New("has its verdict") // a dead letter that can no longer be redriven
	ErrLetterState    = errors.New("only a parked dead letter has a way out")
	ErrUnverified     = errors.New("never verified: it can only be dropped")
	ErrSchema         = errors.New("ledger's schema does not fit this build")
)

// Topics are the names that outbox rows are addressed to. Default: orders, order-events, orders.dead-letters.
type Topics struct{ Orders, Events, DeadLetters string }

// Config is what a ledger is opened with.
type Config struct {
	Pool   postgres.Config
	Topics Topics
}

// Ledger is the ledger behind one pool. Safe for concurrent use.
type Ledger struct {
	pool   *postgres.Pool
	topics Topics
}

// Open makes a ledger on the address. It does not connect: an absent server shows at the first call, as ErrTransient.
func Open(ctx context.Context, a postgres.Address, c Config) (*Ledger, error) {
	// Every statement here is a probe of an index. A plan that was made and kept while a table was small would scan it, for each order of
	// each batch, until the next analyze: a sale grows a table by orders of magnitude before that.
	c.Pool.Params = maps.Clone(c.Pool.Params)
	if c.Pool.Params == nil {
		c.Pool.Params = map[string]string{}
	}
	c.Pool.Params["enable_seqscan"] = "off"
	pool, err := postgres.Open(ctx, a, c.Pool)
	if err != nil {
		return nil, err
	}
	return &Ledger{pool: pool, topics: c.Topics.withDefaults()}, nil
}

func (t Topics) withDefaults() Topics {
	for _, d := range []struct {
		name     *string
		standard string
	}{{&t.Orders, "orders"}, {&t.Events, "order-events"}, {&t.DeadLetters, "orders.dead-letters"}} {
		if *d.name == "" {
			*d.name = d.standard
		}
	}
	return t
}

// Close ends the pool; it waits for calls in flight.
func (l *Ledger) Close() { l.pool.Close() }

// Pool is the pool behind the ledger, for package outbox and for metrics. Nobody else writes SQL.
func (l *Ledger) Pool() *postgres.Pool { return l.pool }

// Ping says whether the server answers.
func (l *Ledger) Ping(ctx context.Context) error { return classify("ping ledger", l.pool.Ping(ctx)) }
