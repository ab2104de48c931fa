package operator

import (
	"fmt"
	"net/http"

	"hanjul/pkg/ledger"
	"hanjul/pkg/order"
	"hanjul/pkg/telemetry"
)

// restock adds units, or takes unsold ones away. It is accepted here and judged in the product's log, behind every order
// before it: taking away more than is unsold is refused there, and the command's row tells (F21).
func (d *Desk) restock(r *http.Request, a ledger.Action) (ledger.ActionResult, []string, error) {
	members, err := readBody(r, false)
	if err != nil {
		return ledger.ActionResult{}, nil, err
	}
	var f faults
	var units int64
	if _, given := members["units"]; !given {
		f.add("units", "expected a whole number of units, not 0")
	} else if take(members, &f, "units", &units) && (units == 0 || units > stockMax || units < -stockMax) {
		f.add("units", "expected a whole number from -%d to %d, not 0", stockMax, stockMax)
	}
	refuseUnknown(members, &f)
	if err := f.err(); err != nil {
		return ledger.ActionResult{}, nil, err
	}
	movement, err := d.movement(r, a, units)
	if err != nil {
		return ledger.ActionResult{}, nil, err
	}
	result, err := d.Ledger.Restock(r.Context(), a, *movement)
	return result, nil, err
}

// movement makes the signed adjust that a change of stock leaves as. Its id is the request's, so that however often it is
// sent, it moves the stock once. No units make no movement.
func (d *Desk) movement(r *http.Request, a ledger.Action, units int64) (*ledger.Movement, error) {
	if units == 0 {
		return nil, nil //nolint:nilnil // nothing moves, and that is no error
	}
	traceparent := telemetry.ContinueTraceparent(r.Header.Get(telemetry.TraceparentHeader)).String()
	command, err := order.Command{
		Kind: order.KindAdjust, ID: a.RequestID, Product: a.Product, Delta: units, AtMS: d.Now().UnixMilli(), Traceparent: traceparent,
	}.Sign(d.Commands)
	if err != nil {
		return nil, fmt.Errorf("sign adjust %s: %w", a.RequestID, err)
	}
	encoded, err := command.Encode()
	if err != nil {
		return nil, err
	}
	return &ledger.Movement{Delta: units, Command: encoded, Traceparent: traceparent}, nil
}
