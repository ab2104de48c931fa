package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	tclog "github.com/testcontainers/testcontainers-go/log"
)

const (
	// pingLimit bounds how long an engine may take to answer before it counts as none.
	pingLimit = 5 * time.Second
	// reaperLimit bounds the one attempt to fetch the reaper's image.
	reaperLimit = 30 * time.Second
	// removeLimit bounds what must be done although a caller's time is over.
	removeLimit = 30 * time.Second
)

// reaperImage is what this version of testcontainers-go removes containers
// with after their owner's death; a test compares the two.
const reaperImage = "testcontainers/ryuk:0.14.0"

// reaperSwitch is the setting of testcontainers-go that turns it off.
const reaperSwitch = "TESTCONTAINERS_RYUK_DISABLED"

// The labels of every container and volume of ours. Host says which machine's
// file system the paths are of: an engine may serve several.
const (
	hostLabel   = "hanjul.host"   // of both
	ownerLabel  = "hanjul.owner"  // a container's: a file that its owner keeps locked
	folderLabel = "hanjul.folder" // a volume's: the folder whose state it holds
)

// engine is a Docker engine that answers. Its methods are safe concurrently.
type engine struct {
	client  *client.Client
	addr    string // as in DOCKER_HOST
	version string
}

// findEngine looks where DOCKER_HOST says, else at the usual sockets, and
// clears away what processes that are gone left on the engine found. It fails
// with ErrMissing when none answers. The caller closes it.
func findEngine(ctx context.Context) (*engine, error) {
	var faults []error
	for _, addr := range engineAddrs() {
		e, err := openEngine(ctx, addr)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", addr, err))
			continue
		}
		if addr != client.DefaultDockerHost {
			// testcontainers-go looks for itself, and must find the same.
			if err := os.Setenv("DOCKER_HOST", addr); err != nil {
				e.close()
				return nil, fmt.Errorf("name the engine: %w", err)
			}
		}
		e.settleReaper(ctx)
		e.sweep(ctx)
		return e, nil
	}
	return nil, errors.Join(fmt.Errorf("a Docker engine that answers: %w", ErrMissing), errors.Join(faults...))
}

// engineAddrs are the addresses to try, the nearest first.
func engineAddrs() []string {
	if addr := os.Getenv("DOCKER_HOST"); addr != "" {
		return []string{addr}
	}
	paths := []string{strings.TrimPrefix(client.DefaultDockerHost, "unix://")}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		paths = append(paths, filepath.Join(dir, "docker.sock"))
	}
	if home, err := os.UserHomeDir(); err == nil {
		paths = append(paths, filepath.Join(home, ".docker/run/docker.sock"), filepath.Join(home, ".docker/desktop/docker.sock"))
	}
	paths = append(paths, fmt.Sprintf("/run/user/%d/docker.sock", os.Getuid()))
	var addrs []string
	for _, path := range paths {
		if _, err := os.Stat(path); err == nil {
			addrs = append(addrs, "unix://"+path)
		}
	}
	return addrs
}

func openEngine(ctx context.Context, addr string) (*engine, error) {
	c, err := client.New(client.FromEnv, client.WithHost(addr))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, pingLimit)
	defer cancel()
	version, err := c.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		_ = c.Close() // nothing was begun
		return nil, err
	}
	return &engine{client: c, addr: addr, version: version.Version}, nil
}

// close gives the connections back; containers go on.
func (e *engine) close() { _ = e.client.Close() }

// describe names it in a line for people.
func (e *engine) describe() string { return fmt.Sprintf("Docker %s at %s", e.version, e.addr) }

// has reports whether an image is on the engine: nil, or ErrMissing with its name.
func (e *engine) has(ctx context.Context, image string) error {
	_, err := e.client.ImageInspect(ctx, image)
	if errdefs.IsNotFound(err) {
		return fmt.Errorf("the image %s in %s: %w", image, e.describe(), ErrMissing)
	}
	if err != nil {
		return fmt.Errorf("look for the image %s: %w", image, err)
	}
	return nil
}

// fetch has the engine pull an image that it lacks, with the credentials that
// the machine has for its registry. It fails with ErrMissing when that is not
// possible. Safe to repeat.
func (e *engine) fetch(ctx context.Context, image string) error {
	missing := e.has(ctx, image)
	if !errors.Is(missing, ErrMissing) {
		return missing
	}
	p, err := provider()
	if err != nil {
		return err
	}
	defer func() { _ = p.Close() }()
	if err := p.PullImage(ctx, image); err != nil {
		return fmt.Errorf("%w, and cannot be fetched: %w", missing, err)
	}
	// A failure in the middle of a pull is only said in the answer's text.
	return e.has(ctx, image)
}

// provider is testcontainers-go on the engine found.
func provider() (*testcontainers.DockerProvider, error) {
	p, err := testcontainers.NewDockerProvider(testcontainers.Generic2DockerOptions(testcontainers.WithLogger(tclog.NewNoopLogger()))...)
	if err != nil {
		return nil, fmt.Errorf("containers: %w", err)
	}
	return p, nil
}

// settleReaper turns the reaper off where its image cannot be had, since no
// container would start then; sweep does its work at the next start. What the
// environment says stays as it is. testcontainers-go reads the setting once and
// has no other way in than the environment.
func (e *engine) settleReaper(ctx context.Context) {
	// It prints the engine's particulars and every step to stderr otherwise.
	tclog.SetDefault(tclog.NewNoopLogger())
	if _, set := os.LookupEnv(reaperSwitch); set {
		return
	}
	image := os.Getenv("TESTCONTAINERS_HUB_IMAGE_NAME_PREFIX")
	if image != "" {
		image = strings.TrimSuffix(image, "/") + "/"
	}
	image += reaperImage
	if e.has(ctx, image) == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, reaperLimit)
	defer cancel()
	if pull, err := e.client.ImagePull(ctx, image, client.ImagePullOptions{}); err == nil {
		_, _ = io.Copy(io.Discard, pull) // whether it came is asked below
		_ = pull.Close()
	}
	if e.has(ctx, image) != nil {
		_ = os.Setenv(reaperSwitch, "true") // without it the start of a container says why it fails
	}
}

// ours selects what has the label of this machine.
func ours() (client.Filters, string) {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	return make(client.Filters).Add("label", hostLabel+"="+host), host
}

// sweep removes the containers whose owners are gone and the volumes whose
// folders are. What cannot be removed is left to the next sweep: two may meet.
func (e *engine) sweep(ctx context.Context) {
	filter, _ := ours()
	found, err := e.client.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filter})
	if err != nil {
		return
	}
	for _, c := range found.Items {
		if abandoned(c.Labels[ownerLabel]) {
			_, _ = e.client.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		}
	}
	volumes, err := e.client.VolumeList(ctx, client.VolumeListOptions{Filters: filter})
	if err != nil {
		return
	}
	for _, v := range volumes.Items {
		folder := v.Labels[folderLabel]
		if _, err := os.Stat(filepath.Join(folder, volumeFile)); folder != "" && errors.Is(err, os.ErrNotExist) {
			_, _ = e.client.VolumeRemove(ctx, v.Name, client.VolumeRemoveOptions{})
		}
	}
}

// abandoned reports whether the process that kept a file locked is gone. A
// file of another file system, whose folder is not here, says nothing.
func abandoned(path string) bool {
	if path == "" {
		return false
	}
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return false
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return errors.Is(err, os.ErrNotExist)
	}
	defer func() { _ = file.Close() }() // gives the lock back
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}
