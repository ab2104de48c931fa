package httpapi

import (
	"math"
	"net/http"
	"time"

	"hanjul/pkg/product"
)

// publicState is what everybody may know of a product (schema Product).
type publicState struct {
	Product         product.ID     `json:"product"`
	State           product.State  `json:"state"`
	QueueOn         bool           `json:"queue_on"`
	Head            *product.Place `json:"head"`
	Total           int64          `json:"total"`
	Rate            float64        `json:"rate"`
	RateLimit       float64        `json:"rate_limit"`
	UnitsLeft       *bool          `json:"units_left"`
	UnitsLeftReason *string        `json:"units_left_reason"`
	MaxQuantity     int            `json:"max_quantity"`
	OpensAt         *time.Time     `json:"opens_at"`
	OpensAtReason   string         `json:"opens_at_reason"`
	Message         *string        `json:"message"`
}

// readProduct tells the public state: the same for everybody, so that a cache can carry any number of readers.
func (a *API) readProduct(w http.ResponseWriter, r *http.Request) error {
	p, err := pathProduct(r)
	if err != nil {
		return err
	}
	v, err := a.views.get(r.Context(), p)
	if err != nil {
		return err
	}
	// Only of products that exist, so that names made up take no room.
	look, found := a.lines.Find(r.Context(), p, 0)
	if found {
		v = look.View
	}
	state := publicState{
		Product: p, State: v.State, QueueOn: v.QueueOn, Total: v.Waiting, RateLimit: v.Rate, MaxQuantity: v.MaxQuantity,
		OpensAtReason: reasonNotOffered,
	}
	if found && look.Head > 0 {
		state.Head = &look.Head
	}
	state.Rate = math.Round(100*look.Flow.Mean) / 100
	if v.StockKnown {
		left := v.Base > 0
		state.UnitsLeft = &left
	} else {
		reason := reasonNotLoaded
		state.UnitsLeftReason = &reason
	}
	if v.Reason != "" {
		state.Message = &v.Reason
	}
	public(w)
	w.Header().Set("Cache-Control", "public, max-age=1")
	return send(w, http.StatusOK, state)
}
