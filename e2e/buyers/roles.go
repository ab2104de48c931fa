package buyers

import (
	"math/rand/v2"
	"sync"
)

// Role is how a buyer behaves.
type Role string

// The roles: one ordinary, the rest are what people do to waiting rooms. Some are played in the line, some with a pass in hand.
const (
	Ordinary   Role = "ordinary"
	Refresh    Role = "refresh"            // polls out of turn and joins again without the ticket
	DoubleJoin Role = "double join"        // sends two joins at once
	Leaver     Role = "leave"              // gives up its place
	TwoOrders  Role = "two orders at once" // submits twice in parallel with one pass
	Cut        Role = "connection cut"     // hangs up after the order was written, then tries again
	Unused     Role = "unused pass"        // is admitted and never orders
)

// Misbehaviours are the roles that must all be played, in the order of the table.
func Misbehaviours() []Role { return []Role{Refresh, DoubleJoin, TwoOrders, Cut, Leaver, Unused} }

// cast deals roles: those of the line when a buyer arrives, those of the pass when it is admitted, since only a part of the buyers
// ever is. Equal seeds deal equal decks. Safe for concurrent use.
type cast struct {
	mu       sync.Mutex
	arriving []Role
	admitted []Role
	dealt    int
}

// quota is how many buyers play each role: 2.5 % of them, at least one, so that 2 % is met when a few of them are lost on the way.
func quota(buyers int) int { return max(1, (buyers*25+999)/1000) }

func newCast(buyers, stock int, rng *rand.Rand) *cast {
	n := quota(buyers)
	c := &cast{arriving: make([]Role, buyers)}
	deck := rng.Perm(buyers)
	for i, role := range []Role{Refresh, DoubleJoin, Leaver} {
		for _, at := range deck[min(i*n, buyers):min((i+1)*n, buyers)] {
			c.arriving[at] = role
		}
	}
	// Two orders and cuts take units, unused passes give them back: dealt among the first admitted, so that all are played
	// before the stock is gone. A stock too small for all is shared by the two kinds.
	n = max(1, min(n, stock*2/5))
	var pack []Role
	for range n {
		pack = append(pack, TwoOrders, Cut, Unused)
	}
	for len(pack) < stock*4/5 {
		pack = append(pack, Ordinary)
	}
	rng.Shuffle(len(pack), func(i, j int) { pack[i], pack[j] = pack[j], pack[i] })
	c.admitted = pack
	return c
}

// arrive is the role of the i-th buyer in the line.
func (c *cast) arrive(i int) Role {
	if c.arriving[i] == "" {
		return Ordinary
	}
	return c.arriving[i]
}

// admit deals a role to somebody who was just admitted.
func (c *cast) admit() Role {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dealt >= len(c.admitted) {
		return Ordinary
	}
	c.dealt++
	return c.admitted[c.dealt-1]
}
