package intake

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"hanjul/pkg/kafka"
)

// checkTopic waits for an answer about the topic and refuses one with another
// partition count: the keys of its records would be elsewhere.
func (i *Intake) checkTopic(ctx context.Context) error {
	backoff := kafka.Backoff{Max: time.Second}

	for {
		count, err := i.client.Partitions(ctx, i.cfg.Topic)
		if err == nil {
			return i.compare(count)
		}

		if errors.Is(err, kafka.ErrNoTopic) || !kafka.Transient(err) {
			return fmt.Errorf("consume %s: %w", i.cfg.Topic, err)
		}

		i.cfg.Logger.Warn("ask for topic", slog.String("topic", i.cfg.Topic), slog.Any("err", err))

		i.mu.Lock()
		i.lastErr = err
		i.mu.Unlock()

		if err := backoff.Wait(ctx); err != nil {
			return err
		}
	}
}

func (i *Intake) compare(count int) error {
	if count == i.cfg.Partitions {
		return nil
	}

	return fmt.Errorf("topic %s: has %d partitions, configured are %d: %w", i.cfg.Topic, count, i.cfg.Partitions, ErrPartitions)
}

// watch lasts as long as the generation. It stops the intake when the topic
// grew, and tells when the group leaves partitions to nobody, which happens
// when its leader joined on incomplete metadata. It ends, and with it the
// generation, when a worker is stuck: heartbeats go on beside a worker that
// does not, so that nobody else would take its partition.
func (i *Intake) watch(ctx context.Context) {
	ticker := time.NewTicker(i.cfg.CheckEvery)
	defer ticker.Stop()

	pulses := time.NewTicker(max(i.cfg.StuckAfter/4, time.Millisecond))
	defer pulses.Stop()

	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			i.check(ctx)
		case now := <-pulses.C:
			if i.anyStuck(now) {
				return
			}
		}
	}
}

func (i *Intake) check(ctx context.Context) {
	count, err := i.client.Partitions(ctx, i.cfg.Topic)
	if err != nil {
		return // Fetches meet the same trouble and speak of it.
	}

	if err := i.compare(count); err != nil {
		i.cfg.Logger.Error("topic changed", slog.String("topic", i.cfg.Topic), slog.Any("err", err))
		i.fail(err)

		return
	}

	assigned, stable, err := i.client.Assigned(ctx, i.cfg.Group, i.cfg.Topic)
	if err != nil || !stable {
		return
	}

	missing := i.cfg.Partitions - assigned
	i.metrics.unassigned.Set(float64(missing))

	if missing != 0 {
		i.cfg.Logger.Error("partitions without a member", slog.String("group", i.cfg.Group),
			slog.String("topic", i.cfg.Topic), slog.Int("partitions", missing))
	}
}
