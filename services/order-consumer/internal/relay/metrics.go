package relay

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"hanjul/pkg/telemetry"
)

type metrics struct {
	published   *prometheus.CounterVec
	failed      *prometheus.CounterVec
	polled      prometheus.Counter
	stepDowns   prometheus.Counter
	latency     prometheus.Histogram
	batch       prometheus.Histogram
	unpublished prometheus.Gauge
	oldest      prometheus.Gauge
	shards      prometheus.Gauge
	stuck       prometheus.Gauge
	dropped     prometheus.Counter
	overdue     prometheus.Gauge
}

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		published: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hanjul_relay_published_total",
			Help: "Outbox rows that were published and marked, by kind (event, other).",
		}, []string{"kind"}),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hanjul_relay_failures_total",
			Help: "Times that the first waiting row of a product was not acknowledged, by outcome (refused, unknown).",
		}, []string{"outcome"}),
		polled: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "hanjul_relay_found_by_poll_total",
			Help: "Outbox rows found without a hint from this process, such as those of other processes.",
		}),
		stepDowns: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "hanjul_relay_step_downs_total",
			Help: "Times that this process lost its shards of the outbox.",
		}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "hanjul_relay_event_seconds",
			Help:    "From the start of the transaction that wrote an event to Kafka's acknowledgement.",
			Buckets: telemetry.DurationBuckets(),
		}),
		batch: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "hanjul_relay_batch_rows",
			Help:    "Outbox rows of one pass.",
			Buckets: telemetry.SizeBuckets(),
		}),
		unpublished: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "hanjul_relay_unpublished_rows",
			Help: "Outbox rows that are not published, counted up to 200000.",
		}),
		oldest: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "hanjul_relay_oldest_unpublished_seconds",
			Help: "Age of the oldest outbox row that is not published; 0 without any.",
		}),
		shards: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "hanjul_relay_shards",
			Help: "Shards of the outbox that this process owns; the sum over processes is the setting RELAY_SHARDS.",
		}),
		stuck: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "hanjul_relay_stuck_lanes",
			Help: "Products whose next outbox row Kafka refuses for good; above 0 somebody must act.",
		}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "hanjul_relay_partitions_dropped_total",
			Help: "Partitions of the outbox that this process dropped because they were over their time.",
		}),
		overdue: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "hanjul_relay_partitions_overdue",
			Help: "Partitions of the outbox that are over their time and stay, because of an unpublished row or a replay.",
		}),
	}
	var faults []error
	for _, c := range []prometheus.Collector{
		m.published, m.failed, m.polled, m.stepDowns, m.latency, m.batch, m.unpublished, m.oldest, m.shards, m.stuck,
		m.dropped, m.overdue,
	} {
		faults = append(faults, registerer.Register(c))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("register relay metrics: %w", err)
	}
	return m, nil
}
