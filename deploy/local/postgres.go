package local

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// postgresStart bounds one start, crash recovery included.
const postgresStart = 90 * time.Second

// lingering is how long what is left of a killed server may hold its cluster.
const lingering = 10 * time.Second

// PostgresUser is the database role that owns everything.
const PostgresUser = "hanjul"

// PostgresOptions says how a Postgres is started; the zero value gives one for
// a test, on a free port, in a temporary folder.
type PostgresOptions struct {
	// Dir holds the cluster; "" means a temporary folder, removed by Stop.
	// As root a folder that the server's user cannot reach is replaced by one
	// under /var/lib/hanjul, which Dir() tells and Log is told.
	Dir string
	// Persist keeps fsync on. Without it the data survives the server's own
	// death, by SIGKILL too, but not the machine's.
	Persist bool
	// Port is fixed when it is not 0; a taken one is then an error.
	Port int
	// Log gets what the server prints; nil drops it.
	Log io.Writer
}

// Postgres is one server that trusts whoever reaches its loopback port. As
// root it runs as another user, since postgres refuses to be root. Its methods
// are safe concurrently.
type Postgres struct {
	options   PostgresOptions
	bin       string
	version   string
	dir       string
	temporary *tempDir
	account   *account

	container *container // nil where it is a process

	mu   sync.Mutex
	port int
	proc *child
}

// StartPostgres makes a cluster in Dir where there is none, starts the server
// and returns when it answers. It fails with ErrMissing or ErrTooOld (older
// than 15) before anything is started. ctx bounds the start only.
func StartPostgres(ctx context.Context, options PostgresOptions) (*Postgres, error) {
	asked, err := wished()
	if err != nil {
		return nil, err
	}
	var program, version string
	e, err := asked.inContainer(ctx, asked.postgresImage, func() (err error) { program, version, err = findPostgres(ctx); return err })
	if err != nil {
		return nil, err
	}
	if e != nil {
		return startPostgresContainer(ctx, e, asked.postgresImage, options)
	}
	owner, err := postgresAccount(ctx)
	if err != nil {
		return nil, err
	}
	dir, temporary, err := workDir(options.Dir, "postgres")
	if err != nil {
		return nil, err
	}
	if err := refuseVolume(dir); err != nil {
		return nil, err
	}
	p := &Postgres{
		options: options, bin: filepath.Dir(program), version: version,
		dir: dir, temporary: temporary, account: owner, port: options.Port,
	}
	if err := p.prepare(ctx); err != nil {
		p.temporary.remove()
		return nil, err
	}
	if err := p.start(ctx); err != nil {
		p.temporary.remove()
		return nil, err
	}
	return p, nil
}

var postgresVersion = regexp.MustCompile(`\) ([0-9.]+)`)

// findPostgres gives the newest server program and its version.
func findPostgres(ctx context.Context) (path, version string, err error) {
	installed, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return "", "", fmt.Errorf("look for postgres: %w", err)
	}
	newest := 0
	for _, folder := range installed {
		major, err := strconv.Atoi(filepath.Base(filepath.Dir(folder)))
		if err != nil || major <= newest {
			continue
		}
		if _, err := os.Stat(filepath.Join(folder, "initdb")); err == nil {
			newest, path = major, filepath.Join(folder, "postgres")
		}
	}
	if path == "" {
		if path, err = find("postgres", "/usr/local/pgsql/bin", "/usr/local/bin"); err != nil {
			return "", "", err
		}
		// A link in PATH leads to the folder where initdb is too.
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return "", "", fmt.Errorf("look for postgres: %w", err)
		}
	}
	printed, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return "", "", fmt.Errorf("ask %s for its version: %w", path, err)
	}
	match := postgresVersion.FindSubmatch(printed)
	if match == nil {
		return "", "", fmt.Errorf("ask %s for its version: it says %q", path, printed)
	}
	version = string(match[1])
	if !atLeast(version, 15, 0) {
		return "", "", fmt.Errorf("%s is %s, 15 or newer is needed: %w", path, version, ErrTooOld)
	}
	return path, version, nil
}

// prepare makes the folder reachable for the server's user and the cluster in it.
func (p *Postgres) prepare(ctx context.Context) error {
	if err := p.settle(ctx); err != nil {
		return err
	}
	data := filepath.Join(p.dir, "data")
	if _, err := os.Stat(filepath.Join(data, "PG_VERSION")); err == nil {
		return p.sameMajor(data)
	}
	// What an interrupted initdb left behind is not a cluster.
	if err := os.RemoveAll(data); err != nil {
		return fmt.Errorf("clear %s: %w", data, err)
	}
	making := data + ".new"
	if err := os.RemoveAll(making); err != nil {
		return fmt.Errorf("clear %s: %w", making, err)
	}
	args := []string{"-D", making, "-U", PostgresUser, "-A", "trust", "-E", "UTF8", "--locale=C"}
	if !p.options.Persist {
		args = append(args, "--no-sync")
	}
	cmd := exec.Command(filepath.Join(p.bin, "initdb"), args...)
	cmd.Dir = p.dir
	p.account.apply(cmd)
	proc, err := startChild("initdb", cmd, syscall.SIGKILL, nil)
	if err != nil {
		return err
	}
	select {
	case <-proc.ended:
	case <-ctx.Done():
		proc.kill()
		return fmt.Errorf("initdb: %w", ctx.Err())
	}
	if proc.err != nil {
		return proc.failed()
	}
	if err := os.Rename(making, data); err != nil {
		return fmt.Errorf("initdb: %w", err)
	}
	return nil
}

