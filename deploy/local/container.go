package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	dockercontainer "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
)

// containerOptions say what runs in a container and how it is reached.
type containerOptions struct {
	// name is used in messages and of temporary files, such as "redis".
	name  string
	image string
	// port is the server's, inside; fixed is the one it is reached by, 0 for a free one.
	port, fixed int
	// compose gives the command and the environment once the address is known
	// under which the server is reached from here.
	compose func(ip string, port int) (cmd []string, env map[string]string)
	// folder names the state that is to survive this container; "" for none.
	// It holds the volume's name only: removing it gives the state up.
	folder string
	// state is where the server writes, inside.
	state string
	// ready asks the server whether it serves.
	ready func(ctx context.Context, ip string, port int) (done bool, err error)
	log   io.Writer
}

// container is one server on an engine, reached by one published port. The
// port is chosen here and not by the engine, which would choose another at each
// restart. What ends it with a killed owner is a guard, the reaper where it is
// on, and at the latest the next start of any container. Its methods are safe
// concurrently.
type container struct {
	engine  *engine
	options containerOptions
	ip      string
	port    int
	owner   *tempDir
	ctr     *testcontainers.DockerContainer
	guard   *guard

	mu        sync.Mutex
	following sync.WaitGroup
	removed   bool
}

// startContainer starts a container and returns when its server serves, on
// another port when a free one was snatched. It takes the engine over and closes
// it at the end. On an error nothing is left.
func startContainer(ctx context.Context, e *engine, options containerOptions) (*container, error) {
	c := &container{engine: e, options: options, port: options.fixed}
	err := c.create(ctx)
	if err != nil {
		e.close()
		return nil, fmt.Errorf("%s as a container of %s: %w", options.name, options.image, err)
	}
	return c, nil
}

func (c *container) create(ctx context.Context) error {
	p, err := provider()
	if err != nil {
		return err
	}
	defer func() { _ = p.Close() }()
	if err := c.engine.fetch(ctx, c.options.image); err != nil {
		return err
	}
	host, err := p.DaemonHost(ctx)
	if err != nil {
		return fmt.Errorf("where published ports are: %w", err)
	}
	if c.ip, err = resolve(ctx, host); err != nil {
		return err
	}
	volume, err := c.volume(ctx)
	if err != nil {
		return err
	}
	// Held as long as the container is there: its lock says that the owner lives.
	if c.owner, err = newTempDir("", "container-"+c.options.name); err != nil {
		return err
	}
	for range portTries {
		if err = c.createOnce(ctx, p, volume); err == nil {
			return nil
		}
		_ = c.remove(ctx) // what stays has no owner in a moment, so the next sweep finds it
		if c.options.fixed != 0 || ctx.Err() != nil || !strings.Contains(err.Error(), "in use") {
			break
		}
		c.port = 0
	}
	c.owner.remove()
	return err
}

func (c *container) createOnce(ctx context.Context, p *testcontainers.DockerProvider, volume string) error {
	if c.port == 0 {
		port, err := freePort()
		if err != nil {
			return err
		}
		c.port = port
	}
	cmd, env := c.options.compose(c.ip, c.port)
	inside := fmt.Sprintf("%d/tcp", c.options.port)
	_, host := ours()
	made, err := p.CreateContainer(ctx, testcontainers.ContainerRequest{
		Image: c.options.image, Cmd: cmd, Env: env, ExposedPorts: []string{inside},
		Labels: map[string]string{hostLabel: host, ownerLabel: c.owner.owner.Name()},
		HostConfigModifier: func(h *dockercontainer.HostConfig) {
			h.PortBindings = network.PortMap{network.MustParsePort(inside): {{HostIP: c.bind(), HostPort: strconv.Itoa(c.port)}}}
			h.ShmSize = 256 << 20
			if volume != "" {
				h.Mounts = append(h.Mounts, mount.Mount{Type: mount.TypeVolume, Source: volume, Target: c.options.state})
			}
		},
	})
	if ctr, ok := made.(*testcontainers.DockerContainer); ok && ctr != nil {
		c.ctr = ctr
	}
	if err != nil {
		return err
	}
	if c.guard, err = guardContainer(c.engine.addr, c.ctr.GetContainerID()); err != nil {
		return err
	}
	return c.start(ctx)
}

// bind is the address that the port is published on: the one it is reached by
// where the engine is on this machine, else all of the engine's.
func (c *container) bind() netip.Addr {
	if ip, err := netip.ParseAddr(c.ip); err == nil && strings.HasPrefix(c.engine.addr, "unix://") {
		return ip
	}
	return netip.IPv4Unspecified()
}

