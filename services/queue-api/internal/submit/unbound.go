package submit

import (
	"context"
	"fmt"

	"hanjul/pkg/order"
	"hanjul/pkg/orderstatus"
	"hanjul/pkg/waitingroom"
)

// unbound answers when bind took nothing: the lines of the table in docs/joint.md, 2.3, below the first two. No message is
// sent on any of them.
func (s *Submitter) unbound(ctx context.Context, r Request, bound waitingroom.BindResult) (Answer, error) {
	fail := func(err error) (Answer, error) {
		return Answer{}, fmt.Errorf("order %s: %w", r.Pass.OrderID, err)
	}
	switch bound.Outcome {
	case waitingroom.BindConflict:
		return fail(ErrSpent)
	case waitingroom.BindHalted:
		return fail(ErrHalted)
	case waitingroom.BindSoldOut:
		return fail(ErrSoldOut)
	case waitingroom.BindBusy:
		return fail(ErrBusy)
	case waitingroom.BindClosed:
		return fail(ErrNotReady)
	case waitingroom.BindJudged, waitingroom.BindRefused, waitingroom.BindUnknown:
	default:
		return Answer{}, fmt.Errorf("order %s: bind answered %q", r.Pass.OrderID, bound.Outcome)
	}

	// Judged here, or not known here: what the status says comes first, since a verdict outlives the line's memory (F15).
	ctx, cancel := context.WithTimeout(ctx, s.cfg.StoreTimeout)
	defer cancel()
	status, found, err := s.statuses.Get(ctx, r.Pass.OrderID)
	if err != nil {
		return Answer{}, fmt.Errorf("read the status of order %s: %w: %w", r.Pass.OrderID, ErrOutcomeUnknown, err)
	}
	if found {
		if status.Digest != "" && status.Digest != r.digest() {
			return fail(ErrSpent)
		}
		if bound.Outcome == waitingroom.BindJudged && status.Version < order.VersionVerdict {
			s.want(ctx, r) // its verdict is being written, or was lost
		}
		return Answer{Status: status, Known: true}, nil
	}
	switch bound.Outcome {
	case waitingroom.BindJudged:
		s.want(ctx, r)
		return Answer{Status: order.Status{
			State: order.StatePending, Product: r.Pass.Product, User: r.UserHash, Quantity: r.Quantity, Digest: r.digest(),
		}}, nil
	case waitingroom.BindUnknown:
		s.want(ctx, r)
		return fail(ErrOutcomeUnknown)
	default:
		return fail(refusal(bound.Reason))
	}
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
// pass's end, it lives for the product's order time (F10).
func (s *Submitter) want(ctx context.Context, r Request) {
	err := s.statuses.Want(ctx, orderstatus.Wanted{
		Product: r.Pass.Product, User: r.UserHash, OrderID: r.Pass.OrderID,
		DeadlineMS: r.Pass.ExpiresAt.Add(r.OrderTTL).UnixMilli(),
	})
	if err != nil {
		s.metrics.storeFailed("want")
		s.logger.DebugContext(ctx, "status not asked for", "order_id", r.Pass.OrderID, "err", err)
	}
}
