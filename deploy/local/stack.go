package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// The names of our binaries, in the order of the flow.
const (
	QueueAPI  = "queue-api"
	Scheduler = "admission-scheduler"
	Consumer  = "order-consumer"
)

// readyLimit bounds how long the binaries may take to serve.
const readyLimit = 90 * time.Second

// StackOptions says how the whole of hanjul is run on this machine.
type StackOptions struct {
	// DataDir holds keys and logs, and with Persist the servers' data; "" means
	// a temporary folder, removed by Stop. Only one stack at a time may use it.
	DataDir string
	// Persist makes the state survive a restart in DataDir. Without it every
	// start has a fresh database, key prefix and, on a given Kafka, topics.
	Persist bool
	// FixedPorts asks for the documented ports (8080, 8081, …), else free ones.
	FixedPorts bool
	// BinDir holds the binaries. PerService is how many of each run; 0 means 2.
	BinDir     string
	PerService int
	// Env overrides or adds settings of every process, by their full names.
	Env map[string]string
	// Private starts all three servers for this stack alone, whatever addresses
	// the environment names: for who kills or empties them.
	Private bool
	// KafkaNodes asks for a Kafka cluster of so many nodes from jars, with every
	// topic on all of them; 0 means one broker. Its topics are gone at the end.
	KafkaNodes int
	// Kafka are brokers that run already; the settings by which they are reached
	// belong into Env.
	Kafka []string
	// RedisCluster asks for a Redis Cluster of six processes for this stack alone.
	// It is empty at each start, and the lines are restored from the ledger.
	RedisCluster bool
	// Log is told what happens, a line each; nil drops it. What servers and
	// binaries print goes to DataDir/logs.
	Log io.Writer
}

// Stack is a running hanjul: three servers and PerService of each binary. Its
// methods are safe concurrently, except Stop.
type Stack struct {
	options    StackOptions
	dir        string
	temporary  *tempDir
	lock       *lock
	serverLog  *os.File
	servers    *Servers
	keys       Keys
	settings   map[string]string
	cleanUp    []func(context.Context) error
	unexpected chan error
	ended      chan struct{}
	endOnce    sync.Once

	mu        sync.Mutex
	processes map[string][]*Process
	listens   map[string][]string
}

// StartStack starts the servers, makes keys, schema and topics, starts the
// binaries (sinks first) and returns when each of them is ready. On an error,
// and when ctx is over first, everything is ended again. ErrInUse says that
// another stack runs in DataDir.
func StartStack(ctx context.Context, options StackOptions) (_ *Stack, err error) {
	if options.PerService == 0 {
		options.PerService = 2
	}
	s := &Stack{
		options: options, unexpected: make(chan error, 1), ended: make(chan struct{}),
		processes: make(map[string][]*Process), listens: make(map[string][]string),
	}
	for _, name := range []string{QueueAPI, Scheduler, Consumer} {
		s.processes[name] = make([]*Process, options.PerService)
		s.listens[name] = make([]string, options.PerService)
		if _, err := os.Stat(s.binary(name)); err != nil {
			return nil, fmt.Errorf("the binary %s is not built (make build): %w", name, err)
		}
	}
	if s.dir, s.temporary, err = workDir(options.DataDir, "stack"); err != nil {
		return nil, err
	}
	if s.lock, err = takeLock(s.dir); err != nil {
		s.temporary.remove()
		return nil, err
	}
	if err := s.start(ctx); err != nil {
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		return nil, errors.Join(err, s.Stop(limit))
	}
	return s, nil
}

