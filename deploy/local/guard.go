package local

import (
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"syscall"
)

// guard ends a process group when this process is gone, by SIGKILL too. The
// parent death signal reaches only the child itself; a program such as "go
// test" has children of its own. The guard is a shell that waits on a pipe
// whose other end closes with this process.
type guard struct {
	cmd  *exec.Cmd
	pipe io.Closer
}

func guardGroup(pgid int) (*guard, error) {
	cmd := exec.Command("/bin/sh", "-c", `read -r _; kill -s KILL -- "-$1" 2>/dev/null`, "sh", strconv.Itoa(pgid))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("guard process group %d: %w", pgid, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("guard process group %d: %w", pgid, err)
	}
	return &guard{cmd: cmd, pipe: pipe}, nil
}

// dismiss ends the guard and leaves the group alone.
func (g *guard) dismiss() {
	_ = g.cmd.Process.Kill() // before the pipe closes, or it would act
	_ = g.cmd.Wait()         // killed, as asked
	_ = g.pipe.Close()
}
