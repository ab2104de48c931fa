package httpapi

import (
	"hash/maphash"
	"sync"
	"time"

	"hanjul/pkg/product"
)

// How many people's paces are kept, and the pauses that may be saved up: so many polls may come at once.
const (
	pacesKept  = 1 << 16
	pacesLocks = 1 << 6
	pacesSaved = 2
)

// paces slows people who poll much faster than they were asked to, each by themselves, in bounded memory: where two share an entry, the
// earlier one's is forgotten, so that nobody pays for another. Each poll costs a part of the pause that its answer asks for; whoever has
// no more than so many tabs as the parts, and obeys, never owes more than the longest of these pauses. Safe for concurrent use.
type paces struct {
	excess int64
	seed   maphash.Seed
	locks  [pacesLocks]sync.Mutex
	kept   []pace
}

type pace struct {
	key     uint64
	owed    int64 // until when, ms since 1970, what was polled is paid for
	last    int64 // the pause asked for last, ms
	longest int64 // of the pauses since nothing was owed, ms: tabs that were asked when the head was far still wait by it
}

func newPaces(excess int) *paces {
	p := &paces{excess: int64(excess), seed: maphash.MakeSeed()}
	if excess > 0 {
		p.kept = make([]pace, pacesKept)
	}
	return p
}

// admit says whether the person may poll now, and if not when.
func (p *paces) admit(u product.UserHash, id product.ID) (time.Duration, bool) {
	if p.excess == 0 {
		return 0, true
	}
	key := p.key(u, id)
	defer p.lock(key).Unlock()
	entry := p.kept[key%pacesKept]
	if entry.key != key {
		return 0, true
	}
	if over := entry.owed - time.Now().UnixMilli() - pacesSaved*entry.longest; over > 0 {
		return time.Duration(max(over, entry.last)) * time.Millisecond, false
	}
	return 0, true
}

// told notes the pause that an answer asks for.
func (p *paces) told(u product.UserHash, id product.ID, pauseMS int64) {
	if p.excess == 0 {
		return
	}
	key, now := p.key(u, id), time.Now().UnixMilli()
	defer p.lock(key).Unlock()
	entry := &p.kept[key%pacesKept]
	if entry.key != key {
		*entry = pace{key: key}
	}
	if entry.owed <= now {
		entry.owed, entry.longest = now, 0
	}
	entry.owed += pauseMS / p.excess
	entry.last, entry.longest = pauseMS, max(entry.longest, pauseMS)
}

func (p *paces) key(u product.UserHash, id product.ID) uint64 {
	return maphash.String(p.seed, string(u)) ^ maphash.String(p.seed, string(id))*31
}

func (p *paces) lock(key uint64) *sync.Mutex {
	l := &p.locks[key%pacesLocks]
	l.Lock()
	return l
}
