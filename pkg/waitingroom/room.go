// Package waitingroom owns a product's line in Redis: who waits, who holds a pass, whose order is bound and not yet judged,
// the copy of the settings, and the restore of a line that Redis lost. It moves people by scripts, one file and one method per
// verb, each atomic and each deciding by Redis TIME. It never sends anything to Kafka, never asks Postgres, never judges an
// order, and imports no other owner of keys. Before it in the flow are queue-api (join, status, leave, bind, the sweeper) and
// admission-scheduler (admit, restore, settings); after it the command travels to order-consumer, whose decrement (package
// stock) ends what bind began.
//
// Names used here are those of docs/joint.md: places, inc, front, intents, and the moves U1 to U9.
package waitingroom

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"hanjul/lua"
	"hanjul/pkg/product"
	"hanjul/pkg/redisconn"
)

// Room gives access to every product's line. Safe for concurrent use. All its methods are safe to repeat, also by the
// Redis client itself; a repeat answers what the first answered, or a later truth.
type Room struct {
	rdb     redis.UniversalClient
	keys    product.Keyspace
	scripts scripts
}

type scripts struct {
	join, status, heard, leave, bind, bindDirect                     *redisconn.Script
	due, acked, forsake                                              *redisconn.Script
	view, watch, line, audit, membership                             *redisconn.Script
	restoreBegin, restoreRenew, restoreCommit, advanceBegin, advance *redisconn.Script
	settingsPut, loadAsked, evict                                    *redisconn.Script
}

// New takes a client that may retry (redisconn.ClientOptions). It does not connect.
func New(rdb redis.UniversalClient, keys product.Keyspace) *Room {
	load := func(name string) *redisconn.Script { return redisconn.LoadScript(lua.FS, name) }
	return &Room{rdb, keys, scripts{
		join: load("waitingroom_join.lua"), status: load("waitingroom_status.lua"), heard: load("waitingroom_heard.lua"), leave: load("waitingroom_leave.lua"),
		bind: load("waitingroom_bind.lua"), bindDirect: load("waitingroom_bind_direct.lua"), due: load("waitingroom_due.lua"), acked: load("waitingroom_acked.lua"),
		forsake: load("waitingroom_forsake.lua"),
		view:    load("waitingroom_view.lua"), watch: load("waitingroom_watch.lua"), line: load("waitingroom_line.lua"), audit: load("waitingroom_audit.lua"),
		membership:   load("waitingroom_membership.lua"),
		restoreBegin: load("waitingroom_restore_begin.lua"), restoreRenew: load("waitingroom_restore_renew.lua"),
		restoreCommit: load("waitingroom_restore_commit.lua"), advanceBegin: load("waitingroom_advance_begin.lua"),
		advance: load("waitingroom_advance.lua"), settingsPut: load("waitingroom_settings_put.lua"),
		loadAsked: load("waitingroom_load_asked.lua"), evict: load("waitingroom_evict.lua"),
	}}
}

// run runs a product's script; codes of an outcome that is the same everywhere become its sentinel.
func (r *Room) run(ctx context.Context, s *redisconn.Script, p product.ID, keys []string, args ...any) (redisconn.Answer, error) {
	answer, err := s.Run(ctx, r.rdb, keys, args...)
	if err != nil {
		return answer, fmt.Errorf("product %s: %w", p, err)
	}
	return answer, nil
}

// broken wraps the fault of an answer that does not have its script's form.
func broken(p product.ID, err error) error { return fmt.Errorf("product %s: %w", p, err) }
