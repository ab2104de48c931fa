package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"

	"hanjul/pkg/kafka"
)

const topicsHelp = `Makes or checks the three topics. Give one of the flags. A topic that is there is never changed.
Needs the settings KAFKA_*, TOPIC_* and ORDERS_RETENTION only.

Examples:
  order-consumer topics --create   make those that are missing
  order-consumer topics --check    compare them with the settings, print every fault, exit code 1 if there is one
  order-consumer topics --print    print kafka-topics.sh lines for whoever may make topics

`

func topics(ctx context.Context, e environment, args []string) int {
	flags := flag.NewFlagSet("topics", flag.ContinueOnError)
	create := flags.Bool("create", false, "make the topics that are missing")
	check := flags.Bool("check", false, "compare the topics with the settings")
	lines := flags.Bool("print", false, "print the lines that make the topics")
	if code, done := parse(e, flags, topicsHelp, args); done {
		return code
	}
	if flags.NFlag() != 1 {
		_, _ = fmt.Fprintln(e.stderr, "topics: expected one of --create, --check and --print")
		return exitUsage
	}
	c, ok := settings(e, loadKafka)
	if !ok {
		return exitUsage
	}
	var err error
	switch {
	case *lines:
		printTopics(e.stdout, c)
		return 0
	case *create:
		err = kafka.CreateTopics(ctx, c.Client, c.specs())
		if err != nil {
			_, _ = fmt.Fprintln(e.stderr, "Where this process may not make topics, run as one who may:")
			printTopics(e.stderr, c)
		}
	case *check:
		var warnings []kafka.Warning
		warnings, err = kafka.CheckTopics(ctx, c.Client, c.specs())
		for _, warning := range warnings {
			_, _ = fmt.Fprintf(e.stderr, "warning: %s\n", warning)
		}
	}
	if err != nil {
		_, _ = fmt.Fprintln(e.stderr, err)
		return exitFailed
	}
	_, _ = fmt.Fprintln(e.stdout, "topics: ok")
	return 0
}

// printTopics writes a line of Kafka's own tool for each topic.
func printTopics(w io.Writer, c KafkaConfig) {
	for _, spec := range c.specs() {
		settings := []string{"cleanup.policy=delete", "message.timestamp.type=CreateTime"}
		if spec.Retention > 0 {
			settings = append(settings, fmt.Sprintf("retention.ms=%d", spec.Retention.Milliseconds()), "retention.bytes=-1")
		}
		if spec.MinInsync > 0 {
			settings = append(settings, fmt.Sprintf("min.insync.replicas=%d", spec.MinInsync))
		}
		_, _ = fmt.Fprintf(w, "kafka-topics.sh --bootstrap-server %s --create --topic %s --partitions %d --replication-factor %d --config %s\n",
			strings.Join(c.Client.Brokers, ","), spec.Name, spec.Partitions, max(1, spec.Replication), strings.Join(settings, " --config "))
	}
}
