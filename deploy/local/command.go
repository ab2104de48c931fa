package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"time"
)

// commandGrace is how long a command may take to end after an interrupt.
const commandGrace = 15 * time.Second

// RunCommand runs a program to its end in a process group of its own and
// returns its exit code, 128 plus the signal's number when a signal ended it.
// When ctx is over the group is interrupted and after fifteen seconds killed;
// when this process is gone, for any reason, the whole group is killed.
func RunCommand(ctx context.Context, stdout, stderr io.Writer, env []string, name string, args ...string) (code int, err error) {
	cmd := exec.Command(name, args...)
	cmd.Env = env
	cmd.Stdout, cmd.Stderr = stdout, stderr
	proc, err := startChild(name, cmd, syscall.SIGKILL, nil)
	if err != nil {
		return 0, err
	}
	watch, err := guardGroup(proc.pid())
	if err != nil {
		proc.kill()
		return 0, err
	}
	defer watch.dismiss()
	select {
	case <-proc.ended:
	case <-ctx.Done():
		_ = proc.signalGroup(syscall.SIGINT) // ended already is what we want
		timer := time.NewTimer(commandGrace)
		defer timer.Stop()
		select {
		case <-proc.ended:
		case <-timer.C:
			proc.kill()
		}
	}
	exit, ended := errors.AsType[*exec.ExitError](proc.err)
	switch {
	case proc.err == nil:
		return 0, nil
	case !ended:
		return 0, fmt.Errorf("run %s: %w", name, proc.err)
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return exit.ExitCode(), nil
}
