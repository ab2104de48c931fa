package redisconn

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// together is the most calls of one pipeline: others that Redis serves wait for no longer than these few milliseconds of scripts.
	together = 128
	// waitMost is the most calls that wait for one node. A line that long is an outage, and more of it helps nobody.
	waitMost = 10_000
	// repeats is how often a call whose answer was lost is asked again, as often as ClientOptions do it.
	repeats = 2
)

// ErrCrowded says that too many calls wait for this node of Redis. The call was not sent.
var ErrCrowded = errors.New("too many calls wait for redis")

// Shared is a client whose scripts share pipelines: calls of Script.Run that come while a pipeline to their node is under way wait and
// leave together in the next one, so that a crowd costs one write and one read for many calls. Nothing is ever held back: a call that
// finds nothing under way leaves at once. Everything else goes to the client as before. Safe for concurrent use.
//
// A call stands for itself in a pipeline. Its script's error is its own. When a connection is lost, the calls that were answered keep
// their answers; the others, whose outcome is unknown, are asked again, twice at most, in the pipelines that follow: only scripts
// that may run twice may be run with it, which are all but the admission's. A caller whose context ends does not stop
// the others: it gets the context's error, and its call, when it was already under way, may still have run.
type Shared struct {
	redis.UniversalClient
	breakers *breakers // nil without Guard

	mu     sync.Mutex
	lanes  map[*redis.Client]*lane // of the nodes for which something waits or is under way; one under nil without cluster mode
	closed bool
	busy   sync.WaitGroup // one for each lane
}

// lane is what waits for one node; one goroutine empties it and ends.
type lane struct {
	queue []*call // guarded by Shared's mu
}

// call is one run of a script on its way.
type call struct {
	script   *Script
	keys     []string
	args     []any
	deadline time.Time   // of its caller; zero for none
	gone     atomic.Bool // its caller waits no more
	byText   bool        // the node has met the hash and did not know it
	lost     int         // answers that did not arrive
	fault    error       // of the last of them
	done     chan outcome
}

type outcome struct {
	values []any
	err    error
}

// Share makes the client's scripts share pipelines. The client may repeat (ClientOptions). Close the Shared instead of the client.
func Share(rdb redis.UniversalClient) *Shared {
	return &Shared{UniversalClient: rdb, lanes: map[*redis.Client]*lane{}}
}

// Close takes no more calls, gives those that wait redis.ErrClosed, waits for the pipelines under way, which the client's time limits
// bound, and closes the client.
func (s *Shared) Close() error {
	s.mu.Lock()
	s.closed = true
	for _, l := range s.lanes {
		for _, c := range l.queue {
			c.done <- outcome{err: redis.ErrClosed}
		}
		l.queue = nil
	}
	s.mu.Unlock()
	s.busy.Wait()
	return s.UniversalClient.Close()
}

// run hands a call over and waits for its outcome.
func (s *Shared) run(ctx context.Context, script *Script, keys []string, args []any) ([]any, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	node, err := s.node(ctx, keys)
	if err == nil {
		err = s.refuse(node)
	}
	if err != nil {
		return nil, err
	}
	c := &call{script: script, keys: keys, args: args, done: make(chan outcome, 1)}
	c.deadline, _ = ctx.Deadline()
	if err := s.push(node, c); err != nil {
		return nil, err
	}
	select {
	case o := <-c.done:
		return o.values, o.err
	case <-ctx.Done():
	}
	c.gone.Store(true)
	select {
	case o := <-c.done: // it came at the same time
		return o.values, o.err
	default:
		return nil, ctx.Err()
	}
}

// node is where the keys are, as far as the client knows; a pipeline that finds them elsewhere follows them there.
func (s *Shared) node(ctx context.Context, keys []string) (*redis.Client, error) {
	cluster, ok := s.UniversalClient.(*redis.ClusterClient)
	if !ok || len(keys) == 0 {
		return nil, nil
	}
	return cluster.MasterForKey(ctx, keys[0])
}

// refuse returns an AwayError where the node is away, nil is the only one.
func (s *Shared) refuse(node *redis.Client) error {
	if only, ok := s.UniversalClient.(*redis.Client); ok {
		node = only
	}
	return s.breakers.refuse(node)
}

func (s *Shared) push(node *redis.Client, c *call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return redis.ErrClosed
	}
	l := s.lanes[node]
	if l == nil {
		l = &lane{}
		s.lanes[node] = l
		s.busy.Add(1)
		go s.drain(node, l)
	}
	if len(l.queue) >= waitMost {
		return ErrCrowded
	}
	l.queue = append(l.queue, c)
	return nil
}

