package waitingroom_test

import (
	"errors"
	"time"

	"pgregory.net/rapid"

	"hanjul/pkg/product"
	"hanjul/pkg/waitingroom"
)

// The moves of a life that put people out of a line and let them in again.

// ban is one change of the ledger's.
type ban struct {
	user   product.UserHash
	banned bool
	v      int64
}

// slice is what a scheduler read of the ledger's changes.
type slice struct {
	bans        []ban
	above, upTo int64
}

// ban writes a change down in the ledger; the slot hears of it later.
func (l *life) ban(rt *rapid.T) {
	l.bans = append(l.bans, ban{l.user(rt), rapid.Bool().Draw(rt, "banned"), int64(len(l.bans) + 1)})
}

// read is what a scheduler finds in the ledger above a number: the newest change of each user, at most so many.
func (l *life) read(above int64, most int) slice {
	s := slice{above: above, upTo: int64(len(l.bans))}
	for i, b := range l.bans {
		newest := true
		for _, later := range l.bans[i+1:] {
			newest = newest && later.user != b.user
		}
		if !newest || b.v <= above {
			continue
		}
		if s.bans = append(s.bans, b); len(s.bans) == most {
			s.upTo = b.v
			break
		}
	}
	return s
}

// evict copies changes to the slot: those that it lacks, or, late, what was read for the slot at any time before.
func (l *life) evict(rt *rapid.T) {
	s := l.read(l.m.bansV, rapid.IntRange(1, 3).Draw(rt, "slice"))
	if len(l.sent) > 0 && rapid.IntRange(0, 2).Draw(rt, "late") == 0 {
		s = rapid.SampledFrom(l.sent).Draw(rt, "sent")
	}
	l.sent = append(l.sent, s)
	for range 2 {
		_, err := l.room.Evict(l.ctx, l.product, changes(s.bans), s.above, s.upTo)
		switch {
		case l.absent(err):
		case l.m.bansV < s.above:
			l.want(errors.Is(err, waitingroom.ErrBehind), "evict over a gap: %v", err)
		default:
			l.check(err)
			l.applied(s)
		}
		l.compare(rt)
	}
}

func (l *life) applied(s slice) {
	for _, b := range s.bans {
		l.m.evict(b)
	}
	l.m.bansV = max(l.m.bansV, s.upTo)
}

// restoreBans loads what runs into a slot that is not open yet.
func (l *life) restoreBans(rt *rapid.T, nonce string) {
	for has := int64(0); ; {
		s := l.read(has, 2)
		for range 2 {
			l.check(l.room.RestoreBans(l.ctx, l.product, nonce, changes(s.bans), s.above, s.upTo))
		}
		l.applied(s)
		if has = s.upTo; has == int64(len(l.bans)) {
			return
		}
	}
}

func changes(bans []ban) []waitingroom.Ban {
	var all []waitingroom.Ban
	for _, b := range bans {
		until := int64(1000)
		if b.banned {
			until = time.Now().Add(time.Hour).UnixMilli()
		}
		all = append(all, waitingroom.Ban{User: b.user, UntilMS: until, V: b.v})
	}
	return all
}
