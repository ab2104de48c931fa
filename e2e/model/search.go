// Package model is the joint (docs/joint.md) as small explicit-state systems: every interleaving of a few tabs, consumers and faults is
// walked breadth first, and each promise is held against every state. A guard of the design can be taken away; the search must then
// find a broken promise and print the shortest way to it. The package knows no server and none of our code: it models the design, and
// docs/model.md says how the two are kept together.
package model

import (
	"fmt"
	"hash/maphash"
	"strings"
)

// Label names a step. A and B are numbers for the text's verbs; it is made into words only when a trace is printed.
type Label struct {
	Text string
	A, B int
}

func (l Label) String() string {
	switch strings.Count(l.Text, "%") {
	case 0:
		return l.Text
	case 1:
		return fmt.Sprintf(l.Text, l.A)
	default:
		return fmt.Sprintf(l.Text, l.A, l.B)
	}
}

// System is what is searched. S must be comparable and small: every state is kept.
//
// A step that may happen is a choice or a fault; any other happens sooner or later. A state in which only steps that may happen
// are left is at rest: promises about what comes in the end are asked there.
type System[S comparable] interface {
	Start() S
	Steps(s S, emit func(l Label, to S, may bool))
	Broken(s S) Breach // asked everywhere
	AtRest(s S) Breach // asked at rest
}

// Report is what a search found.
type Report struct {
	States   int
	Resting  int
	Complete bool                // every state was seen: neither the limit nor a breach ended the search
	Found    map[Breach][]string // a shortest trace for each broken promise
}

// Search walks the system breadth first, up to limit states. It ends as soon as a promise of until is broken; with none it goes on
// to the end.
func Search[S comparable](sys System[S], limit int, until Breach) Report {
	var (
		states = []S{sys.Start()}
		parent = []int32{-1}
		known  = newIndex[S]()
		r      = Report{Complete: true, Found: map[Breach][]string{}}
	)
	known.add(states, states[0])
	for at := 0; at < len(states); at++ {
		s := states[at]
		resting := true
		sys.Steps(s, func(_ Label, to S, may bool) {
			if to == s {
				return
			}
			if !may {
				resting = false
			}
			if known.add(states, to) {
				states, parent = append(states, to), append(parent, int32(at))
			}
		})
		bad := sys.Broken(s)
		if resting {
			r.Resting++
			bad |= sys.AtRest(s)
		}
		for _, b := range bad.each() {
			if _, found := r.Found[b]; !found {
				r.Found[b] = trace(sys, states, parent, at)
			}
		}
		if bad&until != 0 {
			r.Complete = false
			break
		}
		if len(states) > limit {
			r.Complete = false
			break
		}
	}
	r.States = len(states)
	return r
}

// index is a hash table of the states' numbers; the states themselves are kept once, by their caller.
type index[S comparable] struct {
	seed  maphash.Seed
	slots []int32 // number + 1
	used  int
}

func newIndex[S comparable]() *index[S] {
	return &index[S]{seed: maphash.MakeSeed(), slots: make([]int32, 1<<12)}
}

// add says whether the state is new; it must then become states' next element. The very first one is there already.
func (x *index[S]) add(states []S, s S) bool {
	if 2*x.used >= len(x.slots) {
		old := x.slots
		x.slots = make([]int32, 4*len(old))
		for _, n := range old {
			if n != 0 {
				x.slots[x.find(states, states[n-1])] = n
			}
		}
	}
	at := x.find(states, s)
	if x.slots[at] != 0 {
		return false
	}
	x.used++
	x.slots[at] = int32(x.used)
	return true
}

func (x *index[S]) find(states []S, s S) uint64 {
	mask := uint64(len(x.slots) - 1)
	at := maphash.Comparable(x.seed, s) & mask
	for x.slots[at] != 0 && states[x.slots[at]-1] != s {
		at = (at + 1) & mask
	}
	return at
}

// trace finds the labels on the way to a state: the steps are taken again, which is cheaper than keeping a label for each state.
func trace[S comparable](sys System[S], states []S, parent []int32, at int) []string {
	var back []string
	for parent[at] >= 0 {
		from, label := int(parent[at]), ""
		sys.Steps(states[from], func(l Label, to S, _ bool) {
			if label == "" && to == states[at] {
				label = l.String()
			}
		})
		back = append(back, label)
		at = from
	}
	out := make([]string, 0, len(back))
	for i := len(back) - 1; i >= 0; i-- {
		out = append(out, back[i])
	}
	return out
}
