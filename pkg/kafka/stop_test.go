package kafka

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestProducerStop(t *testing.T) {
	t.Parallel()

	t.Run("SendsWhatWaits", func(t *testing.T) {
		t.Parallel()

		c, seen := cluster(t, 1)
		p := idleProducer(t, produceConfig(c, 1))
		stop := start(t, p)
		gate, release := seen.stall(t)

		var results []chan Result

		send := func(value string) {
			result := make(chan Result, 1)
			results = append(results, result)

			go func() { result <- p.send(t, record("k", value)) }()
		}

		send("1")
		gate.wait(t)
		send("2")
		eventually(t, "one waits", func() bool { return p.queued() == 1 })

		late, err := p.Reserve()
		if err != nil {
			t.Fatal(err)
		}

		stopped := make(chan error, 1)
		go func() { stopped <- stop() }()
		<-p.closing

		_, err = p.Reserve()
		wantErr(t, err, ErrClosed)

		r := late.Send(patient(t), record("k", "3"))
		wantErr(t, r.Err, ErrClosed)

		if r.Outcome != Unknown {
			t.Errorf("a record after the end is %v", r.Outcome)
		}

		release()

		for _, r := range results {
			accepted(t, <-r)
		}

		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})

	t.Run("GivesUpAtItsDeadline", func(t *testing.T) {
		t.Parallel()

		c, seen := cluster(t, 1)
		cfg := produceConfig(c, 1)
		cfg.DrainFor = time.Millisecond
		p := idleProducer(t, cfg)
		stop := start(t, p)
		gate, _ := seen.stall(t)

		results := make(chan Result, 2)

		for range 2 {
			slot, err := p.Reserve()
			if err != nil {
				t.Fatal(err)
			}

			go func() { results <- slot.Send(patient(t), record("k", "v")) }()
			gate.reachedOrQueued(t, p)
		}

		if err := stop(); err == nil || !strings.Contains(err.Error(), "2 records") {
			t.Errorf("stop tells: %v", err)
		}

		for range 2 {
			r := <-results
			wantErr(t, r.Err, ErrClosed)

			if r.Outcome != Unknown {
				t.Errorf("a record left behind is %v", r.Outcome)
			}
		}
	})

	t.Run("NeverHangs", func(t *testing.T) {
		t.Parallel()

		c, _ := cluster(t, 6)

		for round := range 200 {
			p := idleProducer(t, produceConfig(c, 6))
			stop := start(t, p)

			var wg sync.WaitGroup

			for sender := range 8 {
				wg.Go(func() {
					for i := 0; ; i++ {
						slot, err := p.Reserve()
						if errors.Is(err, ErrClosed) {
							return
						}

						r := slot.Send(patient(t), record(fmt.Sprint(sender, round), fmt.Sprint(i)))
						if r.Outcome != Accepted && !errors.Is(r.Err, ErrClosed) {
							t.Errorf("round %d: %v: %v", round, r.Outcome, r.Err)

							return
						}
					}
				})
			}

			if round%2 == 0 {
				eventually(t, "records leave", func() bool {
					p.mu.Lock()
					defer p.mu.Unlock()

					return len(p.lanes) > 2
				})
			}

			if err := stop(); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}

			wg.Wait()

			if taken := len(p.places); taken != 0 {
				t.Fatalf("round %d: %d places are taken", round, taken)
			}
		}
	})
}

// reachedOrQueued waits until a record has either reached the gate or waits
// behind the one that did.
func (g *gate) reachedOrQueued(t testing.TB, p *Producer) {
	t.Helper()
	eventually(t, "the record is on its way", func() bool {
		select {
		case <-g.reached:
			return true
		default:
			return p.queued() > 0
		}
	})
}
