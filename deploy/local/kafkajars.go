package local

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// kafkaStart bounds one start of a broker from jars, recovery included.
const kafkaStart = 2 * time.Minute

// readyTopic is written and read once per start: an open port is no broker yet.
const readyTopic = "hanjul-ready"

// KafkaJarsOptions says how a broker from jars is started.
type KafkaJarsOptions struct {
	// Jars is the folder that FetchKafka returned.
	Jars string
	// Dir is where it writes; "" means a temporary folder, removed by Stop.
	Dir string
	// Persist makes it sync every batch to disk before it answers.
	Persist bool
	// Port is fixed when it is not 0.
	Port int
	// Partitions is the number for topics created without one; 0 means DefaultPartitions.
	Partitions int
	// Secure makes clients use TLS and log in, and lets them do only what ACLs
	// allow; nil means plain connections of anybody. Not for one of a cluster.
	Secure *KafkaSecurity
	// Log gets what the broker prints; nil drops it.
	Log io.Writer
}

// KafkaJars is one Apache Kafka node (broker and controller, KRaft) as a
// process of ours with a small heap. Topics are never created on first use. Its
// methods are safe concurrently.
type KafkaJars struct {
	options   KafkaJarsOptions
	member    member
	java      string
	version   string
	dir       string
	temporary *tempDir

	mu               sync.Mutex
	port, controller int
	proc             *child
}

// member is a node's part in its cluster.
type member struct {
	id      int    // from 1
	cluster string // the cluster's id
	voters  []int  // the controller ports of all nodes, by id; nil where there is only this one
	heap    string // the most of Java's heap
}

// alone is the part of a node that is its whole cluster.
func alone() member { return member{id: 1, cluster: clusterID(), heap: "384m"} }

// StartKafkaJars formats Dir where it is new, starts the broker and returns
// when a record went through it. ctx bounds the start only.
func StartKafkaJars(ctx context.Context, options KafkaJarsOptions) (*KafkaJars, error) {
	k, err := newKafkaJars(ctx, options, alone())
	if err != nil {
		return nil, err
	}
	if err := k.start(ctx); err != nil {
		k.temporary.remove()
		return nil, err
	}
	return k, nil
}

// newKafkaJars looks for what a node needs and starts nothing.
func newKafkaJars(ctx context.Context, options KafkaJarsOptions, part member) (*KafkaJars, error) {
	java, err := findJava(ctx)
	if err != nil {
		return nil, err
	}
	found, err := filepath.Glob(filepath.Join(options.Jars, "kafka_2.13-*.jar"))
	if err != nil || len(found) != 1 {
		return nil, fmt.Errorf("kafka in %q: %w", options.Jars, errors.Join(ErrMissing, err))
	}
	version := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(found[0]), "kafka_2.13-"), ".jar")
	dir, temporary, err := workDir(options.Dir, "kafka")
	if err != nil {
		return nil, err
	}
	return &KafkaJars{options: options, member: part, java: java, version: version, dir: dir, temporary: temporary, port: options.Port}, nil
}

// start brings the process up, on other ports when a free one was snatched.
func (k *KafkaJars) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, kafkaStart)
	defer cancel()
	k.mu.Lock()
	defer k.mu.Unlock()
	var err error
	for range portTries {
		err = k.startOnce(ctx)
		if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "in use") {
			return err
		}
		if k.member.voters != nil {
			continue // the other nodes know its ports
		}
		if k.options.Port == 0 && k.proc == nil {
			k.port = 0
		}
		k.controller = 0
	}
	return err
}

func (k *KafkaJars) startOnce(ctx context.Context) error {
	for _, port := range []*int{&k.port, &k.controller} {
		if *port == 0 {
			free, err := freePort()
			if err != nil {
				return err
			}
			*port = free
		}
	}
	proc, err := k.launch(ctx)
	if err != nil {
		return err
	}
	if err := k.await(ctx, proc); err != nil {
		proc.kill()
		return fmt.Errorf("kafka on port %d: %w", k.port, err)
	}
	k.proc = proc
	return nil
}

