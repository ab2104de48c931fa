package local

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"runtime/debug"
	"slices"
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
	cluster *kfake.Cluster
	addrs   []string
	close   sync.Once
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
	if options.Port != 0 {
		opts = append(opts, kfake.Ports(options.Port))
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
	cluster, err := kfake.NewCluster(append(opts, more...)...)
	if err != nil {
		return nil, fmt.Errorf("start kfake: %w", err)
	}
	return &Kafka{cluster: cluster, addrs: cluster.ListenAddrs()}, nil
}

// Addrs are the brokers, host:port.
func (k *Kafka) Addrs() []string { return slices.Clone(k.addrs) }

// Cluster gives the broker itself, for fault injection.
func (k *Kafka) Cluster() *kfake.Cluster { return k.cluster }

// Version is kfake's module version.
func (k *Kafka) Version() string {
	return "kfake " + moduleVersion("github.com/twmb/franz-go/pkg/kfake")
}

// Stop closes every connection and, when persistent, leaves the state on disk.
// Safe to repeat.
func (k *Kafka) Stop(context.Context) error {
	k.close.Do(k.cluster.Close)
	return nil
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
