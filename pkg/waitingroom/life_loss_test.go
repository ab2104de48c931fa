package waitingroom_test

import (
	"errors"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"hanjul/pkg/waitingroom"
)

// The moves of a life that lose a slot and bring it back.

func (l *life) begin() string {
	l.nonces++
	return "nonce" + strconv.Itoa(l.nonces)
}

func (l *life) restore(rt *rapid.T) {
	nonce := l.begin()
	err := l.room.RestoreBegin(l.ctx, l.product, nonce)
	if l.m.present {
		l.want(errors.Is(err, waitingroom.ErrOpen), "restore of an open slot: %v", err)
		return
	}
	l.check(err)
	ghost := rapid.IntRange(0, 1).Draw(rt, "ghost")
	l.inc++
	l.restoreBans(rt, nonce)
	began := l.now()
	for range 2 {
		l.check(l.room.RestoreCommit(l.ctx, l.product, nonce, l.latest(), l.inc, l.front, ghost))
	}
	l.m.present, l.m.set, l.m.inc, l.m.ghost = true, l.latest(), l.inc, ghost
	l.m.front = max(l.m.front, l.front)
	l.m.bucket = bucket{from: began, to: l.now()}
}

// empty loses the slot. The ledger's front may lag behind by what was admitted last.
func (l *life) empty(rt *rapid.T) {
	if rapid.Bool().Draw(rt, "front persisted") {
		l.front = max(l.front, l.m.front)
	}
	l.check(l.room.Forget(l.ctx, l.product))
	l.m = newModel()
	if rapid.IntRange(0, 3).Draw(rt, "restored at once") > 0 {
		l.restore(rt)
	}
}

// copy replicates to the node that a failover will promote.
func (l *life) copy(*rapid.T) {
	l.copied = map[string]string{}
	for _, key := range l.room.SlotKeys(l.product) {
		if strings.HasSuffix(key, ":restoring") {
			continue
		}
		value, err := l.rdb.Dump(l.ctx, key).Result()
		if errors.Is(err, redis.Nil) {
			continue
		}
		l.check(err)
		l.copied[key] = value
	}
	l.replica = l.m.clone()
}

// failover rolls the slot back to the copy: one earlier moment of all its keys (U11).
func (l *life) failover(rt *rapid.T) {
	if rapid.Bool().Draw(rt, "front persisted") {
		l.front = max(l.front, l.m.front)
	}
	l.check(l.room.Forget(l.ctx, l.product))
	for key, value := range l.copied {
		l.check(l.rdb.Restore(l.ctx, key, 0, value).Err())
	}
	l.m = l.replica.clone()
}

func (l *life) advance(*rapid.T) {
	nonce := l.begin()
	err := l.room.AdvanceBegin(l.ctx, l.product, nonce)
	if l.absent(err) {
		return
	}
	l.check(err)
	l.inc++
	for range 2 {
		l.check(l.room.Advance(l.ctx, l.product, nonce, l.inc, l.front))
	}
	l.m.inc, l.m.front = l.inc, max(l.m.front, l.front)
}
