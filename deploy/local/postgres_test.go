package local_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"hanjul/deploy/local"
	"hanjul/deploy/local/localtest"
)

func portOf(t *testing.T, addr string) int {
	t.Helper()
	_, text, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func TestPostgresKeepsCommitsOverKillAndRestart(t *testing.T) {
	t.Parallel()
	server := localtest.PrivatePostgres(t)
	url := server.URL("postgres")
	if _, err := connect(t, url).Exec(t.Context(), "CREATE TABLE kept AS SELECT 7 AS n"); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if server.URL("postgres") != url {
		t.Fatalf("%s became %s", url, server.URL("postgres"))
	}
	var n int
	if err := connect(t, url).QueryRow(t.Context(), "SELECT n FROM kept").Scan(&n); err != nil || n != 7 {
		t.Fatalf("got %d, %v", n, err)
	}
}

func TestPostgresUnderAFolderThatItsUserCannotEnter(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		localtest.Skip(t, "only root runs postgres as another user")
	}
	closed := filepath.Join(t.TempDir(), "closed")
	if err := os.MkdirAll(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	server, err := local.StartPostgres(t.Context(), local.PostgresOptions{Dir: filepath.Join(closed, "postgres")})
	localtest.Need(t, err)
	t.Cleanup(func() {
		if err := server.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		if server.Dir() == "" {
			return
		}
		if err := os.RemoveAll(server.Dir()); err != nil {
			t.Error(err)
		}
	})
	if server.Dir() == "" {
		localtest.Skip(t, "a container has no folder on this machine")
	}
	if filepath.Dir(server.Dir()) != "/var/lib/hanjul" {
		t.Fatalf("the data is in %s", server.Dir())
	}
	connect(t, server.URL("postgres"))
}

func TestDatabasesAreFreshAndTemplatesBuiltOnce(t *testing.T) {
	t.Parallel()
	if first, second := localtest.Postgres(t), localtest.Postgres(t); first == second {
		t.Fatal("two tests share a database")
	}
	name := localtest.Topic(t, "template")
	var built atomic.Int32
	build := func(url string) error {
		built.Add(1)
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close(t.Context()) }()
		_, err = conn.Exec(t.Context(), "CREATE TABLE made (n int)")
		return err
	}
	t.Run("copies", func(t *testing.T) {
		for range 4 {
			t.Run("copy", func(t *testing.T) {
				t.Parallel()
				conn := connect(t, localtest.PostgresTemplate(t, name, build))
				if _, err := conn.Exec(t.Context(), "INSERT INTO made VALUES (1)"); err != nil {
					t.Fatal(err)
				}
				var rows int
				if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM made").Scan(&rows); err != nil || rows != 1 {
					t.Fatalf("%d rows, %v", rows, err)
				}
			})
		}
	})
	if n := built.Load(); n != 1 {
		t.Fatalf("built %d times", n)
	}
}
