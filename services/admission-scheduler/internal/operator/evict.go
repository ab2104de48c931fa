package operator

import (
	"encoding/json"
	"net/http"
	"time"

	"hanjul/pkg/ledger"
	"hanjul/pkg/product"
)

// evict puts a user out of the line and keeps them out for a while: who waits or is away loses the place, an unused pass is worth nothing any
// more. Nobody names a place: whatever the user has when the line hears of it is meant, and nothing is any more once the ban was lifted (F25). An
// order that is on its way is judged all the same; cancel takes it back.
func (d *Desk) evict(r *http.Request, a ledger.Action) (ledger.ActionResult, []string, error) {
	members, err := readBody(r, false)
	if err != nil {
		return ledger.ActionResult{}, nil, err
	}
	var f faults
	e := ledger.Eviction{}
	e.User = takeUser(members, &f)
	var until string
	var forMS int64
	hasUntil, hasFor := take(members, &f, "until", &until), take(members, &f, "for_ms", &forMS)
	switch {
	case hasUntil && hasFor || !hasUntil && !hasFor && len(f) == 0:
		f.add("until", "expected a time such as 2030-01-31T12:00:00Z, or for_ms instead")
	case hasUntil:
		if e.Until, err = time.Parse(time.RFC3339, until); err != nil {
			f.add("until", "expected a time such as 2030-01-31T12:00:00Z, found %q", until)
		}
		e.Until = e.Until.Truncate(time.Millisecond)
	case hasFor:
		if forMS < 1 || forMS > banLongestMS {
			f.add("for_ms", "expected a whole number of milliseconds from 1 to %d", int64(banLongestMS))
		}
		e.For = time.Duration(forMS) * time.Millisecond
	}
	e.Reason = takeReason(members, &f)
	refuseUnknown(members, &f)
	if err := f.err(); err != nil {
		return ledger.ActionResult{}, nil, err
	}
	e.Hash = product.HashUser(d.Users, e.User)
	result, err := d.Ledger.Evict(r.Context(), a, e)
	return result, nil, err
}

// banLongestMS is ten years of milliseconds; the ledger takes no longer ban.
const banLongestMS = 10 * 365 * 24 * 3_600_000

// unban lets an evicted user join again, at the end of the line.
func (d *Desk) unban(r *http.Request, a ledger.Action) (ledger.ActionResult, []string, error) {
	members, err := readBody(r, false)
	if err != nil {
		return ledger.ActionResult{}, nil, err
	}
	var f faults
	user := takeUser(members, &f)
	refuseUnknown(members, &f)
	if err := f.err(); err != nil {
		return ledger.ActionResult{}, nil, err
	}
	result, err := d.Ledger.Unban(r.Context(), a, user, product.HashUser(d.Users, user))
	return result, nil, err
}

// revokePasses makes every pass worthless that was handed out so far. Nobody loses the place or the time left: whoever is admitted is handed a new pass
// at the next poll, for the same order.
func (d *Desk) revokePasses(r *http.Request, a ledger.Action) (ledger.ActionResult, []string, error) {
	members, err := readBody(r, true)
	if err != nil {
		return ledger.ActionResult{}, nil, err
	}
	var f faults
	reason := takeReason(members, &f)
	refuseUnknown(members, &f)
	if err := f.err(); err != nil {
		return ledger.ActionResult{}, nil, err
	}
	result, err := d.Ledger.RevokePasses(r.Context(), a, reason)
	return result, nil, err
}

// takeUser reads the user, who must be named.
func takeUser(members map[string]json.RawMessage, f *faults) product.UserID {
	var user string
	if _, given := members["user"]; !given {
		f.add("user", "expected the user's id, as the shop knows it")
	} else if take(members, f, "user", &user) {
		_, err := product.ParseUserID(user)
		splitFaults(err, f)
	}
	return product.UserID(user)
}

// takeReason reads why, for the audit trail; nobody is shown it.
func takeReason(members map[string]json.RawMessage, f *faults) string {
	var reason string
	take(members, f, "reason", &reason)
	if len(reason) > reasonMax {
		f.add("reason", "expected at most %d bytes", reasonMax)
	}
	return reason
}
