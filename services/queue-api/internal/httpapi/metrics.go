package httpapi

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"hanjul/pkg/telemetry"
)

// The names of this package's metrics. A hop is the operation of a route: join, status (the poll), submitOrder (order accept).
const (
	MetricRequests   = "hanjul_api_requests_total"
	MetricHopSeconds = "hanjul_api_hop_seconds"
	MetricFailOpen   = "hanjul_api_fail_open_passes_total"
	MetricPolls      = "hanjul_api_polls_total"
	MetricStreamEnds = "hanjul_api_stream_ends_total"
	MetricLineEnds   = "hanjul_api_line_stream_ends_total"
	MetricLineTold   = "hanjul_api_line_stream_messages_total"
	MetricWaitRatio  = "hanjul_api_wait_ratio"
	MetricWaited     = "hanjul_api_waited_seconds"
)

// Metrics counts and times the calls. Safe for concurrent use.
type Metrics struct {
	requests, polls, ends *prometheus.CounterVec
	lineEnds              *prometheus.CounterVec
	lineTold, placeless   prometheus.Counter
	hops                  *prometheus.HistogramVec
	ratio, waits          prometheus.Histogram
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
		lineEnds: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: MetricLineEnds, Help: "Streams of people in line that ended, by why: finished (ordered, left, lapsed, evicted), gone (the reader went), slow (the reader did not read), stopping, old.",
		}, []string{"cause"}),
		lineTold: prometheus.NewCounter(prometheus.CounterOpts{
			Name: MetricLineTold, Help: "Messages to people in line over their streams.",
		}),
		placeless: prometheus.NewCounter(prometheus.CounterOpts{
			Name: MetricFailOpen, Help: "Passes of no place told while Redis was away; one that is told again counts again.",
		}),
		ratio: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: MetricWaitRatio, Help: "Actual wait of the admitted, divided by the first wait that they were told, both from the join on.",
			Buckets: []float64{0.1, 0.25, 0.5, 0.75, 0.9, 1.1, 1.25, 1.5, 2, 4, 10},
		}),
		waits: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: MetricWaited, Help: "Wait of the admitted who had been told one, from the join to the admission.",
			Buckets: []float64{1, 5, 15, 60, 300, 900, 1800, 3600, 7200, 21600},
		}),
		hops: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: MetricHopSeconds, Help: "Time from a request's head to its answer, by operation.", Buckets: telemetry.DurationBuckets(),
		}, []string{"operation"}),
	}
	for _, c := range []prometheus.Collector{m.requests, m.polls, m.ends, m.lineEnds, m.lineTold, m.placeless, m.hops, m.ratio, m.waits} {
		if err := registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// counts are one operation's, found by their labels once and not for every call.
type counts struct {
	metrics   *Metrics
	operation string
	classes   [6]atomic.Pointer[prometheus.Counter]
	hop       atomic.Pointer[prometheus.Observer]
}

func (m *Metrics) of(operation string) *counts { return &counts{metrics: m, operation: operation} }

// served counts an answer by the class of its status.
func (c *counts) served(status int) {
	class := min(max(status/100, 0), len(c.classes)-1)
	found := c.classes[class].Load()
	if found == nil {
		counter := c.metrics.requests.WithLabelValues(c.operation, strconv.Itoa(class)+"xx")
		found = &counter
		c.classes[class].Store(found)
	}
	(*found).Inc()
}

func (c *counts) timed(took time.Duration) {
	found := c.hop.Load()
	if found == nil {
		observer := c.metrics.hops.WithLabelValues(c.operation)
		found = &observer
		c.hop.Store(found)
	}
	(*found).Observe(took.Seconds())
}

// waited compares a promise with what came of it, both in seconds; below 0 nobody knows.
func (m *Metrics) waited(promised, took int64) {
	if took < 0 {
		return
	}
	m.waits.Observe(float64(took))
	m.ratio.Observe(float64(took) / float64(promised))
}

func (m *Metrics) ended(cause string) { m.ends.WithLabelValues(cause).Inc() }

func (m *Metrics) letIn() { m.placeless.Inc() }

func (m *Metrics) polled(status string) { m.polls.WithLabelValues(status).Inc() }
