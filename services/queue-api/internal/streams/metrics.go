package streams

import "github.com/prometheus/client_golang/prometheus"

// The names of this package's metrics.
const (
	MetricOpen    = "hanjul_api_streams"
	MetricRefused = "hanjul_api_streams_refused_total"
	MetricChanges = "hanjul_api_stream_changes_total"
	MetricInLine  = "hanjul_api_line_streams"
)

// Metrics counts streams and what wakes them. Safe for concurrent use.
type Metrics struct {
	open, inLine prometheus.Gauge
	refused      prometheus.Counter
	changes      *prometheus.CounterVec
}

// NewMetrics registers the metrics; an error when they are registered already.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		open:    prometheus.NewGauge(prometheus.GaugeOpts{Name: MetricOpen, Help: "Streams of orders that are open."}),
		inLine:  prometheus.NewGauge(prometheus.GaugeOpts{Name: MetricInLine, Help: "Streams of people in line that are open."}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{Name: MetricRefused, Help: "Streams refused because too many were open."}),
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: MetricChanges, Help: "Newer statuses handed to streams, by what led to them: hint, or reread where the hint was lost.",
		}, []string{"by"}),
	}
	for _, c := range []prometheus.Collector{m.open, m.inLine, m.refused, m.changes} {
		if err := registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *Metrics) changed(hinted bool) {
	by := "reread"
	if hinted {
		by = "hint"
	}
	m.changes.WithLabelValues(by).Inc()
}
