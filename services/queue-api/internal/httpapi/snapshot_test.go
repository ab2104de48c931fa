package httpapi_test

import (
	"context"
	"math"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"hanjul/pkg/product"
	"hanjul/pkg/ticket"
	"hanjul/services/queue-api/internal/apitest"
	"hanjul/services/queue-api/internal/httpapi"
	"hanjul/services/queue-api/internal/live"
)

// counter counts the commands that a client sends.
type counter struct{ n atomic.Int64 }

func (c *counter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.n.Add(1)
		return next(ctx, cmd)
	}
}

func (c *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.n.Add(int64(len(cmds)))
		return next(ctx, cmds)
	}
}

// queue gives so many people who wait.
func queue(t testing.TB, b *apitest.Bundle, n int) []*apitest.Person {
	t.Helper()
	people := make([]*apitest.Person, n)
	for i := range people {
		people[i] = b.Person(product.UserID("w" + strconv.Itoa(i)))
		if a := people[i].Join(t); a.Status != http.StatusCreated {
			t.Fatal(a)
		}
	}
	return people
}

// TestPollsCostNoRedis: a thousand polls of people who wait cost five commands at most, whatever their positions.
func TestPollsCostNoRedis(t *testing.T) {
	t.Parallel()
	b := apitest.New(t, apitest.Options{Live: live.Config{Every: time.Hour, Wait: 30 * time.Second, Timeout: 30 * time.Second}})
	people := queue(t, b, 100)
	count := &counter{}
	b.Redis.AddHook(count)
	for range 10 {
		for i, p := range people {
			want(t, p.Poll(t), http.StatusOK, map[string]any{"status": "waiting", "position": float64(i + 1), "ahead": float64(i), "total": 100.0})
		}
	}
	if n := count.n.Load(); n > 5 {
		t.Fatalf("%d commands of Redis for 1000 polls", n)
	}
	if a := people[0].Poll(t); a.Body["snapshot_at"] == nil || a.Body["age_ms"] == nil {
		t.Fatal(a)
	}
	// Who is not among the waiting of the snapshot, or has no ticket, is asked about at Redis.
	late := b.Person("late")
	late.Join(t)
	want(t, late.Poll(t), http.StatusOK, map[string]any{"status": "waiting", "position": 101.0})
	want(t, b.Person("w3").Poll(t), http.StatusOK, map[string]any{"status": "waiting", "position": 4.0})
}

// TestPollsWhileRedisIsAway are answered from the last snapshot, which says that it is stale.
func TestPollsWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	server := ownRedis(t)
	b := apitest.New(t, apitest.Options{
		Redis: server.addrs, Live: live.Config{Every: time.Hour, Wait: 30 * time.Second, Timeout: 30 * time.Second, StaleFor: time.Hour},
	})
	people := queue(t, b, 3)
	want(t, people[2].Poll(t), http.StatusOK, map[string]any{"position": 3.0})
	if err := server.pause(); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "an answer that says it is stale", func() bool {
		a := people[2].Poll(t)
		want(t, a, http.StatusOK, map[string]any{"status": "waiting", "position": 3.0})
		return a.Body["stale"] == true
	})
	if err := server.resume(); err != nil {
		t.Fatal(err)
	}
}

