package outbox_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hanjul/deploy/local/localtest"
	"hanjul/pkg/config"
	"hanjul/pkg/ledger"
	"hanjul/pkg/outbox"
	"hanjul/pkg/outbox/outboxtest"
	"hanjul/pkg/postgres"
)

// Two installations in two schemas of one database do not know of each other, although advisory locks are as wide as the database.
func TestSchemasAreApart(t *testing.T) {
	t.Parallel()
	url := localtest.Postgres(t)
	type installation struct {
		*outboxtest.Table
		box *outbox.Outbox
	}
	install := func(a postgres.Address) installation {
		t.Helper()
		if _, err := ledger.Migrate(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		box, err := outbox.Open(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(box.Close)
		if err := box.CheckDirect(t.Context()); err != nil {
			t.Fatal(err)
		}
		here := url
		if a.Schema != "" {
			here += "&search_path=" + a.Schema
		}
		return installation{outboxtest.At(t, here), box}
	}
	staging, pooled := postgres.At(url), postgres.At(url)
	staging.Schema = "staging"
	pooled.Schema, pooled.Direct = "production", config.NewSecret(url+"&application_name=another")
	all := map[string]installation{"public": install(postgres.At(url)), "staging": install(staging), "production": install(pooled)}

	n := 1
	for name, one := range all {
		n++
		one.Insert(event("a", 1), event("a", 2))
		// Another number of shards would be refused in one installation, and each takes all of its own.
		owner, err := one.box.Own(t.Context(), n)
		if err != nil {
			t.Fatal(name, err)
		}
		defer owner.Close(t.Context())
		balance(t, owner)
		if held := owner.Held(); len(held) != n {
			t.Errorf("%s holds %v of %d shards", name, held, n)
		}
		rows := claim(t, owner, 10)
		if diff := cmp.Diff([]string{"a1", "a2"}, names(rows)); diff != "" {
			t.Error(name, diff)
		}
		if _, err := owner.Mark(t.Context(), rows); err != nil {
			t.Error(name, err)
		}
		if made, err := one.box.MakePartitions(t.Context(), time.Now(), 2); err != nil || made != 2 {
			t.Error(name, made, err)
		}
		stats, err := one.box.Stats(t.Context())
		if err != nil || stats.Unpublished != 0 || len(stats.Partitions) != 3 || len(stats.Relays) != 1 || stats.Relays[0].Shards != n {
			t.Errorf("%s: %+v, %v", name, stats, err)
		}
	}
	// The same replay's id in each: one that runs keeps nobody elsewhere out.
	for name, one := range all {
		one.Exec(`INSERT INTO outbox_replays (id, product_id, from_seq, to_seq, topic, rate, operator, matched, next_seq, runner, state)
VALUES ('same', 'a', 1, 2, 'order-events', 100, 'test', 2, 1, 'nobody', 'stopped')`)
		replayer, err := one.box.ResumeReplay(t.Context(), "same", "test", 100)
		if err != nil {
			t.Fatal(name, err)
		}
		defer replayer.Close(t.Context())
		if rows, err := replayer.Next(t.Context(), 10); err != nil || len(rows) != 2 {
			t.Error(name, names(rows), err)
		}
		if _, err := one.box.ResumeReplay(t.Context(), "same", "test", 100); !errors.Is(err, outbox.ErrRunning) {
			t.Errorf("%s: a replay is run twice: %v", name, err)
		}
	}
}

// A direct address that leads elsewhere would make owners who keep nobody out.
func TestCheckDirectRefusesAnotherPlace(t *testing.T) {
	t.Parallel()
	here, there := localtest.Postgres(t), localtest.Postgres(t)
	for name, direct := range map[string]string{"another database": there, "another schema": here + "&search_path=pg_catalog"} {
		a := postgres.At(here)
		a.Direct = config.NewSecret(direct)
		box, err := outbox.Open(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(box.Close)
		if err := box.CheckDirect(t.Context()); !errors.Is(err, outbox.ErrElsewhere) || errors.Is(err, postgres.ErrTransient) {
			t.Errorf("%s: %v", name, err)
		}
	}
	away := postgres.At(here)
	away.Direct = config.NewSecret("postgres://nobody@127.0.0.1:1/nothing?sslmode=disable")
	box, err := outbox.Open(t.Context(), away)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(box.Close)
	if err := box.CheckDirect(t.Context()); !errors.Is(err, postgres.ErrTransient) {
		t.Error(err)
	}
}

// An owner whose session lost what it believes to hold steps down before it publishes.
func TestBalanceMissesALockThatIsGone(t *testing.T) {
	t.Parallel()
	table, box := bundle(t)
	owner := own(t, box)
	if len(owner.Held()) != shards {
		t.Fatal(owner.Held())
	}
	// As a pooler would: the next statement comes in another session, in which nothing is held.
	table.Exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'hanjul-relay' AND datname = current_database()`)
	if _, err := owner.Balance(t.Context()); err == nil {
		t.Fatal("nothing was missed")
	}
	again := own(t, box)
	if err := outbox.Forget(t.Context(), again, 3); err != nil {
		t.Fatal(err)
	}
	if _, err := again.Balance(t.Context()); !errors.Is(err, outbox.ErrLost) {
		t.Fatal(err)
	}
}

// A schema that is not there gives no locks, and says so.
func TestOwnNeedsASchema(t *testing.T) {
	t.Parallel()
	a := postgres.At(localtest.Postgres(t))
	a.Schema = "nowhere"
	box, err := outbox.Open(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(box.Close)
	if _, err := box.Own(t.Context(), shards); !errors.Is(err, outbox.ErrLost) {
		t.Fatal(err)
	}
	if _, err := box.MakePartitions(t.Context(), time.Now(), 1); err == nil || !strings.Contains(err.Error(), "outbox") {
		t.Fatal(err)
	}
}
