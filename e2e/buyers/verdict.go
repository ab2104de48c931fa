package buyers

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"hanjul/pkg/journal"
	"hanjul/pkg/order"
)

// leaving ends a visit as the line says, unless an order was sent of which nothing was heard: a line that lost its memory knows nothing of
// it either, so the buyer asks for the order itself. Its id is the id of the pass.
func (b *buyer) leaving(ctx context.Context, end Outcome) Outcome {
	if !b.unsure {
		return end
	}
	return b.verdict(ctx, idOf(b.pass), b.pass, time.Time{})
}

// idOf reads the id of a pass, as a client does that has no key; "" where it is none.
func idOf(pass string) order.ID {
	_, rest, _ := strings.Cut(pass, ".")
	claims, _, _ := strings.Cut(rest, ".")
	text, err := base64.RawURLEncoding.DecodeString(claims)
	if err != nil {
		return ""
	}
	var read struct {
		ID order.ID `json:"jti"`
	}
	if json.Unmarshal(text, &read) != nil {
		return ""
	}
	return read.ID
}

// verdict asks for the order until it is judged.
func (b *buyer) verdict(ctx context.Context, id order.ID, pass string, accepted time.Time) Outcome {
	r := request{method: http.MethodGet, path: "/v1/orders/" + string(id), ticket: b.ticket, pass: pass}
	for ctx.Err() == nil {
		a := b.call(ctx, journal.CallLookup, r, 0)
		if a.status == http.StatusOK {
			switch order.State(a.body.Status) {
			case order.StateConfirmed, order.StateCancelled:
				return b.told(Confirmed, a, accepted)
			case order.StateRejected:
				return b.told(Rejected, a, accepted)
			}
		}
		pause := lookupPause
		if a.status != http.StatusOK {
			pause = max(a.retryAfter, retryPause)
		}
		if !wait(ctx, pause+time.Duration(b.rng.Int64N(int64(lookupPause)))) {
			break
		}
	}
	return Lost
}

func (b *buyer) told(end Outcome, a answer, accepted time.Time) Outcome {
	verdict := a.body.Status
	if a.body.Reason != "" {
		verdict += ": " + a.body.Reason
	}
	if !accepted.IsZero() {
		b.tally.took(HopVerdict, a.read.Sub(accepted))
	}
	b.tally.with(func(r *Result) { r.Verdicts[verdict]++ })
	return end
}