// sameMajor refuses a cluster that another major version made, in words.
func (p *Postgres) sameMajor(data string) error {
	text, err := os.ReadFile(filepath.Join(data, "PG_VERSION"))
	if err != nil {
		return fmt.Errorf("version of %s: %w", data, err)
	}
	made := strings.TrimSpace(string(text))
	if ours, _, _ := strings.Cut(p.version, "."); made != ours {
		return fmt.Errorf("%s was made by postgres %s and this is %s: remove the folder to begin anew", data, made, p.version)
	}
	return nil
}

// start brings the process up, on another port when a free one was snatched.
func (p *Postgres) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, postgresStart)
	defer cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	began := time.Now()
	for try := 1; ; try++ {
		err := p.startOnce(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		text := err.Error()
		switch {
		case strings.Contains(text, "could not bind") || strings.Contains(text, "could not create any TCP"):
			if p.options.Port != 0 || p.proc != nil || try == portTries {
				return err
			}
			p.port = 0
		case strings.Contains(text, "still in use") || strings.Contains(text, "lock file"):
			// The backends of a killed server notice its death a moment later.
			if time.Since(began) > lingering {
				return err
			}
			select {
			case <-ctx.Done():
				return err
			case <-time.After(100 * time.Millisecond):
			}
		default:
			return err
		}
	}
}

func (p *Postgres) startOnce(ctx context.Context) error {
	if p.port == 0 {
		port, err := freePort()
		if err != nil {
			return err
		}
		p.port = port
	}
	data := filepath.Join(p.dir, "data")
	settings := append([]string{
		"listen_addresses=" + loopback, "port=" + strconv.Itoa(p.port), "unix_socket_directories=",
	}, p.options.settings()...)
	args := []string{"-D", data}
	for _, s := range settings {
		args = append(args, "-c", s)
	}
	cmd := exec.Command(filepath.Join(p.bin, "postgres"), args...)
	cmd.Dir = p.dir
	p.account.apply(cmd)
	// SIGQUIT makes the server end at once and take its own children along.
	proc, err := startChild("postgres", cmd, syscall.SIGQUIT, p.options.Log)
	if err != nil {
		return err
	}
	if err := p.await(ctx, proc, data); err != nil {
		proc.stop(ctx, syscall.SIGQUIT)
		return fmt.Errorf("postgres on port %d: %w", p.port, err)
	}
	p.proc = proc
	return nil
}

// settings are those of the server that do not depend on where it runs.
func (o PostgresOptions) settings() []string {
	settings := []string{
		"max_connections=200", "timezone=UTC", "log_timezone=UTC", "logging_collector=off",
		"log_destination=stderr", "shared_buffers=64MB",
	}
	if !o.Persist {
		// Commits still reach the kernel one by one, so that killing the
		// server loses none of them.
		settings = append(settings, "fsync=off", "full_page_writes=off")
	}
	return settings
}

// await waits until this very server answers queries.
func (p *Postgres) await(ctx context.Context, proc *child, data string) error {
	return poll(ctx, proc, "postgres", func(ctx context.Context) (bool, error) {
		conn, err := pgx.Connect(ctx, p.url("postgres"))
		if err != nil {
			return false, err
		}
		defer func() { _ = conn.Close(ctx) }()
		var folder string
		if err := conn.QueryRow(ctx, "SHOW data_directory").Scan(&folder); err != nil {
			return false, err
		}
		if folder != data {
			return false, fmt.Errorf("the server of %s answers in our place", folder)
		}
		return true, nil
	})
}

func (p *Postgres) url(db string) string { return postgresURL(hostPort(p.port), db) }

// URL is the connection string of the named database on this server.
func (p *Postgres) URL(db string) string {
	if p.container != nil {
		return postgresURL(p.container.addr(), db)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.url(db)
}

// Version is the server's version, such as "15.18".
func (p *Postgres) Version() string { return p.version }

// Dir is the folder that holds the cluster, which may not be the one asked for;
// "" for a container.
func (p *Postgres) Dir() string { return p.dir }

// Stop ends sessions and server and removes a temporary folder. It returns
// when the process is gone, killing it when ctx is over first. Safe to repeat.
func (p *Postgres) Stop(ctx context.Context) error {
	if p.container != nil {
		return p.container.stop(ctx)
	}
	p.process().stop(ctx, syscall.SIGINT)
	p.temporary.remove()
	return nil
}

// Kill ends the server by SIGKILL and returns when its main process is gone;
// its backends follow on their own.
func (p *Postgres) Kill() {
	if p.container != nil {
		p.container.kill()
		return
	}
	p.process().kill()
}

// Restart starts the server again on the same cluster and port, stopping it
// first when it still runs.
func (p *Postgres) Restart(ctx context.Context) error {
	if p.container != nil {
		return p.container.restart(ctx)
	}
	if err := p.temporary.gone(); err != nil {
		return fmt.Errorf("restart postgres: %w", err)
	}
	p.process().stop(ctx, syscall.SIGINT)
	return p.start(ctx)
}

func (p *Postgres) process() *child {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.proc
}
