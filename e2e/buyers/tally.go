package buyers

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// Outcome is how a buyer's visit ended.
type Outcome string

// The ends of a visit. Every buyer who joined has exactly one; Lost means that the sale ended before the buyer's visit did.
const (
	Confirmed Outcome = "confirmed"
	Rejected  Outcome = "rejected"
	Lapsed    Outcome = "lapsed"
	Left      Outcome = "left"
	SoldOut   Outcome = "sold out while waiting"
	NoJoin    Outcome = "never joined"
	Lost      Outcome = "unaccounted"
)

// Hop is one step whose time buyers can measure.
type Hop string

// The hops that buyers measure.
const (
	HopJoin    Hop = "join"
	HopPoll    Hop = "poll"
	HopOrder   Hop = "order accept"
	HopVerdict Hop = "verdict"
)

// Result is what all buyers together saw.
type Result struct {
	Buyers, Joined, Admitted int
	Outcomes                 map[Outcome]int
	Verdicts                 map[string]int // "confirmed", "rejected: sold_out", …
	Roles                    map[Role]int   // played to the end of the misbehaviour
	Refusals                 map[string]int // by problem type: the service said no
	Errors                   map[string]int // no answer, or one that the contract does not have
	LastWords                []string       // the last calls of some of those who are unaccounted for
	Connections              int64
	JoinedWithin             time.Duration // from the first join sent to the last one answered
	Duration                 time.Duration
	latency                  map[Hop][]time.Duration
}

// Percentile is the p-th (0–1) of a hop's times, 0 when it was never measured.
func (r *Result) Percentile(h Hop, p float64) time.Duration {
	times := slices.Clone(r.latency[h])
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return times[min(len(times)-1, int(p*float64(len(times))))]
}

// Samples is how often a hop was measured.
func (r *Result) Samples(h Hop) int { return len(r.latency[h]) }

// Accounted says whether joined = confirmed + rejected + lapsed + left + sold out while waiting.
func (r *Result) Accounted() bool {
	sum := 0
	for _, o := range []Outcome{Confirmed, Rejected, Lapsed, Left, SoldOut} {
		sum += r.Outcomes[o]
	}
	return sum == r.Joined && r.Outcomes[Lost] == 0
}

// tally collects while the sale runs. Safe for concurrent use.
type tally struct {
	mu          sync.Mutex
	r           Result
	first, last time.Time
}

func newTally(buyers int) *tally {
	return &tally{r: Result{
		Buyers: buyers, Outcomes: map[Outcome]int{}, Verdicts: map[string]int{}, Roles: map[Role]int{},
		Refusals: map[string]int{}, Errors: map[string]int{}, latency: map[Hop][]time.Duration{},
	}}
}

func (t *tally) with(change func(*Result)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change(&t.r)
}

func (t *tally) joined(sent, read time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.r.Joined++
	if t.first.IsZero() || sent.Before(t.first) {
		t.first = sent
	}
	if read.After(t.last) {
		t.last = read
	}
	t.r.JoinedWithin = t.last.Sub(t.first)
}

func (t *tally) took(h Hop, d time.Duration) {
	t.with(func(r *Result) { r.latency[h] = append(r.latency[h], d) })
}

// snapshot is a copy of the counts so far, without the times.
func (t *tally) snapshot() Result {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.r
	r.Outcomes, r.Verdicts, r.Roles = maps.Clone(r.Outcomes), maps.Clone(r.Verdicts), maps.Clone(r.Roles)
	r.Refusals, r.Errors, r.latency = maps.Clone(r.Refusals), maps.Clone(r.Errors), nil
	return r
}
