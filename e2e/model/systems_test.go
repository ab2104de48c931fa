package model

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// most bounds one search; a design that is whole ends well below it.
const most = 4_000_000

// searched is any of the systems, ready to be searched.
type searched func(until Breach) Report

func search[S comparable](sys System[S]) searched {
	return func(until Breach) Report { return Search(sys, most, until) }
}

func life(without Guard, f faults) searched {
	return search[lifeState](Life{Without: without, Faults: f})
}

// two submits at a time and two places, with these faults.
func two(f faults) faults {
	f.Posts, f.Joins = 2, 2
	return f
}

func place(order uint8) uint8  { return kPlace<<4 | order }
func cancel(order uint8) uint8 { return kCancel<<4 | order }

func oneUser() Stock {
	return Stock{Users: [3]uint8{0, 0, 1}, Total: 2, Limit: 1, Script: []uint8{place(0), place(1), place(2)}}
}

func newOrders() Stock {
	return Stock{Users: [3]uint8{0, 1, 1}, Total: 2, Limit: 9, Orders: 3, Script: []uint8{place(0)}}
}

func twoOrders() Stock {
	return Stock{Users: [3]uint8{0, 1, 1}, Total: 2, Limit: 9, Script: []uint8{place(0), place(1)}}
}

func cancelled() Stock {
	return Stock{Users: [3]uint8{0, 1, 1}, Total: 2, Limit: 9, Script: []uint8{place(0), place(1), cancel(0), place(2)}}
}

func cancelledBefore() Stock {
	return Stock{Users: [3]uint8{0, 1, 1}, Total: 2, Limit: 9, Script: []uint8{cancel(0), place(0), place(1)}}
}

func adjusted() Stock {
	return Stock{Users: [3]uint8{0, 1, 1}, Total: 1, Limit: 9, Script: []uint8{place(0), kAdjust << 4, place(1)}}
}

func stock(m Stock, without Guard, f stockFaults, batch uint8) searched {
	m.Without, m.Faults, m.Batch = without, f, batch
	return search[stockState](m)
}

func line(m Line, without Guard) searched {
	m.Without = without
	return search[lineState](m)
}

func whole(t *testing.T, run searched) {
	t.Helper()
	began := time.Now()
	r := run(0)
	t.Logf("%d states, %d at rest, %s", r.States, r.Resting, time.Since(began).Round(time.Millisecond))
	if !r.Complete {
		t.Errorf("cut at %d states", r.States)
	}
	for b, steps := range r.Found {
		t.Errorf("%s:\n%s", b, printed(steps))
	}
}

func printed(steps []string) string {
	var b strings.Builder
	for i, s := range steps {
		fmt.Fprintf(&b, "%4d  %s\n", i+1, s)
	}
	return b.String()
}

// breaks wants the promise broken, and prints the way to it.
func breaks(t *testing.T, run searched, promise Breach) {
	t.Helper()
	r := run(promise)
	steps, found := r.Found[promise]
	if !found {
		t.Fatalf("%d states (complete: %t), and this was not found: %s; only %v", r.States, r.Complete, promise, r.Found)
	}
	t.Logf("%d states. %s:\n%s", r.States, promise, printed(steps))
}

// The design keeps its promises in one user's life with two tabs, under each fault and pair of faults.
func TestModelLife(t *testing.T) {
	t.Parallel()
	scenes := map[string]faults{
		"no fault":                 two(faults{}),
		"leave":                    two(faults{Leave: 1}),
		"two bodies":               two(faults{Bodies: 1}),
		"crash":                    two(faults{Crash: 1}),
		"unknown send":             two(faults{Unknown: 1}),
		"zombie":                   two(faults{Zombie: 1}),
		"cancel":                   two(faults{Cancel: 1}),
		"status slot lost":         two(faults{StatusLost: 1}),
		"unknown send, crash":      two(faults{Unknown: 1, Crash: 1}),
		"emptied, one submit":      {Flush: 1, Posts: 1, Joins: 2},
		"failover, one submit":     {Failover: 1, Posts: 1, Joins: 2},
		"emptied, one place":       {Flush: 1, Posts: 2, Joins: 1},
		"failover, one place":      {Failover: 1, Posts: 2, Joins: 1},
		"emptied, zombie":          {Flush: 1, Zombie: 1, Posts: 1, Joins: 1},
		"failover, zombie":         {Failover: 1, Zombie: 1, Posts: 1, Joins: 1},
		"emptied, leave":           {Flush: 1, Leave: 1, Posts: 1, Joins: 2},
		"failover, leave":          {Failover: 1, Leave: 1, Posts: 1, Joins: 2},
		"status slot lost, cancel": {StatusLost: 1, Cancel: 1, Posts: 2, Joins: 1},
	}
	if !raceDetector { // which makes every step ten times as dear, and has nothing to find here
		scenes["emptied"] = two(faults{Flush: 1})
		scenes["failover"] = two(faults{Failover: 1})
		scenes["zombie, cancel"] = two(faults{Zombie: 1, Cancel: 1})
		scenes["emptied, crash"] = faults{Flush: 1, Crash: 1, Posts: 2, Joins: 1}
		scenes["emptied, unknown send"] = faults{Flush: 1, Unknown: 1, Posts: 2, Joins: 1}
		scenes["failover, crash"] = faults{Failover: 1, Crash: 1, Posts: 2, Joins: 1}
		scenes["failover, unknown send"] = faults{Failover: 1, Unknown: 1, Posts: 2, Joins: 1}
	}
	for name, f := range scenes {
		t.Run(name, func(t *testing.T) { t.Parallel(); whole(t, life(0, f)) })
	}
}

// The stock keeps its promises with two consumers, one of them a zombie.
func TestModelStock(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]Stock{
		"two orders of one user": oneUser(), "new orders": newOrders(), "cancel": cancelled(), "cancel before its order": cancelledBefore(),
		"adjust": adjusted(),
	} {
		for _, f := range []stockFaults{
			{Rebalance: 1, Flush: 1, Crash: 1},
			{Rebalance: 1, Failover: 1, Crash: 1},
			{Rebalance: 1, Reset: 1, Flush: 1},
			{Rebalance: 1, Reset: 1, Failover: 1},
		} {
			for batch := uint8(1); batch <= 2; batch++ {
				t.Run(fmt.Sprintf("%s, %+v, batches of %d", name, f, batch), func(t *testing.T) { t.Parallel(); whole(t, stock(m, 0, f, batch)) })
			}
		}
	}
}

func lineFlush() Line    { return Line{Flush: 1, Behind: 4, Joins: 4, Calls: 3, Schedulers: 1} }
func lineTwice() Line    { return Line{Flush: 2, Pauses: 1, Joins: 3, Calls: 1, Schedulers: 2} }
func lineFailover() Line { return Line{Failover: 1, Joins: 3, Calls: 3, Schedulers: 1} }

// The line keeps its order through losses, a clock that is behind, and a scheduler that was paused.
func TestModelLine(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]Line{"emptied": lineFlush(), "emptied twice, a paused scheduler": lineTwice(), "failover": lineFailover()} {
		t.Run(name, func(t *testing.T) { t.Parallel(); whole(t, line(m, 0)) })
	}
}
