package local

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// redisStart bounds one start of a Redis. A node in cluster mode calls itself
// writable two seconds after it woke at the earliest.
const redisStart = 60 * time.Second

// RedisOptions says how a Redis is started; the zero value gives one that
// forgets everything, on a free port, in a temporary folder.
type RedisOptions struct {
	// Dir is where it writes; "" means a temporary folder, removed by Stop.
	Dir string
	// Persist makes it append every write to disk before it answers, so that
	// the state survives a restart in the same Dir.
	Persist bool
	// Port is fixed when it is not 0; a taken one is then an error.
	Port int
	// Standalone starts it without cluster mode. ReplicaOf names the server,
	// host:port, that it copies and takes no writes beside; it implies Standalone.
	Standalone bool
	ReplicaOf  string
	// TLS makes it listen on a second port, for encrypted connections only.
	TLS *RedisTLS
	// Log gets what the server prints; nil drops it.
	Log io.Writer
}

// RedisTLS names the PEM files of a server's certificate. Clients need none.
type RedisTLS struct{ CertFile, KeyFile, CAFile string }

// Redis is one Redis or Valkey. In cluster mode, which is the usual one, it owns
// all 16384 slots, so that a script which touches an undeclared or foreign slot
// fails here as it would in a real cluster. Its methods are safe concurrently.
type Redis struct {
	options   RedisOptions
	program   redisProgram
	dir       string
	temporary *tempDir

	container *container // nil where it is a process

	mu             sync.Mutex
	port, bus, tls int
	proc           *child
}

// StartRedis starts a Redis and returns when it accepts writes on every slot.
// A replica is returned once it has copied. It fails with ErrMissing or ErrTooOld
// (a Redis older than 7.0, a Valkey older than 7.2) before anything is started. ctx
// bounds the start only.
func StartRedis(ctx context.Context, options RedisOptions) (*Redis, error) {
	asked, err := wished()
	if err != nil {
		return nil, err
	}
	if options.ReplicaOf != "" || options.TLS != nil {
		// A container reaches no server of this machine's loopback, and has none of its files.
		asked.servers = serversPrograms
	}
	var program redisProgram
	e, err := asked.inContainer(ctx, asked.redisImage, func() (err error) { program, err = findRedis(ctx); return err })
	if err != nil {
		return nil, err
	}
	if e != nil {
		return startRedisContainer(ctx, e, asked.redisImage, options)
	}
	dir, temporary, err := workDir(options.Dir, "redis")
	if err != nil {
		return nil, err
	}
	if err := refuseVolume(dir); err != nil {
		return nil, err
	}
	r := &Redis{options: options, program: program, dir: dir, temporary: temporary, port: options.Port}
	if err := r.start(ctx); err != nil {
		r.temporary.remove()
		return nil, err
	}
	return r, nil
}

// start brings the process up, on other ports when a free one was snatched.
func (r *Redis) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, redisStart)
	defer cancel()
	r.mu.Lock()
	defer r.mu.Unlock()
	var err error
	for range portTries {
		err = r.startOnce(ctx)
		if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "in use") {
			return err
		}
		if r.options.Port == 0 && r.proc == nil {
			r.port = 0
		}
		r.bus, r.tls = 0, 0
	}
	return err
}

func (r *Redis) startOnce(ctx context.Context) error {
	for _, port := range []*int{&r.port, &r.bus, &r.tls} {
		if *port == 0 {
			free, err := freePort()
			if err != nil {
				return err
			}
			*port = free
		}
	}
	cmd := exec.Command(r.program.path, r.args()...)
	cmd.Dir = r.dir
	proc, err := startChild("redis-server", cmd, syscall.SIGKILL, r.options.Log)
	if err != nil {
		return err
	}
	if err := awaitRedis(ctx, proc, hostPort(r.port), r.options); err != nil {
		proc.kill()
		return fmt.Errorf("redis-server on port %d: %w", r.port, err)
	}
	r.proc = proc
	return nil
}

