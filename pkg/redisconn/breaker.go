package redisconn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

// The names of the breakers' metrics.
const (
	MetricBreakersOpen   = "hanjul_redis_breakers_open"
	MetricBreakerOpened  = "hanjul_redis_breaker_opened_total"
	MetricBreakerRefused = "hanjul_redis_breaker_refused_total"
)

// AwayError says that a node has not answered for a while and is not asked now. A script that was run with a Shared has not been sent; of
// another command on a cluster an earlier try may have been.
type AwayError struct {
	// RetryAfter is when to come again: not before the next try, and spread, so that a crowd does not return together.
	RetryAfter time.Duration
}

// Error tells it.
func (e *AwayError) Error() string { return "redis has not answered and is not asked now" }

// Away returns the AwayError in err; nil where there is none.
func Away(err error) *AwayError {
	away, _ := errors.AsType[*AwayError](err)
	return away
}

// BreakerConfig says when a node is not asked. Zero values mean the defaults named at each field.
type BreakerConfig struct {
	Failures   int                   // tries in a row without an answer after which it is not asked; default 5
	OpenFor    time.Duration         // how long it is not asked, until a single call may try; default 1 s
	Registerer prometheus.Registerer // of the metrics; nil for none
	Logger     *slog.Logger          // nil for none
}

type unguarded struct{}

// Unguarded lets the calls of a context through to nodes that are away, and has them count for nothing: for signs of life, which nobody
// waits for.
func Unguarded(ctx context.Context) context.Context {
	return context.WithValue(ctx, unguarded{}, true)
}

// Guard puts a breaker before each node of the client. Each stands for its node alone, so a shard that is away takes no other product with
// it, and a replica that was promoted has a breaker of its own; behind Sentinels there is one for whoever is the master. After Failures
// tries in a row without an answer calls of the node return an AwayError at once; after OpenFor one call may try, and until it was
// answered the others are still refused. Subscriptions have connections of their own and are not looked at. Call it once, before the first
// call of the client. An error when the metrics are registered already.
func (s *Shared) Guard(c BreakerConfig) error {
	c.Failures, c.OpenFor = cmp.Or(c.Failures, 5), cmp.Or(c.OpenFor, time.Second)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	all := &breakers{
		cfg: c, nodes: map[weak.Pointer[redis.Client]]*breaker{},
		opened:  prometheus.NewCounter(prometheus.CounterOpts{Name: MetricBreakerOpened, Help: "Times that a node of Redis was taken for away after it had answered."}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{Name: MetricBreakerRefused, Help: "Calls and pipelines that were not sent to a node of Redis because it is away."}),
	}
	if c.Registerer != nil {
		for _, metric := range []prometheus.Collector{all.opened, all.refused, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: MetricBreakersOpen, Help: "Nodes of Redis that are away: calls of them are refused, but for a single try now and then. 0 while all is well.",
		}, func() float64 { return float64(all.away.Load()) })} {
			if err := c.Registerer.Register(metric); err != nil {
				return fmt.Errorf("register metrics: %w", err)
			}
		}
	}
	s.breakers = all
	switch client := s.UniversalClient.(type) {
	case *redis.ClusterClient:
		client.OnNewNode(all.add)
	case *redis.Client:
		all.add(client)
	}
	return nil
}

// breakers are those of a client's nodes. A node's goes with the node, which the client lets go of when the cluster does.
type breakers struct {
	cfg             BreakerConfig
	opened, refused prometheus.Counter
	away            atomic.Int64 // breakers that are not closed

	mu    sync.RWMutex
	nodes map[weak.Pointer[redis.Client]]*breaker
}

// breaker is one node's, and the hook that has every command pass it.
type breaker struct {
	all     *breakers
	node    string
	circuit *gobreaker.CircuitBreaker[struct{}]
	closed  atomic.Bool
	next    atomic.Int64 // when the next try may be, ns since 1970
}

func (a *breakers) add(node *redis.Client) {
	b := &breaker{all: a, node: node.Options().Addr}
	b.closed.Store(true)
	b.circuit = gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests: 1, Timeout: a.cfg.OpenFor,
		ReadyToTrip:  func(counts gobreaker.Counts) bool { return int(counts.ConsecutiveFailures) >= a.cfg.Failures },
		IsSuccessful: func(err error) bool { return !unanswered(err) },
		IsExcluded:   tellsNothing,
		OnStateChange: func(_ string, _, to gobreaker.State) {
			b.turned(to)
		},
	})
	node.AddHook(b)
	key := weak.Make(node)
	a.mu.Lock()
	a.nodes[key] = b
	a.mu.Unlock()
	runtime.AddCleanup(node, func(key weak.Pointer[redis.Client]) { a.forget(key) }, key)
}

// forget drops the breaker of a node that is no more.
func (a *breakers) forget(key weak.Pointer[redis.Client]) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if b := a.nodes[key]; b != nil && !b.closed.Load() {
		a.away.Add(-1)
	}
	delete(a.nodes, key)
}

