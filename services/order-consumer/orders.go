package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"time"

	"hanjul/pkg/commandline"
	"hanjul/pkg/config"
	"hanjul/pkg/ledger"
	"hanjul/pkg/order"
	"hanjul/pkg/orderstatus"
	"hanjul/pkg/product"
	"hanjul/pkg/redisconn"
	"hanjul/pkg/waitingroom"
)

const ordersHelp = `Shows what is known of an order: its row and events in the ledger, its dead letter, its status and intent in Redis. Changes nothing.
Needs the settings POSTGRES_*, REDIS_ADDRS (or another REDIS_ setting that says where Redis is) and KEY_PREFIX. An order that only Redis may know needs its product.
Exit code 1: nothing is known of it, or a store did not answer.

Examples:
  order-consumer orders show 018bcfe5-6800-7a10-8b2c-0d3e5f708192
  order-consumer orders show 018bcfe5-6800-7a10-8b2c-0d3e5f708192 --product demo --json

`

func orders(ctx context.Context, e environment, args []string) int {
	return choose(ctx, e, "orders", ordersHelp, []verb{{"show", showOrder}}, args)
}

// ordersConfig is what orders needs, and no more.
type ordersConfig struct {
	lettersConfig
	redis  redisconn.Config
	prefix string
}

func loadOrders(s *config.Source) ordersConfig {
	c := ordersConfig{loadLetters(s), loadRedis(s), redisconn.ReadKeyPrefix(s)}
	c.redis.ClientName = "order-consumer-operator"
	return c
}

func showOrder(ctx context.Context, e environment, args []string) int {
	flags := flag.NewFlagSet("orders show", flag.ContinueOnError)
	asked := flags.String("product", "", "the order's `product`, where the ledger does not know it")
	asJSON := flags.Bool("json", false, "print one JSON document instead of lines")
	text, code, done := parseOne(e, flags, ordersHelp, "an order's id", args)
	if done {
		return code
	}
	id, err := order.ParseID(text)
	if err != nil {
		return fail(e, exitUsage, fmt.Errorf("orders show: %w", err))
	}
	c, ok := settings(e, loadOrders)
	if !ok {
		return exitUsage
	}
	view, err := c.look(ctx, id, product.ID(*asked))
	if err != nil {
		return fail(e, exitFailed, err)
	}
	if view.Row == nil && view.Letter == nil && view.Status == nil && !view.Intent {
		return fail(e, exitFailed, fmt.Errorf("order %s: nothing is known of it", id))
	}
	if *asJSON {
		err = commandline.JSON(e.stdout, view)
	} else {
		err = view.print(e.stdout)
	}
	if err != nil {
		return fail(e, exitFailed, err)
	}
	return 0
}

// orderView is all that is known of an order.
type orderView struct {
	OrderID order.ID    `json:"order_id"`
	Product product.ID  `json:"product,omitempty"`
	Row     *rowView    `json:"row"`
	Events  []eventView `json:"events"`
	Letter  *letterView `json:"dead_letter"`
	Status  *statusView `json:"status"`
	Intent  bool        `json:"intent"` // bound in Redis and not judged as far as Redis knows: its units are held
}

type rowView struct {
	State    order.State      `json:"state"`
	Reason   order.Reason     `json:"reason,omitempty"`
	Version  int              `json:"version"`
	User     product.UserID   `json:"user,omitempty"`
	UserHash product.UserHash `json:"user_hash"`
	Place    product.Place    `json:"place,omitempty"`
	Quantity int              `json:"quantity,omitempty"`
	Seq      int64            `json:"seq"`
	JudgedAt time.Time        `json:"judged_at"`
}

type eventView struct {
	ID        string    `json:"id"`
	Seq       int64     `json:"seq"`
	Type      string    `json:"type"`
	LeftAfter int64     `json:"left_after"`
	Published bool      `json:"published"`
	CreatedAt time.Time `json:"created_at"`
}

type statusView struct {
	State   order.State  `json:"state"`
	Reason  order.Reason `json:"reason,omitempty"`
	Version int          `json:"version"`
}

// look asks the ledger, then Redis.
func (c ordersConfig) look(ctx context.Context, id order.ID, asked product.ID) (orderView, error) {
	books, err := c.open(ctx)
	if err != nil {
		return orderView{}, err
	}
	defer books.Close()
	trace, err := books.TraceOrder(ctx, id)
	if err != nil {
		return orderView{}, err
	}
	v := orderView{OrderID: id, Product: asked, Events: []eventView{}}
	v.take(trace)
	rdb := redisconn.New(redisconn.ClientOptions(c.redis))
	defer closer(rdb)()
	if err := fitsRedis(ctx, rdb, c.redis.Mode); err != nil {
		return v, err
	}
	keys := product.Keyspace{Prefix: c.prefix}
	status, found, err := orderstatus.New(rdb, keys, orderstatus.Config{}).Get(ctx, id)
	if err != nil {
		return orderView{}, err
	}
	if found {
		v.Status = &statusView{status.State, status.Reason, status.Version}
		if v.Product == "" {
			v.Product = status.Product
		}
	}
	if v.Product != "" {
		v.Intent, err = waitingroom.New(rdb, keys).HasIntent(ctx, v.Product, id)
	}
	return v, err
}

func (v *orderView) take(t ledger.OrderTrace) {
	if l := t.Letter; l != nil {
		view := newLetterView(*l)
		v.Letter, v.Product = &view, l.Product
	}
	if r := t.Order; r != nil {
		v.Product = r.Product
		v.Row = &rowView{r.State, r.Reason, r.Version, r.UserID, r.User, r.Place, r.Quantity, r.Seq, r.JudgedAt.UTC()}
	}
	for _, o := range t.Events {
		v.Events = append(v.Events, eventView{o.ID, o.Seq, o.Type, o.LeftAfter, o.Published, o.CreatedAt.UTC()})
	}
}

func (v orderView) print(w io.Writer) error {
	t := commandline.NewTable(w)
	t.Line("order", v.OrderID)
	t.Line("product", commandline.Dash(v.Product))
	if r := v.Row; r != nil {
		t.Line("verdict", fmt.Sprintf("%s%s, version %d, seq %d, at %s", r.State, bracketed(r.Reason), r.Version, r.Seq, stamp(r.JudgedAt)))
		t.Line("user", commandline.Dash(shown(string(r.User)))+", hash "+string(r.UserHash))
		t.Line("quantity", r.Quantity)
		t.Line("place", r.Place)
	} else {
		t.Line("verdict", "none")
	}
	for _, o := range v.Events {
		published := "not published"
		if o.Published {
			published = "published"
		}
		t.Line("event", fmt.Sprintf("seq %d %s, %d left, %s, id %s", o.Seq, o.Type, o.LeftAfter, published, o.ID))
	}
	if l := v.Letter; l != nil {
		t.Line("dead letter", fmt.Sprintf("%d, %s (%s), partition %d, offset %d", l.ID, l.State, l.Reason, l.Partition, l.Offset))
	}
	if s := v.Status; s != nil {
		t.Line("status", fmt.Sprintf("%s%s, version %d", s.State, bracketed(s.Reason), s.Version))
	} else {
		t.Line("status", "Redis knows none")
	}
	if v.Intent {
		t.Line("intent", "in Redis; its units are held")
	} else {
		t.Line("intent", "none")
	}
	return t.End()
}

func bracketed(r order.Reason) string {
	if r == "" {
		return ""
	}
	return " (" + string(r) + ")"
}