// launch starts the process on the ports chosen and waits for nothing.
func (k *KafkaJars) launch(ctx context.Context) (*child, error) {
	if err := k.configure(); err != nil {
		return nil, err
	}
	if err := k.format(ctx); err != nil {
		return nil, err
	}
	return startChild("kafka", k.command("kafka.Kafka", k.properties()), syscall.SIGKILL, k.options.Log)
}

// await returns when the broker serves: a node alone passes a record on, one of
// a cluster is listed by itself, whatever the others can do at the moment.
func (k *KafkaJars) await(ctx context.Context, proc *child) error {
	if k.member.voters != nil {
		return awaitListed(ctx, proc, hostPort(k.port), k.member.id)
	}
	return awaitKafka(ctx, proc, hostPort(k.port), 1, k.options.Secure.client()...)
}

func (k *KafkaJars) properties() string { return filepath.Join(k.dir, "server.properties") }

// command runs one of Kafka's main classes with a heap for a small machine.
func (k *KafkaJars) command(class string, args ...string) *exec.Cmd {
	cmd := exec.Command(k.java, append([]string{
		"-Xms64m", "-Xmx" + k.member.heap, "-XX:+UseSerialGC", "-XX:ActiveProcessorCount=2", "-XX:TieredStopAtLevel=1",
		"-Dlog4j2.configurationFile=" + filepath.Join(k.dir, "log4j2.properties"),
		"-cp", filepath.Join(k.options.Jars, "*"), class,
	}, args...)...)
	cmd.Dir = k.dir
	return cmd
}

// configure writes the node's settings; the ports are of this start.
func (k *KafkaJars) configure() error {
	logging, err := kafkaFiles.ReadFile("kafka/log4j2.properties")
	if err != nil {
		return fmt.Errorf("configure kafka: %w", err)
	}
	client, controller, clients := hostPort(k.port), hostPort(k.controller), "PLAINTEXT"
	if k.options.Secure != nil {
		clients = "SASL_SSL"
	}
	ports := k.member.voters
	if ports == nil {
		ports = []int{k.controller}
	}
	voters := make([]string, len(ports))
	for i, port := range ports {
		voters[i] = fmt.Sprintf("%d@%s", i+1, hostPort(port))
	}
	lines := []string{
		"process.roles=broker,controller",
		fmt.Sprintf("node.id=%d", k.member.id),
		"controller.quorum.voters=" + strings.Join(voters, ","),
		"listeners=" + clients + "://" + client + ",CONTROLLER://" + controller,
		"advertised.listeners=" + clients + "://" + client,
		"controller.listener.names=CONTROLLER",
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT",
		"inter.broker.listener.name=" + clients,
		"log.dirs=" + filepath.Join(k.dir, "data"),
	}
	lines = append(lines, behaviour(len(voters), k.options.Partitions)...)
	if len(voters) > 1 {
		// A killed leader's partitions are led by another within seconds instead of nine.
		lines = append(lines, "broker.session.timeout.ms=3000", "broker.heartbeat.interval.ms=500")
	}
	if secure := k.options.Secure; secure != nil {
		more, err := secure.properties(k.dir)
		if err != nil {
			return fmt.Errorf("configure kafka: %w", err)
		}
		lines = append(lines, more...)
	}
	if k.options.Persist {
		lines = append(lines, "log.flush.interval.messages=1")
	}
	for name, text := range map[string][]byte{
		"server.properties": []byte(strings.Join(lines, "\n") + "\n"),
		"log4j2.properties": logging,
	} {
		if err := os.WriteFile(filepath.Join(k.dir, name), text, 0o644); err != nil {
			return fmt.Errorf("configure kafka: %w", err)
		}
	}
	return nil
}

// behaviour are the settings of a node of so many that do not depend on where
// it runs; partitions 0 means DefaultPartitions.
func behaviour(nodes, partitions int) []string {
	if partitions == 0 {
		partitions = DefaultPartitions
	}
	inSync := max(1, nodes-1)
	return []string{
		fmt.Sprintf("num.partitions=%d", partitions),
		fmt.Sprintf("default.replication.factor=%d", nodes),
		fmt.Sprintf("min.insync.replicas=%d", inSync),
		fmt.Sprintf("offsets.topic.replication.factor=%d", nodes),
		"offsets.topic.num.partitions=1",
		fmt.Sprintf("transaction.state.log.replication.factor=%d", nodes),
		fmt.Sprintf("transaction.state.log.min.isr=%d", inSync),
		fmt.Sprintf("share.coordinator.state.topic.replication.factor=%d", nodes),
		fmt.Sprintf("share.coordinator.state.topic.min.isr=%d", inSync),
		"unclean.leader.election.enable=false",
		"group.initial.rebalance.delay.ms=0",
		fmt.Sprintf("group.min.session.timeout.ms=%d", minSession.Milliseconds()),
		"auto.create.topics.enable=false",
		"log.cleaner.dedupe.buffer.size=2097152",
	}
}

