package local

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// pgBouncerStart bounds one start.
const pgBouncerStart = 30 * time.Second

// PgBouncerOptions says how a PgBouncer is started.
type PgBouncerOptions struct {
	// Server is the URL of the Postgres behind it; its user and password are let in, too.
	Server string
	// Users are others that are let in, without a password.
	Users []string
	// Mode is "transaction", the default, or "session".
	Mode string
	// Ignore are start-up parameters that it drops in silence, where it would
	// refuse them.
	Ignore []string
	// Log gets what it prints; nil drops it.
	Log io.Writer
}

// PgBouncer is one pooler on a free loopback port. It hands out the server's
// sessions by turns, so that whoever relies on one is found out. As root it runs
// as Postgres's user, since pgbouncer refuses to be root.
type PgBouncer struct {
	port      int
	temporary *tempDir
	proc      *child
}

// StartPgBouncer starts one and returns when a query passes through it. It fails
// with ErrMissing where pgbouncer is not installed. ctx bounds the start only.
func StartPgBouncer(ctx context.Context, options PgBouncerOptions) (*PgBouncer, error) {
	program, err := findPgBouncer()
	if err != nil {
		return nil, err
	}
	owner, err := postgresAccount(ctx)
	if err != nil {
		return nil, err
	}
	// Not the system's folder for such, whose way in may be closed to that user.
	dir, err := newTempDir("/var/tmp", "pgbouncer")
	if err != nil {
		return nil, err
	}
	b := &PgBouncer{temporary: dir}
	if err := b.start(ctx, program, owner, options); err != nil {
		dir.remove()
		return nil, err
	}
	return b, nil
}

func findPgBouncer() (string, error) { return find("pgbouncer", "/usr/sbin") }

func (b *PgBouncer) start(ctx context.Context, program string, owner *account, options PgBouncerOptions) error {
	ctx, cancel := context.WithTimeout(ctx, pgBouncerStart)
	defer cancel()
	for try := 1; ; try++ {
		var err error
		if b.port, err = freePort(); err != nil {
			return err
		}
		config, err := b.configure(owner, options)
		if err != nil {
			return err
		}
		cmd := exec.Command(program, config)
		cmd.Dir = b.temporary.path
		owner.apply(cmd)
		if b.proc, err = startChild("pgbouncer", cmd, syscall.SIGKILL, options.Log); err != nil {
			return err
		}
		err = poll(ctx, b.proc, "pgbouncer", func(ctx context.Context) (bool, error) {
			conn, err := pgx.Connect(ctx, b.URL(options.Server))
			if err != nil {
				return false, err
			}
			defer func() { _ = conn.Close(ctx) }()
			return true, conn.Ping(ctx)
		})
		if err == nil {
			return nil
		}
		b.proc.stop(ctx, syscall.SIGTERM)
		if ctx.Err() != nil || try == portTries || !strings.Contains(err.Error(), "in use") {
			return fmt.Errorf("pgbouncer on port %d: %w", b.port, err)
		}
	}
}

// configure writes the two files that it reads.
func (b *PgBouncer) configure(owner *account, options PgBouncerOptions) (string, error) {
	behind, err := pgx.ParseConfig(options.Server)
	if err != nil {
		return "", fmt.Errorf("pgbouncer's server: %w", err)
	}
	users := fmt.Sprintf("%q %q\n", behind.User, behind.Password)
	for _, user := range options.Users {
		users += fmt.Sprintf("%q \"\"\n", user)
	}
	lines := []string{
		"[databases]",
		fmt.Sprintf("* = host=%s port=%d", behind.Host, behind.Port),
		"[pgbouncer]",
		"listen_addr = " + loopback, fmt.Sprintf("listen_port = %d", b.port), "unix_socket_dir =",
		"auth_type = trust", "auth_file = " + filepath.Join(b.temporary.path, "users.txt"),
		"pool_mode = " + cmp.Or(options.Mode, "transaction"),
		"default_pool_size = 20", "max_client_conn = 1000", "server_round_robin = 1",
		"ignore_startup_parameters = " + strings.Join(options.Ignore, ","),
		"",
	}
	config := filepath.Join(b.temporary.path, "pgbouncer.ini")
	for path, text := range map[string]string{config: strings.Join(lines, "\n"), filepath.Join(b.temporary.path, "users.txt"): users} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return "", fmt.Errorf("configure pgbouncer: %w", err)
		}
		if owner == nil {
			continue
		}
		if err := os.Chown(path, owner.uid, owner.gid); err != nil {
			return "", fmt.Errorf("configure pgbouncer: %w", err)
		}
	}
	return config, nil
}

var hostInURL = regexp.MustCompile(`^(postgres(?:ql)?://(?:[^/?#]*@)?)[^/?#]*`)

// URL is a URL of the server's with this pooler's address in place of it: the same
// database and user by way of the pooler.
func (b *PgBouncer) URL(server string) string {
	return hostInURL.ReplaceAllString(server, "${1}"+hostPort(b.port))
}

// Stop ends it, with every connection. Safe to repeat.
func (b *PgBouncer) Stop(ctx context.Context) error {
	b.proc.stop(ctx, syscall.SIGTERM)
	b.temporary.remove()
	return nil
}
