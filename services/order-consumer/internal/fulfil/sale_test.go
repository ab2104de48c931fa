package fulfil

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"hanjul/deploy/local/localtest"
	"hanjul/pkg/kafka"
	"hanjul/pkg/ledger"
	"hanjul/pkg/ledger/ledgertest"
	"hanjul/pkg/order"
	"hanjul/pkg/orderstatus"
	"hanjul/pkg/product"
	"hanjul/pkg/redisconn"
	"hanjul/pkg/stock"
	"hanjul/pkg/waitingroom"
	"hanjul/services/order-consumer/internal/intake"
)

// sale is one product between its real stores.
type sale struct {
	world
	t         testing.TB
	ledger    *ledger.Ledger
	room      *waitingroom.Room
	admitter  *waitingroom.Admitter
	counter   *stock.Counter
	status    *orderstatus.Store
	registry  *prometheus.Registry
	fulfiller *Fulfiller
	fault     func(step string) error
	places    map[product.UserID]order.Command
}

// newSale opens a product whose slot believes in shown units while the ledger has total, so that orders can be bound that will not
// be confirmed.
func newSale(t testing.TB, total, shown int64) *sale {
	t.Helper()
	fixture := localtest.Redis(t)
	config := redisconn.Config{Addrs: fixture.Addrs, Timeout: 20 * time.Second}
	rdb, once := redisconn.New(redisconn.ClientOptions(config)), redisconn.New(redisconn.OnceOptions(config))
	t.Cleanup(func() { closeAll(rdb, once) })
	keys := product.Keyspace{Prefix: fixture.Prefix}
	s := &sale{
		world: newWorld(t), t: t, ledger: ledgertest.Open(t), room: waitingroom.New(rdb, keys), admitter: waitingroom.NewAdmitter(once, keys),
		counter: stock.New(rdb, keys), status: orderstatus.New(rdb, keys, orderstatus.Config{}), registry: prometheus.NewRegistry(),
		fault: func(string) error { return nil }, places: map[product.UserID]order.Command{},
	}
	s.fulfiller = New(Config{
		Ledger: s.ledger, Stock: s.counter, Status: s.status, Verifier: s.verifier, Registerer: s.registry,
		Fault: func(step string) error { return s.fault(step) },
	})
	ledgertest.Product(t, s.ledger, "p", total)
	settings := product.DefaultSettings()
	settings.State, settings.Rate, settings.Burst, settings.Capacity = product.Open, 100_000, 100_000, 1000
	line := waitingroom.LineSettings{Settings: settings, V: 1, OpenedUS: s.openeds.UnixMicro(), PassEpoch: 1}
	s.must(s.room.RestoreBegin(t.Context(), "p", "nonce"))
	s.must(s.room.RestoreCommit(t.Context(), "p", "nonce", line, 1, 0, 0))
	s.must(s.counter.Settle(t.Context(), "p", shown, 0, true, nil))
	return s
}

func closeAll(clients ...redis.UniversalClient) {
	for _, c := range clients {
		_ = c.Close()
	}
}

func (s *sale) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// bind takes the users through the line, each to an order of that many units that is bound and not yet judged (O1).
func (s *sale) bind(quantity int, users ...product.UserID) {
	s.t.Helper()
	ctx := s.t.Context()
	standing := make([]waitingroom.Standing, len(users))
	for i, u := range users {
		var err error
		standing[i], err = s.room.Join(ctx, "p", product.HashUser(s.user, u), nil)
		s.must(err)
	}
	for in, deadline := 0, time.Now().Add(30*time.Second); in < len(users); {
		r, err := s.admitter.Admit(ctx, "p", len(users))
		s.must(err)
		in += r.Admitted
		if time.Now().After(deadline) {
			s.t.Fatalf("%d of %d admitted", in, len(users))
		}
	}
	for i, u := range users {
		c := s.place(s.t, s.pass("p", u, standing[i].Place), quantity)
		value, err := c.Encode()
		s.must(err)
		r, err := s.room.Bind(ctx, waitingroom.BindRequest{
			Product: "p", User: product.HashUser(s.user, u), Place: c.Place, OrderID: c.OrderID, Epoch: 1, Quantity: quantity,
			ExpiresMS: time.Now().Add(time.Hour).UnixMilli(), Digest: order.Digest(quantity, ""), Command: value,
		})
		if err != nil || r.Outcome != waitingroom.BindBound {
			s.t.Fatal(r.Outcome, r.Reason, err)
		}
		s.places[u] = c
	}
}

// batch puts records at successive offsets.
func batch(from int64, records ...kafka.Message) intake.Batch {
	for i := range records {
		records[i].Offset = from + int64(i)
	}
	return intake.Batch{Topic: "orders", Partition: 3, Records: records, Next: from + int64(len(records)), HighWater: from + int64(len(records))}
}

// summary is what everybody can see, without ids and times: the ledger's rows and events, the slot's stock, and each user's status.
func (s *sale) summary() string {
	s.t.Helper()
	ctx := s.t.Context()
	var out strings.Builder
	who := map[order.ID]product.UserID{}
	for u, c := range s.places {
		who[c.OrderID] = u
	}
	rows := map[product.UserID]string{}
	s.must(s.ledger.Snapshot(ctx, "p", func(snap *ledger.Snapshot) error {
		p, err := snap.Product()
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "stock %d of %d sold, seq %d\n", p.Sold, p.Total, p.Seq)
		if err := snap.EachOrder(func(r ledger.OrderRow) error {
			rows[who[r.OrderID]] = fmt.Sprintf("%s(%s) v%d seq %d", r.State, r.Reason, r.Version, r.Seq)
			return nil
		}); err != nil {
			return err
		}
		if err := snap.EachOutbox(func(r ledger.OutboxRow) error {
			fmt.Fprintf(&out, "outbox %d %s %s left %d\n", r.Seq, r.Topic, r.Type, r.LeftAfter)
			return nil
		}); err != nil {
			return err
		}
		if err := snap.EachCommand(func(r ledger.CommandRow) error {
			fmt.Fprintf(&out, "command %s %s seq %d\n", r.CommandID, r.Result, r.Seq)
			return nil
		}); err != nil {
			return err
		}
		return snap.EachLetter(func(r ledger.LetterRow) error {
			fmt.Fprintf(&out, "letter %d %s\n", r.Offset, r.Reason)
			return nil
		})
	}))
	for _, u := range slices.Sorted(maps.Keys(s.places)) {
		st, found, err := s.status.Get(ctx, s.places[u].OrderID)
		s.must(err)
		m, err := s.room.Membership(ctx, "p", product.HashUser(s.user, u))
		s.must(err)
		fmt.Fprintf(&out, "%s: row %s; status %v %s(%s) v%d; line %s in %d\n", u, rows[u], found, st.State, st.Reason, st.Version, m.Record, m.Sets)
	}
	books, err := s.room.Audit(ctx, "p")
	s.must(err)
	fmt.Fprintf(&out, "slot base %d held %d = %d in flight %d ordered %d\n",
		books.View.Base, books.View.Held, books.HeldSum, books.View.InFlight, books.Tally.Ordered)
	return out.String()
}
