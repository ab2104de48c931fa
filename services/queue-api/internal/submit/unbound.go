package submit

import (
	"context"
	"errors"
	"fmt"

	"hanjul/pkg/order"
	"hanjul/pkg/orderstatus"
	"hanjul/pkg/waitingroom"
)

// unbound answers when bind took nothing: the lines of the table in docs/joint.md, 2.3, below the first two. No message is
// sent on any of them.
func (s *Submitter) unbound(ctx context.Context, r Request, bound waitingroom.BindResult) (Answer, error) {
	fail := func(err error) (Answer, error) {
		return Answer{}, fmt.Errorf("order %s: %w", r.OrderID, err)
	}
	switch bound.Outcome {
	case waitingroom.BindConflict:
		return fail(r.spent())
	case waitingroom.BindPending:
		return fail(&PendingError{OrderID: bound.Pending})
	case waitingroom.BindHalted:
		return fail(ErrHalted)
	case waitingroom.BindSoldOut:
		if r.Pass != nil {
			return fail(ErrSoldOut)
		}
	case waitingroom.BindBusy:
		return fail(ErrBusy)
	case waitingroom.BindClosed:
		return fail(ErrNotReady)
	case waitingroom.BindJudged, waitingroom.BindRefused, waitingroom.BindUnknown, waitingroom.BindQueueOn:
	default:
		return Answer{}, fmt.Errorf("order %s: bind answered %q", r.OrderID, bound.Outcome)
	}

	// Judged here, or not known here: what the status says comes first, since a verdict outlives the line's memory (F15).
	ctx, cancel := context.WithTimeout(ctx, s.cfg.StoreTimeout)
	defer cancel()
	status, found, err := s.statuses.Get(ctx, r.OrderID)
	if err != nil {
		return Answer{}, fmt.Errorf("read the status of order %s: %w: %w", r.OrderID, ErrOutcomeUnknown, err)
	}
	if found {
		if status.Digest != "" && status.Digest != r.digest() {
			return fail(r.spent())
		}
		if (bound.Outcome == waitingroom.BindJudged || r.Pass == nil) && status.Version < order.VersionVerdict {
			s.want(ctx, r) // its verdict is being written, or was lost
		}
		return Answer{Status: status, Known: true}, nil
	}
	switch bound.Outcome {
	case waitingroom.BindJudged:
		s.want(ctx, r)
		return Answer{Status: order.Status{
			State: order.StatePending, Product: r.Product, User: r.UserHash, Quantity: r.Quantity, Digest: r.digest(),
		}}, nil
	case waitingroom.BindUnknown:
		s.want(ctx, r)
		return fail(ErrOutcomeUnknown)
	case waitingroom.BindQueueOn:
		// Never ordered, as a rule; or while the queue was off, and forgotten since: who asks for the order itself is told from the books.
		return fail(ErrNeedsPass)
	case waitingroom.BindSoldOut:
		return fail(ErrSoldOut) // likewise
	default:
		return fail(refusal(bound.Reason))
	}
}

// spent says what has bought another order.
func (r Request) spent() error {
	if r.Pass == nil {
		return ErrKeySpent
	}
	return ErrSpent
}

// turnedAway is what the script said of an order without a pass that is no outcome, or nil: nothing changed.
func turnedAway(err error) error {
	switch {
	case errors.Is(err, waitingroom.ErrNotReady):
		return ErrNotReady
	case errors.Is(err, waitingroom.ErrNotOpen), errors.Is(err, waitingroom.ErrClosed):
		return err
	}
	return nil
}

// refusal says why a genuine pass that was never used is not taken. Lapsed, expired and superseded mean the same to its holder:
// the turn of this pass went by.
func refusal(reason waitingroom.BindReason) error {
	switch reason {
	case waitingroom.ReasonRevoked, waitingroom.ReasonEvicted, waitingroom.ReasonBanned:
		return ErrRevoked
	case waitingroom.ReasonLeft:
		return ErrLeft
	default:
		return ErrLapsed
	}
}

// want asks for the order's status from the books. From the deadline on nobody can still send it: bound at the latest at the
// pass's end, it lives for the product's order time (F10). Nothing tells when an order without a pass was bound, but that it
// was: an order time from now it is over. The deadline is the same for all who ask within one, so that they do not make the list longer.
func (s *Submitter) want(ctx context.Context, r Request) {
	wanted := orderstatus.Wanted{Product: r.Product, User: r.UserHash, OrderID: r.OrderID}
	if r.Pass != nil {
		wanted.DeadlineMS = r.Pass.ExpiresAt.Add(r.OrderTTL).UnixMilli()
	} else {
		ttl := max(1, r.OrderTTL.Milliseconds())
		wanted.DeadlineMS = (s.cfg.Now().UnixMilli()/ttl + 2) * ttl
	}
	if err := s.statuses.Want(ctx, wanted); err != nil {
		s.metrics.storeFailed("want")
		s.logger.DebugContext(ctx, "status not asked for", "order_id", r.OrderID, "err", err)
	}
}
