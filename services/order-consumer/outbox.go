package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"hanjul/pkg/commandline"
	"hanjul/pkg/config"
	"hanjul/pkg/kafka"
	"hanjul/pkg/outbox"
	"hanjul/pkg/postgres"
	"hanjul/pkg/product"
	"hanjul/services/order-consumer/internal/relay"
	"hanjul/services/order-consumer/internal/replay"
)

const outboxHelp = `Shows what the outbox holds and publishes events again.

  order-consumer outbox list     a product's rows
  order-consumer outbox stats    what waits, partitions, who shares the outbox, replays
  order-consumer outbox replay   publish a product's events again

Each tells more with -help. Needs the settings POSTGRES_*, and replay also KAFKA_*, TOPIC_* and REPLAY_TOPICS.
`

const outboxListHelp = `Lists a product's outbox rows: its events by seq, then commands and dead letters.
Needs the settings POSTGRES_* only.

Examples:
  order-consumer outbox list --product demo --from-seq 100 --limit 20
  order-consumer outbox list --product demo --unpublished --json

`

const outboxStatsHelp = `Measures the outbox: what waits to be published, the partitions, the processes that share it, and replays that are neither done nor cancelled.
Needs the settings POSTGRES_* only.

Example:
  order-consumer outbox stats

`

func outboxCommand(ctx context.Context, e environment, args []string) int {
	return choose(ctx, e, "outbox", outboxHelp, []verb{{"list", outboxList}, {"stats", outboxStats}, {"replay", outboxReplay}}, args)
}

func outboxList(ctx context.Context, e environment, args []string) int {
	flags := flag.NewFlagSet("outbox list", flag.ContinueOnError)
	id := flags.String("product", "", "the `product` (required)")
	from := flags.Int64("from-seq", 0, "first `seq`")
	waiting := flags.Bool("unpublished", false, "only rows that are not published")
	limit := flags.Int("limit", 50, "most `rows`, 1 to 10000")
	asJSON := flags.Bool("json", false, "print JSON lines")
	if code, done := parse(e, flags, outboxListHelp, args); done {
		return code
	}
	p, err := product.ParseID(*id)
	if err != nil {
		_, _ = fmt.Fprintln(e.stderr, fmt.Errorf("outbox list: --product: %w", err))
		return exitUsage
	}
	if *limit < 1 || *limit > 10_000 {
		_, _ = fmt.Fprintln(e.stderr, "outbox list: --limit: expected 1 to 10000")
		return exitUsage
	}
	return withOutbox(ctx, e, func(box *outbox.Outbox) error {
		rows, err := box.List(ctx, p, *from, *waiting, *limit)
		if err != nil {
			return err
		}
		table := commandline.NewTable(e.stdout)
		if !*asJSON {
			table.Line("SEQ", "TYPE", "ID", "SUBJECT", "TOPIC", "CREATED", "PUBLISHED")
		}
		for _, row := range rows {
			if *asJSON {
				if err := commandline.JSON(e.stdout, row); err != nil {
					return err
				}
				continue
			}
			published := "no"
			if row.Published {
				published = "yes"
			}
			table.Line(row.Seq, row.Type, row.ID, row.Subject, row.Topic, row.CreatedAt.UTC().Format(time.RFC3339), published)
		}
		return table.End()
	})
}