// TestEstimateAndProgress: once the line moves a range is told, progress counts from the join, and the promise is compared when kept.
func TestEstimateAndProgress(t *testing.T) {
	t.Parallel()
	b := apitest.New(t, apitest.Options{})
	people := queue(t, b, 11)
	last := people[10]
	want(t, last.Poll(t), http.StatusOK, map[string]any{"progress": 0.0, "estimated_wait": nil, "estimated_wait_reason": "not_yet_moving"})
	b.Admit(t, 5)
	a := last.Poll(t)
	want(t, a, http.StatusOK, map[string]any{"position": 6.0, "progress": 0.5, "estimated_wait_reason": nil, "progress_reason": nil})
	told, _ := a.Body["estimated_wait"].(map[string]any)
	least, _ := told["min_seconds"].(float64)
	most, _ := told["max_seconds"].(float64)
	if least < 0 || most < 1 || least > most {
		t.Fatal(a)
	}
	held, err := ticket.Verify(b.Keys.Tickets, last.Ticket, time.Now())
	if err != nil || held.Start != 11 || held.Promise < 1 {
		t.Fatalf("%+v, %v", held, err)
	}
	if again := last.Poll(t); again.Body["ticket"] != a.Body["ticket"] {
		t.Fatal("another ticket that says the same")
	}
	b.Admit(t, 6)
	want(t, last.Poll(t), http.StatusOK, map[string]any{"status": "admitted", "estimated_wait": nil, "estimated_wait_reason": "not_waiting"})
	last.Poll(t)
	families, err := b.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == httpapi.MetricWaitRatio || f.GetName() == httpapi.MetricWaited {
			if n := f.GetMetric()[0].GetHistogram().GetSampleCount(); n != 1 {
				t.Fatalf("%d promises compared, want 1", n)
			}
		}
	}

	// A ticket of before says nothing of where its person began: progress counts from its next poll.
	old := b.Person("old")
	a = old.Join(t)
	place, _ := a.Body["place"].(float64)
	old.Ticket, err = ticket.Sign(b.Keys.Tickets.Current(), ticket.Ticket{Product: b.Product, User: old.Hash(), Place: product.Place(place), IssuedAt: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	want(t, old.Poll(t), http.StatusOK, map[string]any{"progress": nil, "progress_reason": "not_known"})
	want(t, old.Poll(t), http.StatusOK, map[string]any{"progress": 1.0, "progress_reason": nil})
}

// TestReasonsOfNoEstimate are the product's.
func TestReasonsOfNoEstimate(t *testing.T) {
	t.Parallel()
	b := apitest.New(t, apitest.Options{Stock: -1})
	p := b.Person("a")
	p.Join(t)
	want(t, p.Poll(t), http.StatusOK, map[string]any{"status": "sold_out", "position": 1.0, "estimated_wait": nil, "estimated_wait_reason": "sold_out"})
}

// TestFirstPollIsSoon where nobody is in front; others come by their distance.
func TestFirstPollIsSoon(t *testing.T) {
	t.Parallel()
	b := apitest.New(t, apitest.Options{})
	want(t, b.Person("a").Join(t), http.StatusCreated, map[string]any{"next_poll_ms": 200.0})
	a := b.Person("b").Join(t)
	if next, _ := a.Body["next_poll_ms"].(float64); next < 800 || next > 1200 {
		t.Fatal(a)
	}
}

// TestThePauseIsInTheHeader too, in whole seconds and never shorter: whoever obeys either is not refused.
func TestThePauseIsInTheHeader(t *testing.T) {
	t.Parallel()
	b := apitest.New(t, apitest.Options{Surface: func(c *httpapi.Config) { c.Cadence.Near, c.Cadence.Far = 1500*time.Millisecond, 7*time.Second }})
	p, outside := b.Person("a"), b.Person("b")
	for name, a := range map[string]apitest.Answer{"joined": p.Join(t), "again": p.Join(t), "polled": p.Poll(t), "not in line": outside.Poll(t)} {
		next, _ := a.Body["next_poll_ms"].(float64)
		if want := strconv.Itoa(int(math.Ceil(next / 1000))); next <= 0 || a.Header.Get("Retry-After") != want {
			t.Errorf("%s: Retry-After %q, expected %q: %v", name, a.Header.Get("Retry-After"), want, a)
		}
	}
}

// TestPollsFasterThanAsked are slowed, each person by themselves, and cost nobody the place.
func TestPollsFasterThanAsked(t *testing.T) {
	t.Parallel()
	b := apitest.New(t, apitest.Options{Surface: func(c *httpapi.Config) { c.PollExcess = 5; c.Cadence.Near = time.Hour }})
	people := queue(t, b, 2)
	refused := 0
	for range 40 {
		if a := people[0].Poll(t); a.Status == http.StatusTooManyRequests {
			if a.Problem() != "too-many-polls" || a.Header.Get("Retry-After") == "" {
				t.Fatal(a)
			}
			refused++
		}
	}
	if refused < 20 || refused > 35 {
		t.Fatalf("%d of 40 polls refused", refused)
	}
	want(t, people[1].Poll(t), http.StatusOK, map[string]any{"position": 2.0})
	want(t, people[0].Join(t), http.StatusOK, map[string]any{"position": 1.0, "already_in_line": true})
}