// format prepares a new data folder; a formatted one is left alone.
func (k *KafkaJars) format(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(k.dir, "data", "meta.properties")); err == nil {
		return nil
	}
	cmd := k.command("kafka.tools.StorageTool", "format", "--ignore-formatted",
		"--cluster-id", k.member.cluster, "--config", k.properties())
	if err := runChild(ctx, "format kafka's folder", cmd); err != nil {
		return err
	}
	return nil
}

// clusterID is 16 random bytes in base64url. A leading dash would be taken for a flag.
func clusterID() string {
	for {
		var b [16]byte
		_, _ = rand.Read(b[:]) // never fails
		if id := base64.RawURLEncoding.EncodeToString(b[:]); id[0] != '-' {
			return id
		}
	}
}

// awaitListed waits until a broker is listed by itself.
func awaitListed(ctx context.Context, proc *child, addr string, id int) error {
	return poll(ctx, proc, "kafka", func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DialTimeout(time.Second))
		if err != nil {
			return true, err
		}
		defer client.Close()
		brokers, err := kadm.NewClient(client).ListBrokers(ctx)
		return slices.Contains(brokers.NodeIDs(), int32(id)), err
	})
}

// awaitKafka waits until so many brokers are listed and a record can be written
// to all of them and read back.
func awaitKafka(ctx context.Context, proc *child, addr string, count int, more ...kgo.Opt) error {
	return poll(ctx, proc, "kafka", func(ctx context.Context) (bool, error) { return askKafka(ctx, addr, count, more...) })
}

// askKafka tries once what awaitKafka waits for.
func askKafka(ctx context.Context, addr string, count int, more ...kgo.Opt) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	client, err := kgo.NewClient(append(more, kgo.SeedBrokers(addr), kgo.ConsumeTopics(readyTopic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DialTimeout(5*time.Second))...)
	if err != nil {
		return true, err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	brokers, err := admin.ListBrokers(ctx)
	if err != nil || len(brokers) < count {
		return false, err
	}
	if _, err := admin.CreateTopic(ctx, 1, int16(count), nil, readyTopic); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return false, err
	}
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: readyTopic, Value: []byte("ready")}).FirstErr(); err != nil {
		return false, err
	}
	fetched := client.PollFetches(ctx)
	if err := fetched.Err(); err != nil {
		return false, err
	}
	return fetched.NumRecords() > 0, nil
}

// Addrs are the brokers, host:port. They stay the same over Restart.
func (k *KafkaJars) Addrs() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return []string{hostPort(k.port)}
}

// Version is the broker's version, such as "kafka 4.4.0".
func (k *KafkaJars) Version() string { return "kafka " + k.version }

// Stop ends the broker in order and removes a temporary folder. It returns
// when the process is gone, killing it when ctx is over first. Safe to repeat.
func (k *KafkaJars) Stop(ctx context.Context) error {
	k.process().stop(ctx, syscall.SIGTERM)
	k.temporary.remove()
	return nil
}

// Kill ends the broker by SIGKILL and returns when it is gone.
func (k *KafkaJars) Kill() { k.process().kill() }

// Restart starts the broker again on the same folder and port, stopping it
// first when it still runs.
func (k *KafkaJars) Restart(ctx context.Context) error {
	if err := k.temporary.gone(); err != nil {
		return fmt.Errorf("restart kafka: %w", err)
	}
	k.process().stop(ctx, syscall.SIGTERM)
	return k.start(ctx)
}

// Ended is closed when the broker's process is gone, asked or not. It is of
// the present run: Restart makes another.
func (k *KafkaJars) Ended() <-chan struct{} { return k.process().ended }

func (k *KafkaJars) process() *child {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.proc
}