func outboxStats(ctx context.Context, e environment, args []string) int {
	flags := flag.NewFlagSet("outbox stats", flag.ContinueOnError)
	asJSON := flags.Bool("json", false, "print one JSON document")
	if code, done := parse(e, flags, outboxStatsHelp, args); done {
		return code
	}
	return withOutbox(ctx, e, func(box *outbox.Outbox) error {
		s, err := box.Stats(ctx)
		if err != nil {
			return err
		}
		if *asJSON {
			return commandline.JSON(e.stdout, s)
		}
		table := commandline.NewTable(e.stdout)
		age := time.Duration(0)
		if s.Oldest != nil {
			age = time.Since(*s.Oldest).Round(time.Second)
		}
		table.Line("unpublished", s.Unpublished, fmt.Sprint("oldest ", age))
		for _, w := range s.Waiting {
			table.Line(fmt.Sprint("product ", w.Product), fmt.Sprintf("%d rows", w.Rows), fmt.Sprint("oldest ", time.Since(w.Oldest).Round(time.Second)))
		}
		for _, p := range s.Partitions {
			table.Line("partition "+p.Name, fmt.Sprintf("about %d rows", p.Rows), fmt.Sprintf("%d bytes", p.Bytes))
		}
		for _, r := range s.Relays {
			table.Line(fmt.Sprintf("relay %d", r.Session), r.Address, fmt.Sprintf("%d shards", r.Shards))
		}
		for _, r := range s.Replays {
			table.Line(fmt.Sprintf("replay %s of %s", r.ID, r.Product), r.State, fmt.Sprintf("%d of %d to %s", r.Sent, r.Matched, r.Topic))
		}
		return table.End()
	})
}

func openOutbox(ctx context.Context, address postgres.Address) (*outbox.Outbox, error) {
	if err := fitsPostgres(ctx, address); err != nil {
		return nil, err
	}
	return outbox.Open(ctx, address)
}

// withOutbox runs do on the outbox of the settings.
func withOutbox(ctx context.Context, e environment, do func(*outbox.Outbox) error) int {
	address, ok := settings(e, postgres.Read)
	if !ok {
		return exitUsage
	}
	box, err := openOutbox(ctx, address)
	if err == nil {
		defer box.Close()
		err = do(box)
	}
	if err != nil {
		_, _ = fmt.Fprintln(e.stderr, err)
		return exitFailed
	}
	return 0
}

func outboxReplay(ctx context.Context, e environment, args []string) int {
	var faults bytes.Buffer // Told behind the arguments', whose help needs no settings.
	quiet := e
	quiet.stderr = &faults
	c, ok := settings(quiet, func(s *config.Source) (c Config) {
		c.Kafka, c.Postgres = loadKafka(s), postgres.Read(s)
		c.ReplayTopics = replayTopics(s, c.Kafka)
		return c
	})
	options, err := replay.ParseOptions(args, c.replayable(), replay.Who(e.environ), e.stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		_, _ = fmt.Fprintln(e.stderr, err)
		return exitUsage
	case !ok:
		_, _ = fmt.Fprint(e.stderr, faults.String())
		return exitUsage
	}
	box, err := openOutbox(ctx, c.Postgres)
	if err == nil {
		defer box.Close()
		err = replay.Command{
			Options: options, Live: c.Kafka.Topics.Events, Box: box, In: e.stdin, Out: e.stdout, Ask: e.stderr,
			Connect: c.Kafka.replayer,
		}.Run(ctx)
	}
	if err != nil {
		_, _ = fmt.Fprintln(e.stderr, err)
		if errors.Is(err, replay.ErrUsage) {
			return exitUsage
		}
		return exitFailed
	}
	return 0
}

// replayer checks the topic and makes a producer for it alone, beside the relay's.
func (k KafkaConfig) replayer(ctx context.Context, topic string) (relay.Producer, func(), error) {
	spec := kafka.TopicSpec{Name: topic, Partitions: k.Partitions, Replication: 1}
	if _, err := kafka.CheckTopics(ctx, k.Client, []kafka.TopicSpec{spec}); err != nil {
		return nil, nil, err
	}
	producer, err := kafka.NewProducer(kafka.ProducerConfig{Config: k.Client, Partitions: map[string]int{topic: k.Partitions}, DrainFor: stopSend})
	if err != nil {
		return nil, nil, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = producer.Run(running) // What was left unsent is not noted as sent.
	}()
	return producer, func() {
		stop()
		<-done
	}, nil
}
