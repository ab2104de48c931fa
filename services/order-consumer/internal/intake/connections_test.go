package intake

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"hanjul/deploy/local/localtest"
	"hanjul/pkg/kafka"
)

// K13: a member that has 64 partitions waits at the broker for each of them over one
// connection. While it looks for where to start it has a second one for each,
// which then idles, and a few for the group; however long it goes on, no more.
func TestIntakeConnectionsPerPartition(t *testing.T) {
	t.Parallel()

	const count, spare = 64, 8

	var listening counted

	b, c := faulty(t, kfake.ListenFn(listening.listen))
	b.topic = localtest.Topic(t, "orders")

	if err := kafka.CreateTopics(patient(t), b.kafka, []kafka.TopicSpec{{Name: b.topic, Partitions: count}}); err != nil {
		t.Fatal(err)
	}

	var fetches atomic.Int64

	c.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		fetches.Add(1)

		return nil, nil, false
	})

	m := b.start(t, func(context.Context, Batch) error { return nil }, func(c *Config) { c.Partitions = count })
	m.ready(t)

	before := fetches.Load()
	eventually(t, "each partition is waited for again and again", func() bool { return fetches.Load() >= before+5*count })
	m.stop(t)

	if most := listening.most.Load(); most < count || most > 2*count+spare {
		t.Errorf("%d connections for %d partitions, want at most two each and %d beside them", most, count, spare)
	}
}

// counted counts the connections to a broker that are open at the same time.
type counted struct{ open, most atomic.Int64 }

func (c *counted) listen(network, address string) (net.Listener, error) {
	var config net.ListenConfig

	listener, err := config.Listen(context.Background(), network, address)

	return countedListener{listener, c}, err
}

type countedListener struct {
	net.Listener
	of *counted
}

func (l countedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}

	now := l.of.open.Add(1)
	for most := l.of.most.Load(); now > most && !l.of.most.CompareAndSwap(most, now); most = l.of.most.Load() {
	}

	return &countedConn{Conn: conn, of: l.of}, nil
}

type countedConn struct {
	net.Conn
	of     *counted
	closed sync.Once
}

func (c *countedConn) Close() error {
	c.closed.Do(func() { c.of.open.Add(-1) })

	return c.Conn.Close()
}
