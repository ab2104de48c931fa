package kafka

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type producerMetrics struct {
	records  *prometheus.CounterVec
	requests *prometheus.CounterVec
	retries  *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	batch    *prometheus.HistogramVec
	full     prometheus.Counter
}

func newProducerMetrics(registerer prometheus.Registerer, waiting func() float64) (*producerMetrics, error) {
	m := &producerMetrics{
		records: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hanjul_kafka_produce_records_total",
			Help: "Records handed to the producer, by outcome.",
		}, []string{"topic", "outcome"}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hanjul_kafka_produce_requests_total",
			Help: "Produce requests, by what their answer means.",
		}, []string{"topic", "result"}),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hanjul_kafka_produce_retries_total",
			Help: "Batches sent again.",
		}, []string{"topic"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "hanjul_kafka_produce_seconds",
			Help:    "Time of one produce request.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 14),
		}, []string{"topic"}),
		batch: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "hanjul_kafka_produce_batch_records",
			Help:    "Records that left in one produce request.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 12),
		}, []string{"topic"}),
		full: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "hanjul_kafka_produce_full_total",
			Help: "Places not given because the queue was full.",
		}),
	}

	queue := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "hanjul_kafka_produce_queue_records",
		Help: "Places of the queue that are taken.",
	}, waiting)

	if registerer == nil {
		return m, nil
	}

	var faults []error
	for _, c := range []prometheus.Collector{m.records, m.requests, m.retries, m.seconds, m.batch, m.full, queue} {
		faults = append(faults, registerer.Register(c))
	}

	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("register producer metrics: %w", err)
	}

	return m, nil
}

func (m *producerMetrics) observe(topic string, records int, took time.Duration, err error) {
	result := "ok"

	if err != nil {
		switch judge(err) {
		case refused, refusedOne:
			result = "refused"
		case clean:
			result = "retriable"
		case doubtful:
			result = "doubtful"
		}
	}

	m.requests.WithLabelValues(topic, result).Inc()
	m.seconds.WithLabelValues(topic).Observe(took.Seconds())
	m.batch.WithLabelValues(topic).Observe(float64(records))
}
