// Package submit takes an order from a verified pass to its answer: a producer's slot, bind in Redis, the stored bytes to
// Kafka, the status, the answer; and it sends again what was bound and never acknowledged (the sweeper).
//
// It stands between httpapi, which has read and checked the request, and waitingroom, orderstatus and kafka. It owns the
// meaning of bind's outcomes (docs/joint.md, 2.3) and the bytes of a place command. It never judges an order, never reads
// HTTP, and never says 202 before Kafka has acknowledged.
package submit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"hanjul/pkg/kafka"
	"hanjul/pkg/keyring"
	"hanjul/pkg/order"
	"hanjul/pkg/orderstatus"
	"hanjul/pkg/pass"
	"hanjul/pkg/product"
	"hanjul/pkg/redisconn"
	"hanjul/pkg/waitingroom"
)

// What Submit returns instead of an answer, beside a redisconn.AwayError. But for ErrOutcomeUnknown nothing was sent by this call.
var (
	// ErrBusy: no slot, or too many orders bound and not judged. The pass is untouched.
	ErrBusy = errors.New("too many orders on their way")
	// ErrNotReady: the line has no settings or no opening. The pass is untouched.
	ErrNotReady = errors.New("the line takes no orders yet")
	// ErrHalted: an operator halted orders. The pass stays good, and its time stands still meanwhile.
	ErrHalted = errors.New("orders are halted")
	// ErrSoldOut: fewer units are left than asked for. The pass stays good.
	ErrSoldOut = errors.New("not enough units are left")
	// ErrSpent: the pass has bought an order of another quantity or key.
	ErrSpent = errors.New("the pass was used for another order")
	// ErrKeySpent: without a pass, the Idempotency-Key has bought an order of another quantity.
	ErrKeySpent = errors.New("the Idempotency-Key was used for another order")
	// ErrNeedsPass: the queue is on, and the call has no pass.
	ErrNeedsPass = errors.New("orders need a pass")
	// ErrPending: without a pass, an order of the user is on its way to its verdict; a PendingError tells which.
	ErrPending = errors.New("another order of the user has no verdict yet")
	// ErrLapsed: the pass ran out, unused as far as anybody knows.
	ErrLapsed = errors.New("the pass has lapsed")
	// ErrRevoked: the user or all passes of that epoch were revoked.
	ErrRevoked = errors.New("the pass was revoked")
	// ErrLeft: the place was given up.
	ErrLeft = errors.New("the place was given up")
	// ErrOutcomeUnknown: the order may be in the log, now or later; the same call may be repeated.
	ErrOutcomeUnknown = errors.New("the outcome is unknown")
)

// PendingError is ErrPending with the order that has no verdict yet.
type PendingError struct{ OrderID order.ID }

// Error says which order it is.
func (e *PendingError) Error() string {
	return "order " + string(e.OrderID) + ": " + ErrPending.Error()
}

// Unwrap makes it an ErrPending.
func (e *PendingError) Unwrap() error { return ErrPending }

// The steps after which Config.Fault is asked.
const (
	StepSlot     = "slot"
	StepBound    = "bound"
	StepProduced = "produced"
	StepTold     = "told"
)

// Room is what submit needs of waitingroom.
type Room interface {
	Bind(ctx context.Context, r waitingroom.BindRequest) (waitingroom.BindResult, error)
	BindDirect(ctx context.Context, r waitingroom.DirectRequest) (waitingroom.BindResult, error)
	Acked(ctx context.Context, p product.ID, id order.ID) error
	Due(ctx context.Context, p product.ID, limit int) ([]waitingroom.Intent, error)
	Products(ctx context.Context) ([]product.ID, error)
}

// Statuses is what submit needs of orderstatus.
type Statuses interface {
	Put(ctx context.Context, id order.ID, s order.Status) (bool, error)
	Get(ctx context.Context, id order.ID) (order.Status, bool, error)
	Want(ctx context.Context, w orderstatus.Wanted) error
}

// Config says where orders go and how long their steps may take. Zero durations mean the defaults.
type Config struct {
	// Topic takes the commands.
	Topic string
	// Commands signs those that carry no pass (F31).
	Commands keyring.Key
	// SendTimeout bounds the wait for Kafka's acknowledgement; default 5 s. What is not acknowledged by then is unknown.
	SendTimeout time.Duration
	// StoreTimeout bounds each call of Redis; default 1 s.
	StoreTimeout time.Duration
	// Now is the clock of deadlines; nil means time.Now.
	Now func() time.Time
	// Fault stands for a crash in tests: asked after each step, it ends the call by an error. Nil in production.
	Fault func(step string) error
}

