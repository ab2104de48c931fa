package local

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// ProcessOptions says how one of our binaries is run.
type ProcessOptions struct {
	// Name is used in messages, such as "queue-api-1".
	Name string
	// Path is the binary; Args follow it.
	Path string
	Args []string
	// Env are NAME=value pairs, all that the process gets apart from PATH,
	// HOME, TMPDIR and what steers the Go runtime (GORACE, GOCOVERDIR, GOTRACEBACK).
	Env []string
	// LogFile gets what the process prints, appended over restarts; Log gets it too.
	LogFile string
	Log     io.Writer
	// AdminAddr is the host:port with /readyz; "" when there is none.
	AdminAddr string
}

// Process is one of our binaries, running. Its methods are safe concurrently,
// except Restart beside Restart.
type Process struct {
	options    ProcessOptions
	unexpected chan error

	mu    sync.Mutex
	proc  *child
	asked bool
}

// StartProcess starts the binary and returns at once; WaitReady says when it
// serves. The process ends with this one, whatever ends this one.
func StartProcess(_ context.Context, options ProcessOptions) (*Process, error) {
	p := &Process{options: options, unexpected: make(chan error, 1)}
	if err := p.start(); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *Process) start() error {
	log := logTo(p.options.Log)
	closeLog := func() {}
	if p.options.LogFile != "" {
		if err := os.MkdirAll(filepath.Dir(p.options.LogFile), 0o755); err != nil {
			return fmt.Errorf("log of %s: %w", p.options.Name, err)
		}
		file, err := os.OpenFile(p.options.LogFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return fmt.Errorf("log of %s: %w", p.options.Name, err)
		}
		log = io.MultiWriter(file, log)
		closeLog = func() { _ = file.Close() } // unbuffered: nothing can be lost here
	}
	cmd := exec.Command(p.options.Path, p.options.Args...)
	cmd.Env = append(inherited(), p.options.Env...)
	proc, err := startChild(p.options.Name, cmd, syscall.SIGKILL, log)
	if err != nil {
		closeLog()
		return err
	}
	p.mu.Lock()
	p.proc, p.asked = proc, false
	p.mu.Unlock()
	go func() {
		<-proc.ended
		closeLog()
		p.mu.Lock()
		asked := p.asked || p.proc != proc
		p.mu.Unlock()
		if !asked {
			select {
			case p.unexpected <- proc.failed():
			default: // one is enough to know
			}
		}
	}()
	return nil
}

// inherited is the part of our environment that a process needs to run at all.
func inherited() []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "GORACE", "GOCOVERDIR", "GOTRACEBACK"} {
		if value, found := os.LookupEnv(name); found {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// WaitReady returns when /readyz answers 200. It fails when the process ends
// before that or ctx is over, with the last lines the process printed.
func (p *Process) WaitReady(ctx context.Context) error {
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	proc := p.process()
	err := poll(ctx, proc, p.options.Name, func(ctx context.Context) (bool, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.options.AdminAddr+"/readyz", http.NoBody)
		if err != nil {
			return true, err
		}
		answer, err := client.Do(request)
		if err != nil {
			return false, err
		}
		defer func() { _ = answer.Body.Close() }()
		if answer.StatusCode != http.StatusOK {
			said, _ := io.ReadAll(io.LimitReader(answer.Body, 300)) // only for the message
			return false, fmt.Errorf("readyz says %d %s", answer.StatusCode, said)
		}
		return true, nil
	})
	if err != nil && proc.alive() {
		return fmt.Errorf("%w; its last lines: %s", err, proc.out.last())
	}
	return err
}

// Name is the name it was started under.
func (p *Process) Name() string { return p.options.Name }

// Pid is the process id of the present, or the last, run.
func (p *Process) Pid() int { return p.process().pid() }

// AdminAddr is the host:port of its admin port.
func (p *Process) AdminAddr() string { return p.options.AdminAddr }

// Alive reports whether it runs.
func (p *Process) Alive() bool { return p.process().alive() }

// Unexpected delivers the error of a run that ended although nobody asked by
// Signal, Kill, Stop or Restart: at most one is kept.
func (p *Process) Unexpected() <-chan error { return p.unexpected }

// Signal sends a signal; one that ends processes makes the end expected.
func (p *Process) Signal(sig syscall.Signal) error {
	if sig == syscall.SIGTERM || sig == syscall.SIGINT || sig == syscall.SIGKILL || sig == syscall.SIGQUIT {
		p.ask()
	}
	return p.process().signal(sig)
}

// Kill ends it by SIGKILL and returns when it is gone.
func (p *Process) Kill() {
	p.ask()
	p.process().kill()
}

// Stop ends it by SIGTERM, by SIGKILL after fifteen seconds or when ctx is over,
// and returns when it is gone. Safe to repeat.
func (p *Process) Stop(ctx context.Context) {
	p.ask()
	p.process().stop(ctx, syscall.SIGTERM)
}

// Wait returns when the present run has ended, with what the process left:
// nil for exit code 0, an *exec.ExitError otherwise.
func (p *Process) Wait() error {
	proc := p.process()
	<-proc.ended
	return proc.err
}

// Restart stops it when it still runs and starts it again with the same
// settings. It does not wait for readiness.
func (p *Process) Restart(ctx context.Context) error {
	p.Stop(ctx)
	return p.start()
}

func (p *Process) ask() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = true
}

func (p *Process) process() *child {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.proc
}
