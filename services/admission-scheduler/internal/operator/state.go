package operator

import (
	"net/http"

	"hanjul/pkg/ledger"
)

// reasonMax is the longest reason that people are shown, in bytes; product.Settings has the same.
const reasonMax = 200

// open lets a product's sale begin.
func (d *Desk) open(r *http.Request, a ledger.Action) (ledger.ActionResult, []string, error) {
	if err := noMembers(r); err != nil {
		return ledger.ActionResult{}, nil, err
	}
	result, err := d.Ledger.Open(r.Context(), a)
	return result, nil, err
}

// pause stops admissions; people may still join, and order with the passes they have.
func (d *Desk) pause(r *http.Request, a ledger.Action) (ledger.ActionResult, []string, error) {
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
	result, err := d.Ledger.Pause(r.Context(), a, reason)
	return result, nil, err
}

// resume lets admissions go on.
func (d *Desk) resume(r *http.Request, a ledger.Action) (ledger.ActionResult, []string, error) {
	if err := noMembers(r); err != nil {
		return ledger.ActionResult{}, nil, err
	}
	result, err := d.Ledger.Resume(r.Context(), a)
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
