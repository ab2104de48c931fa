package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// errEndedEarly stands in where a process gave no fault of its own.
var errEndedEarly = errors.New("exit code 0")

// grace is how long a child may take to end after it was asked before it is killed: longer
// than our binaries' own default drain of ten seconds.
const grace = 15 * time.Second

// child is one process of ours in a process group of its own. Its methods are
// safe concurrently.
type child struct {
	name string
	cmd  *exec.Cmd
	out  *output

	// ended is closed when the process is gone and its group swept; err is
	// what Wait said and may be read after that.
	ended chan struct{}
	err   error

	mu     sync.Mutex
	reaped bool
}

// startChild starts cmd so that it cannot outlive this process: the kernel
// sends it death when this process ends for any reason. The signal belongs to
// the thread that forked, so that thread is kept, locked, until the child is
// gone. What the child prints goes to log; its end is kept for error messages.
func startChild(name string, cmd *exec.Cmd, death syscall.Signal, log io.Writer) (*child, error) {
	c := &child{name: name, cmd: cmd, out: &output{log: logTo(log)}, ended: make(chan struct{})}
	if cmd.Stdout == nil {
		cmd.Stdout = c.out
	}
	if cmd.Stderr == nil {
		cmd.Stderr = c.out
	}
	// A grandchild may hold the pipe open after the child is gone.
	cmd.WaitDelay = time.Second
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	cmd.SysProcAttr.Pdeathsig = death

	started := make(chan error)
	go c.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return c, nil
}

// run starts the process, waits for it and sweeps its group, on one thread.
func (c *child) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := c.cmd.Start(); err != nil {
		started <- err
		return
	}
	started <- nil
	// Wait without reaping: until the process is reaped its number, which is
	// also its group's, cannot be given to another, so sweeping is safe.
	for {
		err := unix.Waitid(unix.P_PID, c.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	c.mu.Lock()
	c.reaped = true
	_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL) // nobody left in the group is fine
	c.mu.Unlock()
	c.err = c.cmd.Wait()
	close(c.ended)
}

// pid is the process id, also after the end.
func (c *child) pid() int { return c.cmd.Process.Pid }

// alive reports whether the process has not ended yet.
func (c *child) alive() bool {
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

// signal sends sig to the process alone.
func (c *child) signal(sig syscall.Signal) error { return c.send(c.cmd.Process.Pid, sig) }

// signalGroup sends sig to the process and everything it started in its group.
func (c *child) signalGroup(sig syscall.Signal) error { return c.send(-c.cmd.Process.Pid, sig) }

func (c *child) send(target int, sig syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reaped {
		return fmt.Errorf("signal %s: %w", c.name, ErrStopped)
	}
	if err := syscall.Kill(target, sig); err != nil {
		return fmt.Errorf("signal %s: %w", c.name, err)
	}
	return nil
}

// kill ends the whole group at once and waits until it is gone.
func (c *child) kill() {
	_ = c.signalGroup(syscall.SIGKILL) // ended already is what we want
	<-c.ended
}

// stop asks the process to end by sig and kills its group when it has not
// ended within the grace or before ctx is done. It returns once the process is
// gone. Safe to repeat.
func (c *child) stop(ctx context.Context, sig syscall.Signal) {
	_ = c.signal(sig)                  // ended already is what we want
	_ = c.signalGroup(syscall.SIGCONT) // a paused process cannot hear the request
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-c.ended:
		return
	case <-timer.C:
	case <-ctx.Done():
	}
	c.kill()
}

// failed describes an end nobody asked for, with the last lines printed. It
// wraps *exec.ExitError for a code other than 0.
func (c *child) failed() error {
	<-c.ended
	why := c.err
	if why == nil {
		why = errEndedEarly
	}
	if tail := c.out.last(); tail != "" {
		return fmt.Errorf("%s ended: %w: %s", c.name, why, tail)
	}
	return fmt.Errorf("%s ended: %w", c.name, why)
}

// tailBytes bounds what is kept of a child's output for error messages.
const tailBytes = 4096

// output passes a child's output on and keeps its end.
type output struct {
	mu   sync.Mutex
	log  io.Writer
	tail []byte
}

// Write never fails: a full log must not end the child.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tail = append(o.tail, p...)
	if len(o.tail) > tailBytes {
		o.tail = append(o.tail[:0], o.tail[len(o.tail)-tailBytes:]...)
	}
	_, _ = o.log.Write(p)
	return len(p), nil
}

// last gives up to six of the last lines printed.
func (o *output) last() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	lines := bytes.Split(bytes.TrimSpace(o.tail), []byte("\n"))
	if len(lines) > 6 {
		lines = lines[len(lines)-6:]
	}
	return strings.TrimSpace(string(bytes.Join(lines, []byte(" | "))))
}

// poll calls try until it says done, fails for good, or ctx is over. A child
// that ends in between is reported with its last words.
func poll(ctx context.Context, c *child, what string, try func(context.Context) (done bool, err error)) error {
	const pause = 20 * time.Millisecond
	var last error
	for {
		done, err := try(ctx)
		if done {
			return err
		}
		if err != nil {
			last = err
		}
		timer := time.NewTimer(pause)
		select {
		case <-c.ended:
			timer.Stop()
			return c.failed()
		case <-ctx.Done():
			timer.Stop()
			if last != nil {
				return fmt.Errorf("wait for %s: %w (last: %w)", what, ctx.Err(), last)
			}
			return fmt.Errorf("wait for %s: %w", what, ctx.Err())
		case <-timer.C:
		}
	}
}

// find looks for a program in PATH and in the folders given.
func find(name string, folders ...string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, folder := range folders {
		path := folder + "/" + name
		if info, err := os.Stat(path); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: %w", name, ErrMissing)
}
