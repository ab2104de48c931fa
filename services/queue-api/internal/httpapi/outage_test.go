package httpapi_test

import (
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"hanjul/pkg/order"
	"hanjul/pkg/product"
	"hanjul/pkg/waitingroom"
	"hanjul/services/queue-api/internal/apitest"
)

// admitted gives so many people with passes.
func admitted(t *testing.T, b *apitest.Bundle, n int) []*apitest.Person {
	t.Helper()
	people := make([]*apitest.Person, n)
	for i := range people {
		people[i] = b.Person(product.UserID("u" + strconv.Itoa(i)))
		people[i].Join(t)
	}
	for b.Admit(t, waitingroom.AdmitMax) > 0 {
	}
	for _, p := range people {
		p.Poll(t)
	}
	return people
}

// each has everybody order, at most 64 at a time, and counts the answers.
func each(t *testing.T, people []*apitest.Person) map[string]int {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	count, gate := map[string]int{}, make(chan struct{}, 64)
	for _, p := range people {
		gate <- struct{}{}
		wg.Go(func() {
			defer func() { <-gate }()
			a := p.Order(t, 1, "key")
			mu.Lock()
			defer mu.Unlock()
			count[strconv.Itoa(a.Status)+" "+a.Problem()]++
		})
	}
	wg.Wait()
	return count
}

// TestStalledBroker holds the broker while far more order than may wait: busy at once for all but those, with their passes untouched,
// and nothing grows with the number of those who try (K10). It runs alone, since it looks at the memory of the process.
func TestStalledBroker(t *testing.T) {
	const people, queue = 400, 8
	b := apitest.New(t, apitest.Options{Queue: queue, Stock: people, Faulty: true})
	all := admitted(t, b, people)
	reached, release := b.Stall(t)
	// Twice as many order as the queue holds. Whoever finds it full is told at once; when as many were told, the others wait in it.
	var waiting sync.WaitGroup
	outcomes := make(chan int, 2*queue)
	for _, p := range all[:2*queue] {
		waiting.Go(func() { outcomes <- p.Order(t, 1, "key").Status })
	}
	<-reached
	for range queue {
		if status := <-outcomes; status != http.StatusServiceUnavailable {
			t.Fatalf("with the broker stalled one was answered %d", status)
		}
	}
	rest := all[2*queue:]
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, routines := heap(), runtime.NumGoroutine()
	for range 5 {
		if diff := cmp.Diff(map[string]int{"503 busy": len(rest)}, each(t, rest)); diff != "" {
			t.Fatal(diff)
		}
	}
	if after := heap(); after > before+4<<20 {
		t.Errorf("the heap grew from %d to %d bytes over %d refusals", before, after, 5*len(rest))
	}
	if after := runtime.NumGoroutine(); after > routines+64 {
		t.Errorf("%d goroutines, %d before", after, routines)
	}
	want(t, rest[1].Poll(t), http.StatusOK, map[string]any{"status": "admitted"})
	release()
	waiting.Wait()
	for range queue {
		if status := <-outcomes; status != http.StatusAccepted {
			t.Errorf("one that waited was answered %d", status)
		}
	}
}

// TestTooFewReplicas: a leader that may not append alone never has an order accepted, and the order is not lost either (K5).
func TestTooFewReplicas(t *testing.T) {
	t.Parallel()
	b := apitest.New(t, apitest.Options{Send: 100 * time.Millisecond, Faulty: true})
	p := b.Admitted(t, "a")
	fault := b.Kafka.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: b.Topic, Count: -1, Err: kerr.NotEnoughReplicas})
	a := p.Order(t, 1, "")
	wantProblem(t, a, http.StatusServiceUnavailable, "outcome-unknown")
	wantLinked(t, a, p.OrderID(t))
	wantMessages(t, b, 0)
	fault.Remove()
	apitest.Eventually(t, "accepted", func() bool { return p.Order(t, 1, "").Status == http.StatusAccepted })
}

// TestLeadersMoveUnderOrders has the broker say again and again, while people order, that it no longer leads, and append without
// answering in time: nobody is told that an order failed, and none is lost (K8, K9, K14).
func TestLeadersMoveUnderOrders(t *testing.T) {
	t.Parallel()
	const people = 200
	b := apitest.New(t, apitest.Options{Stock: people, Faulty: true})
	all := admitted(t, b, people)
	for _, err := range []*kerr.Error{kerr.NotLeaderForPartition, kerr.RequestTimedOut, kerr.LeaderNotAvailable, kerr.UnknownTopicOrPartition} {
		b.Kafka.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: b.Topic, Count: 2, Err: err})
	}
	if diff := cmp.Diff(map[string]int{"202 ": people}, each(t, all)); diff != "" {
		t.Fatal(diff)
	}
	orders := map[order.ID]bool{}
	for _, c := range b.Log(t) {
		orders[c.OrderID] = true
	}
	if len(orders) != people {
		t.Fatalf("%d orders of %d people", len(orders), people)
	}
}

// TestCallersWhoGiveUp: while the broker is stalled everybody gives up and comes again under the same key; then exactly one order of
// each is in the log, however often its bytes are (K12).
func TestCallersWhoGiveUp(t *testing.T) {
	t.Parallel()
	const people = 64
	b := apitest.New(t, apitest.Options{Stock: people, Send: 300 * time.Millisecond, Faulty: true})
	all := admitted(t, b, people)
	_, release := b.Stall(t)
	for range 2 {
		if diff := cmp.Diff(map[string]int{"503 outcome-unknown": people}, each(t, all)); diff != "" {
			t.Fatal(diff)
		}
	}
	release()
	for _, p := range all {
		apitest.Eventually(t, "accepted", func() bool { return p.Order(t, 1, "key").Status == http.StatusAccepted })
	}
	orders := map[order.ID]product.UserID{}
	for _, c := range b.Log(t) {
		if other, found := orders[c.OrderID]; found && other != c.User {
			t.Fatalf("order %s is of %s and %s", c.OrderID, other, c.User)
		}
		orders[c.OrderID] = c.User
	}
	if len(orders) != people {
		t.Fatalf("%d orders of %d people", len(orders), people)
	}
	for _, p := range all {
		if orders[p.OrderID(t)] != p.User {
			t.Fatalf("%s has another order", p.User)
		}
	}
}
