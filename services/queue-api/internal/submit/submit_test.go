package submit_test

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"hanjul/deploy/local/localtest"
	"hanjul/pkg/order"
	"hanjul/pkg/product"
	"hanjul/services/queue-api/internal/apitest"
	"hanjul/services/queue-api/internal/submit"
)

func TestMain(m *testing.M) { localtest.Main(m) }

func userNumber(i int) product.UserID { return product.UserID("u" + strconv.Itoa(i)) }

var errCrash = errors.New("crash")

// crash ends the first submit after a step.
func crash(at string) func(string) error {
	var done atomic.Bool
	return func(step string) error {
		if step == at && !done.Swap(true) {
			return errCrash
		}
		return nil
	}
}

// books compares what there is after a crash was healed: one order with one unit held, and all copies alike.
func books(t *testing.T, b *apitest.Bundle, id order.ID) {
	t.Helper()
	sent := b.Log(t)
	if len(sent) == 0 {
		t.Fatal("nothing in the log")
	}
	for _, c := range sent {
		if c != sent[0] || c.OrderID != id {
			t.Fatalf("%+v beside %+v", c, sent[0])
		}
	}
	view, err := b.Room.View(t.Context(), b.Product)
	if err != nil || view.Held != 1 || view.InFlight != 1 {
		t.Fatalf("held %d, in flight %d: %v", view.Held, view.InFlight, err)
	}
	status, found, err := b.Statuses.Get(t.Context(), id)
	if err != nil || !found || status.Version != order.VersionAccepted || status.Quantity != 1 || status.Digest != order.Digest(1, "k") {
		t.Fatal(status, found, err)
	}
}

// TestCrash ends the process, as far as one submit is concerned, between each step and the next (U7, O1, O2); then the
// caller comes again, or never does and the sweeper heals.
func TestCrash(t *testing.T) {
	t.Parallel()
	for _, step := range []struct {
		name  string
		bound bool
		sent  int64
	}{
		{submit.StepSlot, false, 0},
		{submit.StepBound, true, 0},
		{submit.StepProduced, true, 1},
		{submit.StepTold, true, 1},
	} {
		setup := func(t *testing.T) (*apitest.Bundle, *apitest.Person) {
			t.Helper()
			b := apitest.New(t, apitest.Options{Queue: 1, Fault: crash(step.name)}) // one slot: a crash may not keep it
			p := b.Admitted(t, "a")
			if a := p.Order(t, 1, "k"); a.Status != http.StatusInternalServerError {
				t.Fatal(a)
			}
			if n := b.Messages(t); n != step.sent {
				t.Fatalf("%d messages, want %d", n, step.sent)
			}
			return b, p
		}

		t.Run("After_"+step.name+"_TheCallerComesAgain", func(t *testing.T) {
			t.Parallel()
			b, p := setup(t)
			if a := p.Order(t, 1, "k"); a.Status != http.StatusAccepted || a.Text("order_id") != string(p.OrderID(t)) {
				t.Fatal(a)
			}
			books(t, b, p.OrderID(t))
		})

		t.Run("After_"+step.name+"_NobodyComes", func(t *testing.T) {
			t.Parallel()
			b, p := setup(t)
			b.Due(t)
			sent, err := b.Sweeper.Sweep(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !step.bound {
				if sent != 0 || p.Poll(t).Text("status") != "admitted" {
					t.Fatal("the pass was touched")
				}
				return
			}
			if sent != 1 {
				t.Fatalf("%d sent", sent)
			}
			books(t, b, p.OrderID(t))
		})
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()

	t.Run("OneOfManySendsEach", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{Stock: 1000, Fault: func(step string) error {
			if step == submit.StepBound {
				return errCrash
			}
			return nil
		}})
		const people = 250 // more than one call hands out
		for i := range people {
			b.Person(userNumber(i)).Join(t)
		}
		for b.Admit(t, 500) > 0 {
		}
		for i := range people {
			p := b.Person(userNumber(i))
			p.Poll(t)
			p.Order(t, 1, "")
		}
		b.Due(t)
		var sent atomic.Int64
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				n, err := b.Sweeper.Sweep(t.Context())
				if err != nil {
					t.Error(err)
				}
				sent.Add(int64(n))
			})
		}
		wg.Wait()
		if n := b.Messages(t); n != people || sent.Load() != people {
			t.Fatalf("%d messages, %d told as sent, want %d each", n, sent.Load(), people)
		}
	})

	t.Run("WhatIsAcknowledgedIsLeftAlone", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{})
		p := b.Admitted(t, "a")
		p.Order(t, 1, "k")
		if sent, err := b.Sweeper.Sweep(t.Context()); err != nil || sent != 0 {
			t.Fatal(sent, err)
		}
		b.Due(t)
		b.Judge(t, b.Log(t)[0], order.StateConfirmed, "", true)
		b.Due(t)
		if sent, err := b.Sweeper.Sweep(t.Context()); err != nil || sent != 0 {
			t.Fatal(sent, err)
		}
	})

	t.Run("WithoutACatalogueItKnowsItsOwnProducts", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{Fault: crash(submit.StepBound)})
		p := b.Admitted(t, "a")
		p.Order(t, 1, "k")
		if err := b.Redis.Del(t.Context(), b.Names.Catalogue()).Err(); err != nil {
			t.Fatal(err)
		}
		b.Due(t)
		if sent, err := b.Sweeper.Sweep(t.Context()); err == nil || sent != 1 {
			t.Fatal(sent, err)
		}
		books(t, b, p.OrderID(t))
	})

	t.Run("RunsUntilItIsStopped", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{Fault: crash(submit.StepBound)})
		p := b.Admitted(t, "a")
		p.Order(t, 1, "k")
		b.Due(t)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- b.Sweeper.Run(ctx) }()
		apitest.Eventually(t, "sent again", func() bool { return b.Messages(t) == 1 })
		cancel()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	})
}
