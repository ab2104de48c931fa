package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"hanjul/pkg/commandline"
	"hanjul/pkg/config"
	"hanjul/pkg/kafka"
)

const topicsHelp = `Makes or checks the three topics, or prints what must be allowed. Give one of --create, --check, --print and --rights. A topic that is there is never changed.
Needs the settings KAFKA_*, TOPIC_* and ORDERS_RETENTION, and for --rights also GROUP and REPLAY_TOPICS.

Examples:
  order-consumer topics --create   make those that are missing
  order-consumer topics --check    compare them with the settings, print every fault, exit code 1 if there is one
  order-consumer topics --print    print kafka-topics.sh lines for whoever may make topics
  order-consumer topics --rights   print kafka-acls.sh lines for whoever gives rights: who must be allowed what
  order-consumer topics --rights --principals User:staging-   the same for users called staging-queue-api, staging-order-consumer, ...

`

func topics(ctx context.Context, e environment, args []string) int {
	flags := flag.NewFlagSet("topics", flag.ContinueOnError)
	create := flags.Bool("create", false, "make the topics that are missing")
	check := flags.Bool("check", false, "compare the topics with the settings")
	lines := flags.Bool("print", false, "print the lines that make the topics")
	allowed := flags.Bool("rights", false, "print the lines that give every service its rights")
	principals := flags.String("principals", "User:", "with --rights: begins each principal's `name`")
	asJSON := flags.Bool("json", false, "with --rights: print one JSON document")
	if code, done := parse(e, flags, topicsHelp, args); done {
		return code
	}
	chosen := 0
	for _, flag := range []bool{*create, *check, *lines, *allowed} {
		if flag {
			chosen++
		}
	}
	if chosen != 1 {
		_, _ = fmt.Fprintln(e.stderr, "topics: expected one of --create, --check, --print and --rights")
		return exitUsage
	}
	if !*allowed && (*asJSON || *principals != "User:") {
		_, _ = fmt.Fprintln(e.stderr, "topics: expected --json and --principals only beside --rights")
		return exitUsage
	}
	all, ok := settings(e, loadTopics)
	if !ok {
		return exitUsage
	}
	c := all.KafkaConfig
	switch {
	case *lines:
		printTopics(e.stdout, c)
		return 0
	case *allowed:
		list := rights(c, all.group, all.replayed, *principals)
		if !*asJSON {
			printRights(e.stdout, c, list)
			return 0
		}
		if err := commandline.JSON(e.stdout, list); err != nil {
			return fail(e, exitFailed, err)
		}
		return 0
	}
	err := kafka.CheckAPIVersions(ctx, c.Client)
	switch {
	case err != nil: // A broker that is too old would only seem to have no topics.
	case *create:
		err = kafka.CreateTopics(ctx, c.Client, c.specs())
		if errors.Is(err, kafka.ErrRights) {
			_, _ = fmt.Fprintln(e.stderr, "This user may not make the topics. Run as one who may:")
			printTopics(e.stderr, c)
		}
	case *check:
		var warnings []kafka.Warning
		warnings, err = kafka.CheckTopics(ctx, c.Client, c.specs())
		for _, warning := range warnings {
			_, _ = fmt.Fprintf(e.stderr, "warning: %s\n", warning)
		}
		if errors.Is(err, kafka.ErrNoTopic) {
			_, _ = fmt.Fprintln(e.stderr, "Make what is missing: order-consumer topics --create, or the lines of --print.")
		}
	}
	if err != nil {
		_, _ = fmt.Fprintln(e.stderr, err)
		return exitFailed
	}
	_, _ = fmt.Fprintln(e.stdout, "topics: ok")
	return 0
}

// topicsConfig is what the subcommand needs, and no more.
type topicsConfig struct {
	KafkaConfig
	group    string
	replayed []string
}

func loadTopics(s *config.Source) topicsConfig {
	c := topicsConfig{KafkaConfig: loadKafka(s), group: groupName(s)}
	c.replayed = replayTopics(s, c.KafkaConfig)
	return c
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
		_, _ = fmt.Fprintf(w, "kafka-topics.sh %s --create --topic %s --partitions %d --replication-factor %d --config %s\n",
			c.tool(), spec.Name, spec.Partitions, max(1, spec.Replication), strings.Join(settings, " --config "))
	}
}