func (s *Stack) start(ctx context.Context) (err error) {
	if err := os.MkdirAll(s.logDir(), 0o755); err != nil {
		return fmt.Errorf("logs of the stack: %w", err)
	}
	s.serverLog, err = os.OpenFile(filepath.Join(s.logDir(), "servers.log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("logs of the stack: %w", err)
	}
	dir := "" // temporary, one for each server
	if s.options.Persist {
		dir = s.dir
	}
	s.servers, err = StartServers(ctx, ServersOptions{
		Dir: dir, Persist: s.options.Persist, FixedPorts: s.options.FixedPorts,
		Private: s.options.Private, KafkaNodes: s.options.KafkaNodes, Kafka: s.options.Kafka, RedisCluster: s.options.RedisCluster, Log: s.serverLog,
	})
	if err != nil {
		return err
	}
	for _, line := range s.servers.Describe() {
		s.say("%s", line)
	}
	if s.keys, err = EnsureKeys(filepath.Join(s.dir, "keys")); err != nil {
		return err
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	for _, args := range [][]string{{"migrate"}, {"topics", "--create"}} {
		if err := s.Run(ctx, nil, nil, Consumer, args...); err != nil {
			return err
		}
	}
	return s.startProcesses(ctx)
}

// startProcesses starts every binary, sinks first, and waits for all of them.
func (s *Stack) startProcesses(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	faults := make(chan error)
	for _, name := range []string{Consumer, Scheduler, QueueAPI} {
		for i := range s.options.PerService {
			go func() { faults <- s.startOne(ctx, name, i) }()
		}
	}
	var all []error
	for range 3 * s.options.PerService {
		if err := <-faults; err != nil {
			all = append(all, err)
			cancel() // the rest need not go on
		}
	}
	if len(all) > 0 {
		return all[0] // the others mostly say that they were called off
	}
	for _, name := range []string{QueueAPI, Scheduler, Consumer} {
		for _, p := range s.Processes(name) {
			s.say("%-21s ready, pid %d, admin %s", p.Name(), p.Pid(), p.AdminAddr())
			go s.watch(p)
		}
	}
	return nil
}

// startOne starts one binary and waits until it is ready, on other ports when
// free ones were snatched.
func (s *Stack) startOne(ctx context.Context, name string, i int) error {
	var err error
	for range portTries {
		var listen, admin string
		if listen, admin, err = s.ports(name, i); err != nil {
			return err
		}
		label := fmt.Sprintf("%s-%d", name, i+1)
		env := append(s.env(name), "HANJUL_ADMIN_LISTEN="+admin)
		if name != Consumer {
			env = append(env, "HANJUL_LISTEN="+listen)
		}
		var p *Process
		p, err = StartProcess(ctx, ProcessOptions{
			Name: label, Path: s.binary(name), Env: env, AdminAddr: admin,
			LogFile: filepath.Join(s.logDir(), label+".log"),
		})
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.processes[name][i], s.listens[name][i] = p, listen
		s.mu.Unlock()
		err = p.WaitReady(ctx)
		if err == nil || s.options.FixedPorts || p.Alive() || !strings.Contains(err.Error(), "in use") {
			return err
		}
	}
	return err
}

// watch passes an unexpected end on.
func (s *Stack) watch(p *Process) {
	for {
		select {
		case err := <-p.Unexpected():
			select {
			case s.unexpected <- err:
			default: // one is enough to know
			}
		case <-s.ended:
			return
		}
	}
}

// Run runs a subcommand of a binary to its end with the stack's settings, such
// as Run(ctx, os.Stdout, os.Stderr, Consumer, "audit", "--product", id). A nil
// writer drops the output. The error wraps *exec.ExitError for a code other than 0.
func (s *Stack) Run(ctx context.Context, stdout, stderr io.Writer, service string, args ...string) error {
	label := strings.Join(append([]string{service}, args...), " ")
	cmd := exec.Command(s.binary(service), args...)
	cmd.Env = append(inherited(), s.env(service)...)
	cmd.Env = append(cmd.Env, "HANJUL_ADMIN_LISTEN="+hostPort(0), "HANJUL_LISTEN="+hostPort(0))
	cmd.Stdout, cmd.Stderr = stdout, stderr
	proc, err := startChild(label, cmd, syscall.SIGKILL, nil)
	if err != nil {
		return err
	}
	select {
	case <-proc.ended:
	case <-ctx.Done():
		proc.stop(context.WithoutCancel(ctx), syscall.SIGTERM)
		return fmt.Errorf("%s: %w", label, ctx.Err())
	}
	if proc.err != nil {
		return proc.failed()
	}
	return nil
}

// Stop ends queue-api, admission-scheduler and order-consumer in this order,
// each by SIGTERM and after fifteen seconds by SIGKILL, then the servers, and
// returns when all are gone. When ctx is over the rest is killed. Safe to repeat.
func (s *Stack) Stop(ctx context.Context) error {
	s.endOnce.Do(func() { close(s.ended) })
	for _, name := range []string{QueueAPI, Scheduler, Consumer} {
		var group sync.WaitGroup
		for _, p := range s.Processes(name) {
			group.Go(func() { p.Stop(ctx) })
		}
		group.Wait()
	}
	var faults []error
	for _, clean := range s.cleanUp {
		faults = append(faults, clean(ctx))
	}
	s.cleanUp = nil
	if s.servers != nil {
		faults = append(faults, s.servers.Stop(ctx))
	}
	if s.serverLog != nil {
		_ = s.serverLog.Close() // unbuffered, and closed already when Stop is repeated
	}
	s.lock.release()
	s.temporary.remove()
	return errors.Join(faults...)
}

func (s *Stack) binary(name string) string { return filepath.Join(s.options.BinDir, name) }

func (s *Stack) logDir() string { return filepath.Join(s.dir, "logs") }

func (s *Stack) say(format string, args ...any) {
	_, _ = fmt.Fprintf(logTo(s.options.Log), format+"\n", args...) // a lost line of progress harms nobody
}