// refuse returns an AwayError where a call of the node would not be sent now. It spares the call the way there, and the wait behind a try.
func (a *breakers) refuse(node *redis.Client) error {
	if a == nil || a.away.Load() == 0 {
		return nil
	}
	a.mu.RLock()
	b := a.nodes[weak.Make(node)]
	a.mu.RUnlock()
	if b == nil {
		return nil
	}
	switch b.circuit.State() {
	case gobreaker.StateClosed:
		return nil
	case gobreaker.StateHalfOpen:
		if trying := b.circuit.Counts(); trying.Requests <= trying.TotalExclusions {
			return nil
		}
	case gobreaker.StateOpen:
	}
	return b.refusal()
}

// turned notes another state; the circuit's lock is held.
func (b *breaker) turned(to gobreaker.State) {
	ctx := context.Background()
	switch to {
	case gobreaker.StateOpen:
		b.next.Store(time.Now().Add(b.all.cfg.OpenFor).UnixNano())
		if b.closed.Swap(false) {
			b.all.away.Add(1)
			b.all.opened.Inc()
			b.all.cfg.Logger.WarnContext(ctx, "redis is away, calls are refused", "node", b.node, "next_try_ms", b.all.cfg.OpenFor.Milliseconds())
		}
	case gobreaker.StateClosed:
		if !b.closed.Swap(true) {
			b.all.away.Add(-1)
			b.all.cfg.Logger.InfoContext(ctx, "redis answers again", "node", b.node)
		}
	case gobreaker.StateHalfOpen:
		b.all.cfg.Logger.DebugContext(ctx, "redis is tried", "node", b.node)
	}
}

func (b *breaker) refusal() error {
	b.all.refused.Inc()
	wait := max(0, time.Until(time.Unix(0, b.next.Load())))
	return &AwayError{RetryAfter: wait + rand.N(2*b.all.cfg.OpenFor)} //nolint:gosec // a pause, no secret
}

// pass makes a call unless the node is away. The call returns its error and what it tells of the node.
func (b *breaker) pass(ctx context.Context, call func() (err, tells error)) error {
	if err := ctx.Err(); err != nil {
		return err // the node was not asked
	}
	if ctx.Value(unguarded{}) != nil {
		err, _ := call()
		return err
	}
	var err error
	_, refused := b.circuit.Execute(func() (struct{}, error) {
		var tells error
		err, tells = call()
		return struct{}{}, tells
	})
	if refused == gobreaker.ErrOpenState || refused == gobreaker.ErrTooManyRequests { //nolint:errorlint // the circuit's own words, never wrapped
		return b.refusal()
	}
	return err
}

// DialHook changes nothing: a connection is made within a command, or for a subscription.
func (b *breaker) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook is a command's way to the node.
func (b *breaker) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if handshake(cmd) {
			return next(ctx, cmd)
		}
		err := b.pass(ctx, func() (error, error) {
			err := next(ctx, cmd)
			if err == nil && (cmd.Name() == "cluster" || cmd.Name() == "command") {
				return nil, errMapOnly
			}
			return err, err
		})
		cmd.SetErr(err)
		return err
	}
}

// ProcessPipelineHook is a pipeline's way: it counts as one call, and as unanswered when one of its commands is.
func (b *breaker) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if len(cmds) > 0 && handshake(cmds[0]) {
			return next(ctx, cmds)
		}
		sent := false
		err := b.pass(ctx, func() (error, error) {
			sent = true
			err := next(ctx, cmds)
			tells := err
			for _, cmd := range cmds {
				if cmd.Err() != nil && (tells == nil || unanswered(cmd.Err())) {
					tells = cmd.Err()
				}
			}
			return err, tells
		})
		if !sent {
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
		}
		return err
	}
}

// handshake says that a command is how the client begins a connection. It is part of the call that needed the connection, which passed
// already, or of a subscription, which nothing holds up.
func handshake(cmd redis.Cmder) bool {
	switch cmd.Name() {
	case "hello", "auth", "select", "client", "readonly":
		return true
	default:
		return false
	}
}

// errMapOnly stands for an answer to what the client itself asks for, the map of the cluster and the list of commands: a node that loads
// its data, or whose cluster is down, answers that and nothing else.
var errMapOnly = errors.New("only the client's own question was answered")

// tellsNothing is what neither speaks for a node nor against it: the caller's going, our own crowd, and who else serves a slot.
func tellsNothing(err error) bool {
	return errors.Is(err, errMapOnly) || errors.Is(err, context.Canceled) || errors.Is(err, redis.ErrClosed) || errors.Is(err, redis.ErrPoolTimeout) ||
		redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK") || redis.HasErrorPrefix(err, "TRYAGAIN")
}

// unanswered says that a node did not answer, or only that it cannot serve now. Any other error reply is an answer.
func unanswered(err error) bool {
	if err == nil {
		return false
	}
	if _, reply := errors.AsType[redis.Error](err); !reply {
		return true
	}
	for _, prefix := range []string{"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "max number of clients"} {
		if redis.HasErrorPrefix(err, prefix) {
			return true
		}
	}
	return false
}
