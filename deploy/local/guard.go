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
	const end = `read -r _; kill -s KILL -- "-$1" 2>/dev/null`
	return startGuard(fmt.Sprintf("process group %d", pgid), exec.Command("/bin/sh", "-c", end, "sh", strconv.Itoa(pgid)))
}

func startGuard(what string, cmd *exec.Cmd) (*guard, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("guard %s: %w", what, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("guard %s: %w", what, err)
	}
	return &guard{cmd: cmd, pipe: pipe}, nil
}

// endContainer removes a container through the engine's socket, or through
// Docker's own client where there is no curl or the engine is elsewhere.
const endContainer = `read -r _
case $1 in unix://*)
  curl -sf -o /dev/null --unix-socket "${1#unix://}" -X DELETE "http://engine/containers/$2?force=1&v=1" 2>/dev/null && exit ;;
esac
DOCKER_HOST=$1 docker rm -f -v "$2" >/dev/null 2>&1`

// guardContainer does for a container what guardGroup does for a group. Where
// neither curl nor docker is here it does nothing, and the next start of a
// container finds what is left.
func guardContainer(addr, id string) (*guard, error) {
	return startGuard("container "+id, exec.Command("/bin/sh", "-c", endContainer, "sh", addr, id))
}

// dismiss ends the guard and leaves what it guards alone.
func (g *guard) dismiss() {
	_ = g.cmd.Process.Kill() // before the pipe closes, or it would act
	_ = g.cmd.Wait()         // killed, as asked
	_ = g.pipe.Close()
}