func (c Config) withDefaults() Config {
	if c.SendTimeout == 0 {
		c.SendTimeout = 5 * time.Second
	}
	if c.StoreTimeout == 0 {
		c.StoreTimeout = time.Second
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Fault == nil {
		c.Fault = func(string) error { return nil }
	}
	return c
}

// Request is one order. Its pass was verified; its user and product are the call's own, and the pass's.
type Request struct {
	OrderID        order.ID // of the pass; without one, of the user's key (order.DeriveDirectID)
	Product        product.ID
	User           product.UserID
	UserHash       product.UserHash
	Pass           *pass.Pass // nil for an order without one, which is taken while the queue is off
	PassText       string
	Quantity       int    // 1 to the product's max_quantity
	IdempotencyKey string // empty for none, which only an order with a pass may have
	OrderTTL       time.Duration
	Traceparent    string // of this call; empty for none
}

// digest tells two submits with one pass apart (F15); with a pass the key is part of it and nothing else (F16).
func (r Request) digest() string { return order.Digest(r.Quantity, r.IdempotencyKey) }

// Answer is what is known of the order. Known is false when the books must be asked first.
type Answer struct {
	Status order.Status
	Known  bool
}

// Judged says that the verdict is there.
func (a Answer) Judged() bool { return a.Known && a.Status.Version >= order.VersionVerdict }

// Submitter takes orders. Safe for concurrent use.
type Submitter struct {
	room     Room
	statuses Statuses
	producer *kafka.Producer
	logger   *slog.Logger
	metrics  *Metrics
	cfg      Config
	seen     sync.Map // product.ID → struct{}: products this process has bound orders of
}

// New returns a submitter. The producer must place the topic's keys and be running before the first order.
func New(room Room, statuses Statuses, producer *kafka.Producer, logger *slog.Logger, metrics *Metrics, cfg Config) *Submitter {
	return &Submitter{room: room, statuses: statuses, producer: producer, logger: logger, metrics: metrics, cfg: cfg.withDefaults()}
}

// Submit takes one order to its answer. Safe to repeat, also after any error and in parallel: the same pass, quantity and
// key lead to the same order, and so do, without a pass, the same user, quantity and key. It goes on although the caller's context ends, so that a cut connection leaves nothing half
// done, and takes at most SendTimeout and three StoreTimeouts.
func (s *Submitter) Submit(ctx context.Context, r Request) (Answer, error) {
	answer, err := s.submit(ctx, r)
	s.metrics.outcome(answer, err)
	return answer, err
}

func (s *Submitter) submit(ctx context.Context, r Request) (Answer, error) {
	command, err := s.command(r)
	if err != nil {
		return Answer{}, err
	}

	// 1. Slot. Overload is said here, with the pass untouched; behind bind there is no refusal any more (F2).
	// Crash: nothing happened. Twice: two slots for a moment.
	slot, err := s.producer.Reserve()
	if err != nil {
		return Answer{}, fmt.Errorf("reserve a slot for order %s: %w: %w", r.OrderID, ErrBusy, err)
	}
	defer slot.Release()
	if err := s.cfg.Fault(StepSlot); err != nil {
		return Answer{}, err
	}

	// 2. Bind: the pass becomes an order, its units are held and its bytes kept.
	// Crash before: the pass is untouched. Crash after, or an answer that was lost: an intent without a message, which the
	// sweeper sends. Twice: the same bytes come back, or the order's end. Late: the script looks at its own clock.
	// From here on the caller may go: what it began is finished.
	ctx = context.WithoutCancel(ctx)
	bound, err := s.bind(ctx, r, command)
	if redisconn.Away(err) != nil {
		return Answer{}, fmt.Errorf("bind order %s: %w", r.OrderID, err) // it was not sent
	}
	if err := turnedAway(err); err != nil {
		return Answer{}, fmt.Errorf("order %s: %w", r.OrderID, err)
	}
	if err != nil {
		return Answer{}, fmt.Errorf("bind order %s: %w: %w", r.OrderID, ErrOutcomeUnknown, err)
	}
	if bound.Outcome != waitingroom.BindBound {
		return s.unbound(ctx, r, bound)
	}
	if err := s.cfg.Fault(StepBound); err != nil {
		return Answer{}, err
	}

	// 3. Produce the stored bytes, which are those of the first submit.
	// Crash, or no clear answer: the order may be in the log; the sweeper sends it again under the same id. Twice: copies of
	// one id, judged once. Late: the record's own time against the deadline decides (F10).
	sent := s.send(ctx, slot, r.Product, bound.Command)
	if err := s.cfg.Fault(StepProduced); err != nil {
		return Answer{}, err
	}

	// 4. Status, and the sweeper's attention. Crash before: whoever asks finds the intent. Twice, late: a lower version
	// changes nothing (F3).
	status := order.Status{
		Version: order.VersionPending, State: order.StatePending,
		Product: r.Product, User: r.UserHash, Quantity: r.Quantity, Digest: r.digest(),
	}
	var noted sync.WaitGroup
	if sent.Outcome == kafka.Accepted {
		status.Version, status.State = order.VersionAccepted, order.StateAccepted
		// Beside the status, in the same pipeline: both in either order say what they say alone.
		noted.Go(func() { s.acked(ctx, r.Product, r.OrderID) })
	}
	s.put(ctx, r.OrderID, status)
	noted.Wait()
	if err := s.cfg.Fault(StepTold); err != nil {
		return Answer{}, err
	}

	// 5. Answer. Crash: the caller asks again and gets the same order.
	if sent.Outcome != kafka.Accepted {
		return Answer{}, fmt.Errorf("produce order %s: %w: %w", r.OrderID, ErrOutcomeUnknown, sent.Err)
	}
	return Answer{Status: status, Known: true}, nil
}

// command makes the bytes of a place. They count only if bind keeps them.
func (s *Submitter) command(r Request) ([]byte, error) {
	now := s.cfg.Now()
	c := order.Command{
		Version: order.CommandVersion, Kind: order.KindPlace, ID: string(r.OrderID), OrderID: r.OrderID,
		Product: r.Product, User: r.User, UserHash: r.UserHash,
		Quantity: r.Quantity, IdempotencyKey: r.IdempotencyKey,
		DeadlineMS: now.Add(r.OrderTTL).UnixMilli(), AtMS: now.UnixMilli(), Traceparent: r.Traceparent,
	}
	if r.Pass != nil {
		c.Place, c.Pass = r.Pass.Place, r.PassText
	} else {
		var err error
		if c, err = c.Sign(s.cfg.Commands); err != nil {
			return nil, fmt.Errorf("sign order %s: %w", r.OrderID, err)
		}
	}
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("make order %s: %w", r.OrderID, err)
	}
	return c.Encode()
}