// args are the server's arguments.
func (r *Redis) args() []string {
	appendOnly := "no"
	if r.options.Persist {
		appendOnly = "yes"
	}
	args := []string{
		"--bind", loopback, "--port", strconv.Itoa(r.port),
		"--dir", r.dir, "--daemonize", "no", "--save", "",
		"--appendonly", appendOnly, "--appendfsync", "always",
		"--loglevel", "notice", "--maxmemory-policy", "noeviction",
		"--repl-diskless-sync-delay", "0", // a replica is served at once; by default others are waited for
	}
	if r.options.clustered() {
		args = append(args, "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf",
			"--cluster-port", strconv.Itoa(r.bus), "--cluster-announce-ip", loopback)
	}
	if host, port, ok := strings.Cut(r.options.ReplicaOf, ":"); ok {
		args = append(args, "--replicaof", host, port)
	}
	if files := r.options.TLS; files != nil {
		args = append(args, "--tls-port", strconv.Itoa(r.tls), "--tls-auth-clients", "no",
			"--tls-cert-file", files.CertFile, "--tls-key-file", files.KeyFile, "--tls-ca-cert-file", files.CAFile)
	}
	return args
}

func (o RedisOptions) clustered() bool { return !o.Standalone && o.ReplicaOf == "" }

// awaitRedis waits until the server serves; it gives a node of a cluster its
// slots where it has none yet.
func awaitRedis(ctx context.Context, proc *child, addr string, options RedisOptions) error {
	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, PoolSize: 1, DisableIdentity: true})
	defer func() { _ = client.Close() }()
	return poll(ctx, proc, "redis-server", func(ctx context.Context) (bool, error) {
		server, err := client.Info(ctx, "server").Result()
		if err != nil {
			return false, err
		}
		if id := infoField(server, "process_id"); id != strconv.Itoa(proc.pid()) {
			return false, fmt.Errorf("process %s answers in our place", id)
		}
		if !options.clustered() {
			replication, err := client.Info(ctx, "replication").Result()
			return err == nil && (options.ReplicaOf == "" || infoField(replication, "master_link_status") == "up"), err
		}
		return takeSlots(ctx, client)
	})
}

// takeSlots gives a node its slots where it has none yet and says whether it
// serves them.
func takeSlots(ctx context.Context, client *redis.Client) (serves bool, err error) {
	cluster, err := client.ClusterInfo(ctx).Result()
	if err != nil {
		return false, err
	}
	if infoField(cluster, "cluster_slots_assigned") == "0" {
		return false, client.ClusterAddSlotsRange(ctx, 0, 16383).Err()
	}
	return infoField(cluster, "cluster_state") == "ok", nil
}

// infoField gives one line's value out of an INFO answer.
func infoField(info, name string) string {
	for line := range strings.SplitSeq(info, "\n") {
		if value, found := strings.CutPrefix(line, name+":"); found {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Addr is host:port. It stays the same over Restart.
func (r *Redis) Addr() string {
	if r.container != nil {
		return r.container.addr()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return hostPort(r.port)
}

// TLSAddr is host:port for encrypted connections, where TLS was asked for.
func (r *Redis) TLSAddr() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return hostPort(r.tls)
}

// Mode is "cluster" or "standalone", as the setting REDIS_MODE has it.
func (r *Redis) Mode() string { return redisMode(!r.options.clustered()) }

// Version is the server's product and version, such as "redis 7.0.15" or "valkey 8.1.1".
func (r *Redis) Version() string { return r.program.String() }

// Dir is the folder it writes to, "" for a container.
func (r *Redis) Dir() string { return r.dir }

// Stop ends the server (what it has is written when Persist was asked) and
// removes a temporary folder. It returns when the process is gone, killing it
// when ctx is over first. Safe to repeat.
func (r *Redis) Stop(ctx context.Context) error {
	if r.container != nil {
		return r.container.stop(ctx)
	}
	r.process().stop(ctx, syscall.SIGTERM)
	r.temporary.remove()
	return nil
}

// Kill ends the server by SIGKILL and returns when it is gone.
func (r *Redis) Kill() {
	if r.container != nil {
		r.container.kill()
		return
	}
	r.process().kill()
}

// Restart starts the server again in the same folder and on the same port,
// stopping it first when it still runs. Without Persist it comes back empty.
func (r *Redis) Restart(ctx context.Context) error {
	if r.container != nil {
		return r.container.restart(ctx)
	}
	if err := r.temporary.gone(); err != nil {
		return fmt.Errorf("restart redis-server: %w", err)
	}
	r.process().stop(ctx, syscall.SIGTERM)
	return r.start(ctx)
}

// Pause freezes the server (SIGSTOP): its connections stay open and nothing answers.
func (r *Redis) Pause() error {
	if r.container != nil {
		return r.container.pause()
	}
	return r.process().signal(syscall.SIGSTOP)
}

// Resume lets a paused server go on.
func (r *Redis) Resume() error {
	if r.container != nil {
		return r.container.resume()
	}
	return r.process().signal(syscall.SIGCONT)
}

func (r *Redis) process() *child {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.proc
}
