package submit_test

import (
	"net/http"
	"testing"

	"hanjul/pkg/order"
	"hanjul/pkg/product"
	"hanjul/services/queue-api/internal/apitest"
	"hanjul/services/queue-api/internal/submit"
)

// TestCrashWithoutAPass is TestCrash for orders without a pass: between bind and send, and behind the send, either the caller comes
// again with the same key or the sweeper sends it, with its MAC.
func TestCrashWithoutAPass(t *testing.T) {
	t.Parallel()
	for step, bound := range map[string]bool{submit.StepSlot: false, submit.StepBound: true, submit.StepProduced: true, submit.StepTold: true} {
		for name, comes := range map[string]bool{"TheCallerComesAgain": true, "NobodyComes": false} {
			t.Run("After_"+step+"_"+name, func(t *testing.T) {
				t.Parallel()
				b := apitest.New(t, apitest.Options{Queue: 1, Fault: crash(step), Settings: func(s *product.Settings) { s.QueueOn = false }})
				p := b.Person("a")
				id := order.DeriveDirectID(b.Keys.Orders, b.Product, p.Hash(), "k")
				if a := p.Order(t, 1, "k"); a.Status != http.StatusInternalServerError {
					t.Fatal(a)
				}
				if comes {
					if a := p.Order(t, 1, "k"); a.Status != http.StatusAccepted || a.Text("order_id") != string(id) {
						t.Fatal(a)
					}
					books(t, b, id)
					return
				}
				b.Due(t)
				sent, err := b.Sweeper.Sweep(t.Context())
				if err != nil || (sent == 1) != bound {
					t.Fatal(sent, err)
				}
				if bound {
					books(t, b, id)
					if c := b.Log(t)[0]; !c.Direct() || c.MAC == "" {
						t.Fatalf("%+v", c)
					}
				}
			})
		}
	}
}
