package streams

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hanjul/pkg/order"
	"hanjul/pkg/product"
	"hanjul/services/queue-api/internal/live"
)

// snapshot is lines without Redis: the test says what is looked at.
type snapshot struct {
	mu    sync.Mutex
	held  bool
	look  live.Look
	at    map[product.Place]int64
	looks int
	heard map[product.UserHash]int
}

func (s *snapshot) Survey(_ context.Context, _ product.ID, places []product.Place, positions []int64) (live.Look, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks++
	for i, p := range places {
		positions[i] = s.at[p]
	}
	return s.look, s.held
}

func (s *snapshot) Heard(_ product.ID, u product.UserHash) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard[u]++
}

func (s *snapshot) Every() time.Duration { return 250 * time.Millisecond }

func (s *snapshot) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func newCrowd(t *testing.T, cfg Config) (*Crowd, *snapshot, *Hub) {
	t.Helper()
	s := &snapshot{at: map[product.Place]int64{}, heard: map[product.UserHash]int{}}
	h := newHub(t, &fake{hints: make(chan order.ID)}, cfg)
	return NewCrowd(h, s), s, h
}

func (s *snapshot) looked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.looks
}

// woken says whether a member was woken since it was last asked.
func woken(m *Member) bool {
	synctest.Wait()
	select {
	case <-m.Changed():
		return true
	default:
		return false
	}
}

// TestCrowdWakesThoseWhoMoved, everybody when the product changes, and nobody for numbers that change all the time.
func TestCrowdWakesThoseWhoMoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, s, h := newCrowd(t, Config{})
		var members []*Member
		for place := range product.Place(3) {
			m, err := c.Open("shoe", user, place+1)
			if err != nil {
				t.Fatal(err)
			}
			members = append(members, m)
		}
		turn := func() { time.Sleep(s.Every()) }
		want := func(what string, all ...bool) {
			t.Helper()
			for i, m := range members {
				if got := woken(m); got != all[i] {
					t.Fatalf("%s: %d woken: %v", what, i+1, got)
				}
			}
		}
		synctest.Wait()
		want("no snapshot", false, false, false)
		if _, _, held := members[0].Look(); held {
			t.Fatal("held")
		}
		s.set(func() { s.held, s.at = true, map[product.Place]int64{1: 1, 2: 2, 3: 3} })
		turn()
		want("the first", true, true, true)
		s.set(func() { s.look.View.Waiting, s.look.View.NowMS, s.look.Age = 50, 7, 100*time.Millisecond })
		turn()
		want("numbers", false, false, false)
		s.set(func() { s.at = map[product.Place]int64{1: 1, 3: 2} })
		turn()
		want("one left", false, true, true)
		if look, at, held := members[2].Look(); !held || look.Position != 2 || look.View.Waiting != 50 || time.Since(at) != look.Age {
			t.Fatal(look, at, held)
		}
		s.set(func() { s.look.View.State = product.Paused })
		turn()
		want("paused", true, true, true)
		s.set(func() { s.look.Age = live.StaleAfter + time.Millisecond })
		turn()
		want("stale", true, true, true)
		turn()
		want("stale still", false, false, false)
		members[0].Move(2)
		turn()
		want("moved", false, false, false)
		members[0].Move(3)
		turn()
		want("moved", true, false, false)
		s.set(func() {
			if s.look.View.Near = 2; len(s.heard) != 0 {
				t.Error("heard of people who are far")
			}
		})
		time.Sleep(heardEvery)
		turn()
		s.set(func() {
			if s.heard[user] == 0 {
				t.Error("nobody is heard of")
			}
		})
		for _, m := range members {
			m.Close()
			m.Close()
		}
		synctest.Wait()
		looks := s.looked()
		turn()
		if s.looked() != looks || len(c.sections)+h.open+len(h.people) != 0 {
			t.Fatal("something is left of closed streams")
		}
	})
}

// TestCrowdEndsWithTheHub: its streams share the bounds of the others and are told when the process ends, which waits for them a little.
func TestCrowdEndsWithTheHub(t *testing.T) {
	t.Parallel()
	c, _, h := newCrowd(t, Config{Max: 2, PerUser: 1})
	m, err := c.Open("shoe", user, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Open("shoe", user, 1); !errors.Is(err, ErrFull) {
		t.Fatal(err)
	}
	if h.Full() {
		t.Fatal("full with one of two")
	}
	if _, err := h.Open(id(1), "another"); err != nil || !h.Full() {
		t.Fatal(err)
	}
	if _, err := c.Open("hat", "a third", 1); !errors.Is(err, ErrFull) {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.Run(ctx); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx, time.Hour) }()
	<-m.Stopping()
	m.Close()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if _, err := c.Open("shoe", "x", 1); !errors.Is(err, ErrStopping) {
		t.Fatal(err)
	}
}
