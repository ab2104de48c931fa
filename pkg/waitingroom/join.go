package waitingroom

import (
	"context"
	"fmt"

	"hanjul/pkg/product"
	"hanjul/pkg/redisconn"
)

// Join puts a user at the end of the line (U1), or tells where they already stand. A ticket, where there is one, comes first: the
// old place is taken up again when the slot has forgotten it and its turn has not come (U2); a place whose turn came before
// the loss is noted as called (U3), and the user, who asks to join, is put at the end. Users who left, lapsed or ordered join
// anew with a higher place.
//
// Outcomes besides a fault of the connection: ErrNotReady; ErrNotOpen, ErrClosed, ErrQueueOff, ErrFull, ErrBanned, ErrPlacesEnded with a
// Standing that is valid for the user and the product. Safe to repeat: the same call answers the same place.
func (r *Room) Join(ctx context.Context, p product.ID, u product.UserHash, t *TicketClaim) (Standing, error) {
	k := r.keys.Product(p)
	place, orderID := claim(t)
	answer, err := r.run(ctx, r.scripts.join, p, []string{
		k.Settings, k.Clock, k.Waiting, k.Away, k.AwayTill, k.Active, k.Who, k.WhoT, k.Judged, k.Intents, k.Stock, k.Tally, k.Bans, k.Slots, k.Changes, k.Seen,
	}, string(u), place, orderID, r.keys.GateHints(), string(p))
	if err != nil {
		return Standing{}, fmt.Errorf("join: %w", err)
	}
	return person(p, "join", answer)
}

func claim(t *TicketClaim) (place, orderID string) {
	if t == nil {
		return "0", ""
	}
	return t.Place.String(), string(t.OrderID)
}

// person translates the answer of a script about one user: its code, then its standing.
func person(p product.ID, operation string, answer redisconn.Answer) (Standing, error) {
	var outcome error
	switch code := answer.Text(0); code {
	case "ok":
	case "absent":
		return Standing{}, fmt.Errorf("%s: product %s: %w", operation, p, ErrNotReady)
	case "not_open":
		outcome = ErrNotOpen
	case "closed":
		outcome = ErrClosed
	case "queue_off":
		outcome = ErrQueueOff
	case "full":
		outcome = ErrFull
	case "banned":
		outcome = ErrBanned
	case "places_ended":
		outcome = ErrPlacesEnded
	default:
		return Standing{}, broken(p, fmt.Errorf("%s: unknown code %q", operation, code))
	}
	s, err := standing(answer)
	if err != nil {
		return Standing{}, broken(p, fmt.Errorf("%s: %w", operation, err))
	}
	if outcome != nil {
		return s, fmt.Errorf("%s: product %s: %w", operation, p, outcome)
	}
	return s, nil
}