// drain sends pipeline after pipeline until nothing waits.
func (s *Shared) drain(node *redis.Client, l *lane) {
	defer s.busy.Done()
	failed := 0 // pipelines in a row
	for {
		calls := s.next(node, l)
		if len(calls) == 0 {
			return
		}
		again, lost := s.send(calls)
		if !lost {
			failed = 0
		} else {
			failed++
			time.Sleep(min(50*time.Millisecond, 5*time.Millisecond<<min(failed, 4))) // as ClientOptions do between repeats
		}
		s.putBack(l, again)
	}
}

// next takes what waits, without those whose callers are gone. With nothing left the lane is over.
func (s *Shared) next(node *redis.Client, l *lane) []*call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var calls []*call
	for len(l.queue) > 0 && len(calls) < together {
		if c := l.queue[0]; !c.gone.Load() {
			calls = append(calls, c)
		}
		l.queue = l.queue[1:]
	}
	if len(calls) == 0 {
		delete(s.lanes, node)
	}
	return calls
}

// putBack lets calls that must be asked again go before all others.
func (s *Shared) putBack(l *lane, calls []*call) {
	if len(calls) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		for _, c := range calls {
			c.done <- outcome{err: redis.ErrClosed}
		}
		return
	}
	l.queue = append(calls, l.queue...)
}

// sent is a command that the client does not repeat by itself: it would repeat its whole pipeline, also what was answered. Redirects it
// follows.
type sent struct{ *redis.Cmd }

// NoRetry is the client's question.
func (sent) NoRetry() bool { return true }

// send runs the calls in one pipeline, hands their outcomes over, and returns those that must be asked again; lost says that an answer
// did not arrive.
func (s *Shared) send(calls []*call) (again []*call, lost bool) {
	ctx, cancel := within(calls)
	defer cancel()
	pipe := s.Pipeline()
	results := make([]*redis.Cmd, len(calls))
	loading := map[*Script]bool{} // the first call by text teaches the node the hash for those behind it
	for i, c := range calls {
		byText := c.byText && !loading[c.script]
		if byText {
			loading[c.script] = true
		}
		results[i] = c.command(ctx, byText)
		_ = pipe.Process(ctx, sent{results[i]}) // only queued
	}
	_, _ = pipe.Exec(ctx) // each result below carries its own error
	for i, c := range calls {
		values, err := results[i].Slice()
		if answer, _ := results[i].Val().([]any); answer != nil {
			values, err = answer, nil // a client without cluster mode writes the fault of one over the answers of all
		}
		switch {
		case redis.HasErrorPrefix(err, "NOSCRIPT") && c.lost < repeats:
			c.lost++ // a script cache that is flushed again and again must not hold it here for ever
			c.byText = true
			again = append(again, c)
		case err != nil && c.lost < repeats && mayRepeat(err):
			c.lost, c.fault, lost = c.lost+1, err, true
			again = append(again, c)
		case c.fault != nil && Away(err) != nil:
			c.done <- outcome{nil, c.fault} // it was sent before, so nobody knows whether it ran
		default:
			c.done <- outcome{values, err}
		}
	}
	return again, lost
}

// within is a context that ends with the last of the callers' contexts.
func within(calls []*call) (context.Context, context.CancelFunc) {
	var last time.Time
	for _, c := range calls {
		if c.deadline.IsZero() {
			return context.WithCancel(context.Background())
		}
		if c.deadline.After(last) {
			last = c.deadline
		}
	}
	return context.WithDeadline(context.Background(), last)
}

func (c *call) command(ctx context.Context, byText bool) *redis.Cmd {
	words := make([]any, 0, 3+len(c.keys)+len(c.args))
	if byText {
		words = append(words, "eval", c.script.source, len(c.keys))
	} else {
		words = append(words, "evalsha", c.script.script.Hash(), len(c.keys))
	}
	for i := range c.keys { // by reference, which takes no memory of its own
		words = append(words, &c.keys[i])
	}
	cmd := redis.NewCmd(ctx, append(words, c.args...)...)
	if len(c.keys) > 0 {
		cmd.SetFirstKeyPos(3)
	}
	return cmd
}

// mayRepeat tells an answer that was lost, or a node that cannot answer now, from a script's own error.
func mayRepeat(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, redis.ErrClosed) {
		return false
	}
	var reply redis.Error
	if !errors.As(err, &reply) {
		return Away(err) == nil
	}
	for _, prefix := range []string{"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK", "max number of clients"} {
		if redis.HasErrorPrefix(err, prefix) {
			return true
		}
	}
	return false
}
