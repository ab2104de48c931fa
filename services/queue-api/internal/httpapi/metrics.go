package httpapi

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"hanjul/pkg/telemetry"
)

// The names of this package's metrics. A hop is the operation of a route: join, status (the poll), submitOrder (order accept).
const (
	MetricRequests   = "hanjul_api_requests_total"
	MetricHopSeconds = "hanjul_api_hop_seconds"
	MetricPolls      = "hanjul_api_polls_total"
	MetricStreamEnds = "hanjul_api_stream_ends_total"
)

// Metrics counts and times the calls. Safe for concurrent use.
type Metrics struct {
	requests, polls, ends *prometheus.CounterVec
	hops                  *prometheus.HistogramVec
}

// NewMetrics registers the metrics; an error when they are registered already.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: MetricRequests, Help: "Calls answered, by operation and class of status.",
		}, []string{"operation", "class"}),
		polls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: MetricPolls, Help: "Status polls answered, by the status told.",
		}, []string{"status"}),
		ends: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: MetricStreamEnds, Help: "Streams of orders that ended, by why: judged, gone (the reader went), slow (the reader did not read), stopping, old.",
		}, []string{"cause"}),
		hops: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: MetricHopSeconds, Help: "Time from a request's head to its answer, by operation.", Buckets: telemetry.DurationBuckets(),
		}, []string{"operation"}),
	}
	for _, c := range []prometheus.Collector{m.requests, m.polls, m.ends, m.hops} {
		if err := registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *Metrics) served(operation, class string) { m.requests.WithLabelValues(operation, class).Inc() }

func (m *Metrics) timed(operation string, took time.Duration) {
	m.hops.WithLabelValues(operation).Observe(took.Seconds())
}

func (m *Metrics) ended(cause string) { m.ends.WithLabelValues(cause).Inc() }

func (m *Metrics) polled(status string) { m.polls.WithLabelValues(status).Inc() }
