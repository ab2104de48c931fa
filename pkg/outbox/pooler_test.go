package outbox_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hanjul/deploy/local"
	"hanjul/deploy/local/localtest"
	"hanjul/pkg/config"
	"hanjul/pkg/ledger"
	"hanjul/pkg/outbox"
	"hanjul/pkg/outbox/outboxtest"
	"hanjul/pkg/postgres"
)

// Owners and replays work by the direct address, the rest through a pooler that gives each transaction another session.
func TestOutboxThroughAPooler(t *testing.T) {
	t.Parallel()
	url := localtest.Postgres(t)
	pooler := localtest.PgBouncer(t, local.PgBouncerOptions{Server: url})
	a := postgres.At(pooler.URL(url))
	a.Direct, a.Schema = config.NewSecret(url), "pooled"
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
	table := outboxtest.At(t, url+"&search_path=pooled")
	if made, err := box.MakePartitions(t.Context(), time.Now(), 3); err != nil || made != 3 {
		t.Fatal(made, err)
	}
	table.Insert(event("a", 1), event("a", 2), command("a", "c"))
	for range 30 {
		if b, err := box.Backlog(t.Context()); err != nil || b.Rows != 3 {
			t.Fatal(b, err)
		}
	}
	owner := own(t, box)
	for range 30 {
		balance(t, owner)
	}
	rows := claim(t, owner, 10)
	if diff := cmp.Diff([]string{"c", "a1", "a2"}, names(rows)); diff != "" {
		t.Fatal(diff)
	}
	if n, err := owner.Mark(t.Context(), rows); err != nil || n != 3 {
		t.Fatal(n, err)
	}
	if listed, err := box.List(t.Context(), "a", 0, false, 10); err != nil || len(listed) != 3 {
		t.Fatal(listed, err)
	}
	if stats, err := box.Stats(t.Context()); err != nil || len(stats.Relays) != 1 || stats.Unpublished != 0 {
		t.Fatal(stats, err)
	}
	if dropped, err := box.DropPartitions(t.Context(), time.Now().AddDate(0, 0, 10)); err != nil || len(dropped.Names) != 3 {
		t.Fatal(dropped, err)
	}
}

// Whoever needs a session and is led to a pooler is told so, and holds nothing, however the pooler is set up.
func TestAPoolerIsNoSession(t *testing.T) {
	t.Parallel()
	url := localtest.Postgres(t)
	if _, err := ledger.Migrate(t.Context(), postgres.At(url)); err != nil {
		t.Fatal(err)
	}
	dropped := []string{
		"statement_timeout", "idle_in_transaction_session_timeout", "search_path", "enable_seqscan", "synchronous_commit",
		"tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count",
	}
	for name, options := range map[string]local.PgBouncerOptions{
		"it refuses settings":                     {},
		"it drops settings":                       {Ignore: dropped},
		"it drops settings and keeps the session": {Ignore: dropped, Mode: "session"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options.Server = url
			pooled := localtest.PgBouncer(t, options).URL(url)
			alone, wrong := postgres.At(pooled), postgres.At(pooled)
			wrong.Direct = config.NewSecret(pooled + "&application_name=another")
			for _, c := range []struct {
				a    postgres.Address
				want string
			}{
				{alone, "POSTGRES_URL: a connection pooler stands in between, which keeps neither locks nor settings: set POSTGRES_DIRECT_URL too"},
				{wrong, "POSTGRES_DIRECT_URL: a connection pooler stands in between"},
			} {
				refused := func(what string, err error) {
					t.Helper()
					if !errors.Is(err, postgres.ErrPooled) || errors.Is(err, postgres.ErrTransient) || !strings.Contains(err.Error(), c.want) {
						t.Errorf("%s: %v", what, err)
					}
				}
				box, err := outbox.Open(t.Context(), c.a)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(box.Close)
				refused("the check", box.CheckDirect(t.Context()))
				_, err = box.Own(t.Context(), shards)
				refused("an owner", err)
				_, err = box.ResumeReplay(t.Context(), "some", "test", 100)
				refused("a replay", err)
				_, err = ledger.Migrate(t.Context(), c.a)
				refused("a migration", err)
				_, err = box.Backlog(t.Context())
				if c.a == alone {
					refused("a statement", err)
				} else if err != nil {
					t.Error(err)
				}
			}
		})
	}
}
