package local

import (
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// DefaultPartitions is how many partitions a topic gets where its creator
// names no number.
const DefaultPartitions = 12

// minSession is the shortest group session the broker accepts: tests want
// members to be found dead within a second, a real broker asks for six.
const minSession = 100 * time.Millisecond

// KafkaOptions says how the embedded broker is started; the zero value keeps
// everything in memory, on a free port.
type KafkaOptions struct {
	// Dir is where it writes when Persist; it must be named then.
	Dir string
	// Persist keeps topics, records and committed offsets in Dir, synced
	// before a produce is answered.
	Persist bool
	// Port is fixed when it is not 0; a taken one is then an error.
	Port int
	// Partitions is the number for topics created without one; 0 means DefaultPartitions.
	Partitions int
	// Log gets the broker's own lines; nil drops them.
	Log io.Writer
}

// Kafka is one kfake broker inside this process: it speaks the protocol of a
// Kafka broker and ends with the process. Topics are never created on first
// use. Its methods are safe concurrently.
type Kafka struct {
	opts       []kfake.Opt // all but the port
	persistent bool
	addrs      []string

	mu      sync.Mutex
	cluster *kfake.Cluster
}

// StartKafka starts the embedded broker and returns when it listens.
func StartKafka(_ context.Context, options KafkaOptions, more ...kfake.Opt) (*Kafka, error) {
	partitions := options.Partitions
	if partitions == 0 {
		partitions = DefaultPartitions
	}
	opts := []kfake.Opt{
		kfake.NumBrokers(1),
		kfake.DefaultNumPartitions(partitions),
		kfake.GroupMinSessionTimeout(minSession),
	}
	if options.Persist {
		if options.Dir == "" {
			return nil, fmt.Errorf("start kfake: a persistent broker needs a folder")
		}
		dir, err := filepath.Abs(options.Dir)
		if err != nil {
			return nil, fmt.Errorf("start kfake: %w", err)
		}
		opts = append(opts, kfake.DataDir(dir), kfake.SyncWrites())
	}
	if options.Log != nil {
		opts = append(opts, kfake.WithLogger(kfake.BasicLogger(options.Log, kfake.LogLevelWarn)))
	}
	k := &Kafka{opts: append(opts, more...), persistent: options.Persist}
	var err error
	for range portTries {
		port := options.Port
		if port == 0 && options.Persist {
			// One of ours, so that it is still free when the broker is restarted.
			if port, err = freePort(); err != nil {
				return nil, err
			}
		}
		if err = k.start(port); err == nil || options.Port != 0 || !strings.Contains(err.Error(), "in use") {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	k.addrs = k.cluster.ListenAddrs()
	return k, nil
}

func (k *Kafka) start(port int) error {
	opts := slices.Clone(k.opts)
	if port != 0 {
		opts = append(opts, kfake.Ports(port))
	}
	cluster, err := kfake.NewCluster(opts...)
	if err != nil {
		return fmt.Errorf("start kfake: %w", err)
	}
	k.cluster = cluster
	return nil
}

// Addrs are the brokers, host:port. They stay the same over Restart.
func (k *Kafka) Addrs() []string { return slices.Clone(k.addrs) }

// Cluster gives the broker itself, for fault injection. Restart makes another.
func (k *Kafka) Cluster() *kfake.Cluster {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.cluster
}

// Version is kfake's module version.
func (k *Kafka) Version() string {
	return "kfake " + moduleVersion("github.com/twmb/franz-go/pkg/kfake")
}

// Stop closes every connection and, when persistent, leaves the state on disk.
// Safe to repeat.
func (k *Kafka) Stop(context.Context) error {
	k.Cluster().Close()
	return nil
}

// Restart starts a persistent broker again on the same folder and port,
// stopping it first when it still runs.
func (k *Kafka) Restart(context.Context) error {
	if !k.persistent {
		return fmt.Errorf("restart kfake: a broker in memory would come back empty")
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cluster.Close()
	_, text, err := net.SplitHostPort(k.addrs[0])
	if err != nil {
		return fmt.Errorf("restart kfake: %w", err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("restart kfake: %w", err)
	}
	return k.start(port)
}

// moduleVersion is the version of a module linked into this program.
func moduleVersion(path string) string {
	info, found := debug.ReadBuildInfo()
	if !found {
		return "unknown"
	}
	for _, m := range info.Deps {
		if strings.EqualFold(m.Path, path) {
			return m.Version
		}
	}
	return "unknown"
}