func (s *Submitter) bind(ctx context.Context, r Request, command []byte) (waitingroom.BindResult, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.StoreTimeout)
	defer cancel()
	s.seen.Store(r.Product, struct{}{})
	if r.Pass == nil {
		return s.room.BindDirect(ctx, waitingroom.DirectRequest{
			Product: r.Product, User: r.UserHash, OrderID: r.OrderID, Digest: r.digest(), Quantity: r.Quantity, Command: command,
		})
	}
	return s.room.Bind(ctx, waitingroom.BindRequest{
		Product: r.Product, User: r.UserHash, Place: r.Pass.Place, OrderID: r.OrderID,
		ExpiresMS: r.Pass.ExpiresAt.UnixMilli(), Epoch: r.Pass.Epoch,
		Digest: r.digest(), Quantity: r.Quantity, Command: command,
	})
}

func (s *Submitter) send(ctx context.Context, slot *kafka.Slot, p product.ID, command []byte) kafka.Result {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.SendTimeout)
	defer cancel()
	return slot.Send(ctx, kafka.Record{Topic: s.cfg.Topic, Key: []byte(p), Value: command})
}

// acked tells the sweeper that the log has the order. Without it the order is only sent once more.
func (s *Submitter) acked(ctx context.Context, p product.ID, id order.ID) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.StoreTimeout)
	defer cancel()
	if err := s.room.Acked(ctx, p, id); err != nil {
		s.metrics.storeFailed("acked")
		s.logger.DebugContext(ctx, "acknowledgement not noted", "product", p, "order_id", id, "err", err)
	}
}

// put writes a status of version 0 or 1. Without it whoever asks finds the intent, then the verdict.
func (s *Submitter) put(ctx context.Context, id order.ID, status order.Status) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.StoreTimeout)
	defer cancel()
	if _, err := s.statuses.Put(ctx, id, status); err != nil {
		s.metrics.storeFailed("status")
		s.logger.DebugContext(ctx, "status not written", "order_id", id, "err", err)
	}
}