// resolve gives a host's IPv4 address: servers announce addresses, not names.
func resolve(ctx context.Context, host string) (string, error) {
	if host == "localhost" {
		return loopback, nil
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip4", host)
	if err != nil || len(found) == 0 {
		return "", fmt.Errorf("address of the engine's host %q: %w", host, err)
	}
	return found[0].Unmap().String(), nil
}

// start starts the container that is there and waits until its server serves.
func (c *container) start(ctx context.Context) error {
	since := time.Now()
	if err := c.ctr.Start(ctx); err != nil {
		if strings.Contains(err.Error(), "already allocated") {
			return fmt.Errorf("port %d is in use: %w", c.port, err) // by a container; the kernel's word is the same
		}
		return err
	}
	c.follow(since)
	return c.await(ctx)
}

// follow passes on what the server prints, until it ends.
func (c *container) follow(since time.Time) {
	if c.options.log == nil {
		return
	}
	c.following.Go(func() {
		ctx := context.Background() // ends with the container
		stream, err := c.engine.client.ContainerLogs(ctx, c.ctr.GetContainerID(), client.ContainerLogsOptions{
			ShowStdout: true, ShowStderr: true, Follow: true, Since: strconv.FormatInt(since.Unix(), 10),
		})
		if err != nil {
			return // a log that is lost harms nobody
		}
		defer func() { _ = stream.Close() }()
		_, _ = stdcopy.StdCopy(c.options.log, c.options.log, stream)
	})
}

// await asks until the server serves, the container ends or ctx is over.
func (c *container) await(ctx context.Context) error {
	const pause = 50 * time.Millisecond
	for {
		done, last := c.options.ready(ctx, c.ip, c.port)
		if done {
			return last
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return errors.Join(fmt.Errorf("wait for %s: %w: it prints: %s", c.options.name, ctx.Err(), c.last()), last)
		case <-timer.C:
		}
		if state, err := c.ctr.State(ctx); err == nil && !state.Running {
			return fmt.Errorf("%s ended with code %d: %s", c.options.name, state.ExitCode, c.last())
		}
	}
}

// last gives the last lines printed, for messages.
func (c *container) last() string {
	ctx, cancel := context.WithTimeout(context.Background(), removeLimit)
	defer cancel()
	stream, err := c.engine.client.ContainerLogs(ctx, c.ctr.GetContainerID(), client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Tail: "6"})
	if err != nil {
		return ""
	}
	defer func() { _ = stream.Close() }()
	kept := &output{log: io.Discard}
	_, _ = stdcopy.StdCopy(kept, kept, stream) // only for a message
	return kept.last()
}

// addr is host:port, the same over restarts.
func (c *container) addr() string { return net.JoinHostPort(c.ip, strconv.Itoa(c.port)) }

// describe names it in a line for people.
func (c *container) describe() string {
	return fmt.Sprintf("a container of %s, %s", c.options.image, c.engine.describe())
}

// stop ends the server in order, by SIGKILL after fifteen seconds or when ctx
// is over, and removes the container; a volume with a folder stays. Safe to repeat.
func (c *container) stop(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.removed {
		return nil
	}
	c.halt(ctx)
	if err := c.remove(ctx); err != nil {
		return fmt.Errorf("remove the container of %s: %w", c.options.name, err)
	}
	c.removed = true
	c.owner.remove()
	c.engine.close()
	return nil
}

// halt asks the server to end; what it does not do in time the removal does.
func (c *container) halt(ctx context.Context) {
	_ = c.resumeNow(ctx) // a paused server cannot hear the request
	limit := grace
	_ = c.ctr.Stop(ctx, &limit)
}

func (c *container) remove(ctx context.Context) error {
	if c.ctr == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeLimit)
	defer cancel()
	err := c.ctr.Terminate(ctx, testcontainers.StopTimeout(0))
	if err != nil && !errdefs.IsNotFound(err) {
		return err
	}
	c.following.Wait()
	if c.guard != nil {
		c.guard.dismiss()
	}
	c.ctr, c.guard = nil, nil
	return nil
}

// kill ends the server by SIGKILL and returns when it is gone.
func (c *container) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.removed {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), removeLimit)
	defer cancel()
	waiting := c.engine.client.ContainerWait(ctx, c.ctr.GetContainerID(), client.ContainerWaitOptions{Condition: dockercontainer.WaitConditionNotRunning})
	_, err := c.engine.client.ContainerKill(ctx, c.ctr.GetContainerID(), client.ContainerKillOptions{Signal: "KILL"})
	if err != nil && !errdefs.IsConflict(err) { // not running is what we want
		_, _ = fmt.Fprintf(logTo(c.options.log), "kill %s: %v\n", c.options.name, err)
		return
	}
	select {
	case <-waiting.Result:
	case _ = <-waiting.Error:
	case <-ctx.Done():
	}
	c.following.Wait()
}

// restart starts the server again with what it has written and on the same
// port, stopping it first when it still runs.
func (c *container) restart(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.removed {
		return fmt.Errorf("restart %s: %w", c.options.name, ErrStopped)
	}
	c.halt(ctx)
	c.following.Wait()
	if err := c.start(ctx); err != nil {
		return fmt.Errorf("restart %s on port %d: %w", c.options.name, c.port, err)
	}
	return nil
}

// pause freezes every process in it: connections stay open and nothing answers.
func (c *container) pause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.removed {
		return fmt.Errorf("pause %s: %w", c.options.name, ErrStopped)
	}
	ctx, cancel := context.WithTimeout(context.Background(), removeLimit)
	defer cancel()
	if _, err := c.engine.client.ContainerPause(ctx, c.ctr.GetContainerID(), client.ContainerPauseOptions{}); err != nil {
		return fmt.Errorf("pause %s: %w", c.options.name, err)
	}
	return nil
}

// resume lets a paused server go on.
func (c *container) resume() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.removed {
		return fmt.Errorf("resume %s: %w", c.options.name, ErrStopped)
	}
	ctx, cancel := context.WithTimeout(context.Background(), removeLimit)
	defer cancel()
	if err := c.resumeNow(ctx); err != nil {
		return fmt.Errorf("resume %s: %w", c.options.name, err)
	}
	return nil
}

func (c *container) resumeNow(ctx context.Context) error {
	_, err := c.engine.client.ContainerUnpause(ctx, c.ctr.GetContainerID(), client.ContainerUnpauseOptions{})
	return err
}
