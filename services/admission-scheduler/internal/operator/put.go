package operator

import (
	"fmt"
	"net/http"
	"time"

	"hanjul/pkg/ledger"
	"hanjul/pkg/product"
)

// stockMax bounds what a product may begin with, as an adjust is bounded.
const stockMax = 1_000_000_000

// put makes a product or replaces the settings of one. What the body leaves out takes its default, so the same call twice
// means the same thing; burst's default follows the rate. State, reason, a halt and the queue have calls of their own.
func (d *Desk) put(r *http.Request, a ledger.Action) (ledger.ActionResult, []string, error) {
	members, err := readBody(r, true)
	if err != nil {
		return ledger.ActionResult{}, nil, err
	}
	var f faults
	for _, name := range []string{"state", "reason", "orders_halted", "queue_on"} {
		if _, given := members[name]; given {
			f.add(name, "changed by open, pause, resume, close, halt, unhalt, queue-off and queue-on, not here")
			delete(members, name)
		}
	}
	var stock int64
	hasStock := take(members, &f, "stock", &stock)
	if hasStock && (stock < 0 || stock > stockMax) {
		f.add("stock", "expected a whole number from 0 to %d", stockMax)
	}
	_, hasBurst := members["burst"]
	settings := takeSettings(members, &f, product.DefaultSettings())
	if !hasBurst {
		settings.Burst = max(1, int(settings.Rate/10))
	}
	refuseUnknown(members, &f)
	if len(f) == 0 {
		splitFaults(settings.Validate(), &f)
	}
	warnings := d.risks(settings, &f)
	if err := f.err(); err != nil {
		return ledger.ActionResult{}, nil, err
	}
	var movement *ledger.Movement
	if hasStock {
		if movement, err = d.movement(r, a, stock); err != nil {
			return ledger.ActionResult{}, nil, err
		}
	}
	result, err := d.Ledger.PutProduct(r.Context(), a, settings, movement)
	return result, warnings, err
}

// risks are settings that work and that nobody should choose: faults, or warnings where Trusting.
func (d *Desk) risks(s product.Settings, f *faults) []string {
	if time.Duration(s.PassMS)*time.Millisecond >= d.PassMin {
		return nil
	}
	text := fmt.Sprintf("expected at least %d: a pass begins at the admission, and its holder may learn of it one poll later", d.PassMin.Milliseconds())
	if !d.Trusting {
		f.add("pass_ms", "%s", text)
		return nil
	}
	return []string{"pass_ms: " + text}
}
