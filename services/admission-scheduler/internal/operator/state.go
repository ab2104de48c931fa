package operator

import (
	"context"
	"net/http"

	"hanjul/pkg/ledger"
)

// reasonMax is the longest reason that people are shown, in bytes; product.Settings has the same.
const reasonMax = 200

// open lets a product's sale begin.
func (d *Desk) open(r *http.Request, a ledger.Action) (ledger.ActionResult, []string, error) {
	return withoutBody(r, a, d.Ledger.Open)
}

// pause stops admissions; people may still join, and order with the passes they have.
func (d *Desk) pause(r *http.Request, a ledger.Action) (ledger.ActionResult, []string, error) {
	return withReason(r, a, d.Ledger.Pause)
}

// close ends the sale; passes that are out still order.
func (d *Desk) close(r *http.Request, a ledger.Action) (ledger.ActionResult, []string, error) {
	return withReason(r, a, d.Ledger.CloseSale)
}

// halt lets no pass become an order, and stops the time of all passes.
func (d *Desk) halt(r *http.Request, a ledger.Action) (ledger.ActionResult, []string, error) {
	return withoutBody(r, a, d.Ledger.Halt)
}

// unhalt lets passes become orders again, and their time go on.
func (d *Desk) unhalt(r *http.Request, a ledger.Action) (ledger.ActionResult, []string, error) {
	return withoutBody(r, a, d.Ledger.Unhalt)
}

// queueOff lets people order without a pass, and the line stand as it is.
func (d *Desk) queueOff(r *http.Request, a ledger.Action) (ledger.ActionResult, []string, error) {
	return withoutBody(r, a, d.Ledger.QueueOff)
}

// queueOn lets the line go on; orders need a pass again.
func (d *Desk) queueOn(r *http.Request, a ledger.Action) (ledger.ActionResult, []string, error) {
	return withoutBody(r, a, d.Ledger.QueueOn)
}

// resume lets admissions go on.
func (d *Desk) resume(r *http.Request, a ledger.Action) (ledger.ActionResult, []string, error) {
	return withoutBody(r, a, d.Ledger.Resume)
}

// withReason makes a call whose body may say what people are shown.
func withReason(r *http.Request, a ledger.Action, do func(context.Context, ledger.Action, string) (ledger.ActionResult, error)) (ledger.ActionResult, []string, error) {
	members, err := readBody(r, true)
	if err != nil {
		return ledger.ActionResult{}, nil, err
	}
	var f faults
	var reason string
	take(members, &f, "reason", &reason)
	if len(reason) > reasonMax {
		f.add("reason", "expected at most %d bytes", reasonMax)
	}
	refuseUnknown(members, &f)
	if err := f.err(); err != nil {
		return ledger.ActionResult{}, nil, err
	}
	result, err := do(r.Context(), a, reason)
	return result, nil, err
}

// withoutBody makes a call that has nothing to say.
func withoutBody(r *http.Request, a ledger.Action, do func(context.Context, ledger.Action) (ledger.ActionResult, error)) (ledger.ActionResult, []string, error) {
	if err := noMembers(r); err != nil {
		return ledger.ActionResult{}, nil, err
	}
	result, err := do(r.Context(), a)
	return result, nil, err
}

// noMembers refuses a body that says anything: the call has nothing to say, so the caller means another one.
func noMembers(r *http.Request) error {
	members, err := readBody(r, true)
	if err != nil {
		return err
	}
	var f faults
	refuseUnknown(members, &f)
	return f.err()
}
