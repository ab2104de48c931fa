package local

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

// kafkaState is where Apache Kafka's image keeps its data.
const kafkaState = "/var/lib/kafka/data"

// KafkaNode is one Apache Kafka node of ours, from jars or as a container,
// that can be killed and restarted on the same address with what it has
// written. It is safe concurrently.
type KafkaNode interface {
	Addrs() []string
	Version() string
	Kill()
	Restart(ctx context.Context) error
	Stop(ctx context.Context) error
}

// KafkaContainerOptions says how a broker is started as a container; the zero
// value gives one that lives as long as its container, on a free port.
type KafkaContainerOptions struct {
	// Dir names the state that survives the container; "" means none does.
	Dir string
	// Persist makes it sync every batch to disk before it answers.
	Persist bool
	// Port is fixed when it is not 0; a taken one is then an error.
	Port int
	// Partitions is the number for topics created without one; 0 means DefaultPartitions.
	Partitions int
	// Log gets what the broker prints; nil drops it.
	Log io.Writer
}

// KafkaContainer is one Apache Kafka node (broker and controller, KRaft) as a
// container, with the settings of the node from jars. Topics are never created
// on first use. Its methods are safe concurrently.
type KafkaContainer struct {
	container *container
	version   string
}

// StartKafkaContainer starts a broker from HANJUL_KAFKA_IMAGE on the Docker
// engine that answers and returns when a record went through it. It fails with
// ErrMissing when no engine answers or the image cannot be had. ctx bounds the
// start only.
func StartKafkaContainer(ctx context.Context, options KafkaContainerOptions) (*KafkaContainer, error) {
	asked, err := wished()
	if err != nil {
		return nil, err
	}
	e, err := findEngine(ctx)
	if err != nil {
		return nil, fmt.Errorf("HANJUL_KAFKA=%s: %w", kafkaDocker, err)
	}
	ctx, cancel := context.WithTimeout(ctx, kafkaStart)
	defer cancel()
	cluster, folder := clusterID(), ""
	if options.Persist {
		folder = options.Dir
	}
	c, err := startContainer(ctx, e, containerOptions{
		name: "kafka", image: asked.kafkaImage, port: 9092, fixed: options.Port, folder: folder, state: kafkaState, log: options.Log,
		compose: func(ip string, port int) ([]string, map[string]string) {
			return nil, kafkaEnv(cluster, net.JoinHostPort(ip, strconv.Itoa(port)), options)
		},
		ready: func(ctx context.Context, ip string, port int) (bool, error) {
			return askKafka(ctx, net.JoinHostPort(ip, strconv.Itoa(port)), 1)
		},
	})
	if err != nil {
		return nil, err
	}
	_, tag, _ := strings.Cut(asked.kafkaImage[strings.LastIndex(asked.kafkaImage, "/")+1:], ":")
	tag, _, _ = strings.Cut(tag, "@")
	return &KafkaContainer{container: c, version: tag}, nil
}

// kafkaEnv are a node's settings as the image takes them. Clients are told the
// address under which the port is published, which the node itself need not
// reach: between brokers there is a listener of its own.
func kafkaEnv(cluster, advertised string, options KafkaContainerOptions) map[string]string {
	lines := append([]string{
		"process.roles=broker,controller",
		"node.id=1",
		"controller.quorum.voters=1@localhost:9093",
		"listeners=PLAINTEXT://:9092,CONTROLLER://localhost:9093,INTERNAL://localhost:9094",
		"advertised.listeners=PLAINTEXT://" + advertised + ",INTERNAL://localhost:9094",
		"controller.listener.names=CONTROLLER",
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT",
		"inter.broker.listener.name=INTERNAL",
		"log.dirs=" + kafkaState,
	}, behaviour(1, options.Partitions)...)
	if options.Persist {
		lines = append(lines, "log.flush.interval.messages=1")
	}
	env := map[string]string{
		"CLUSTER_ID":      cluster, // of a new folder only
		"KAFKA_HEAP_OPTS": "-Xms64m -Xmx384m",
	}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, "=")
		env["KAFKA_"+strings.ToUpper(strings.ReplaceAll(name, ".", "_"))] = value
	}
	return env
}

// Addrs are the brokers, host:port. They stay the same over Restart.
func (k *KafkaContainer) Addrs() []string { return []string{k.container.addr()} }

// Version is "kafka" with the tag of its image.
func (k *KafkaContainer) Version() string { return strings.TrimSpace("kafka " + k.version) }

// Stop ends the broker in order and removes its container. It returns when it
// is gone, killing it when ctx is over first. Safe to repeat.
func (k *KafkaContainer) Stop(ctx context.Context) error { return k.container.stop(ctx) }

// Kill ends the broker by SIGKILL and returns when it is gone.
func (k *KafkaContainer) Kill() { k.container.kill() }

// Restart starts the broker again with what it has written and on the same
// port, stopping it first when it still runs.
func (k *KafkaContainer) Restart(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, kafkaStart)
	defer cancel()
	return k.container.restart(ctx)
}
