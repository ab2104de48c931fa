package live

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"hanjul/pkg/telemetry"
)

// The names of this package's metrics.
const (
	MetricRefreshes      = "hanjul_api_line_refreshes_total"
	MetricBegins         = "hanjul_api_line_begins_total"
	MetricRefreshSeconds = "hanjul_api_line_refresh_seconds"
	MetricProducts       = "hanjul_api_line_products"
	MetricPlaces         = "hanjul_api_line_places"
)

// Metrics counts what the snapshots cost. Safe for concurrent use.
type Metrics struct {
	refreshes        *prometheus.CounterVec
	begins           prometheus.Counter
	seconds          prometheus.Histogram
	products, places prometheus.Gauge
}

// NewMetrics registers the metrics; an error when they are registered already.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		refreshes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: MetricRefreshes, Help: "Refreshes of lines held in memory, by result: ok, failed.",
		}, []string{"result"}),
		begins: prometheus.NewCounter(prometheus.CounterOpts{
			Name: MetricBegins, Help: "Lines read whole, because they were new here or their changes had been lost.",
		}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: MetricRefreshSeconds, Help: "Time of one refresh of a line.", Buckets: telemetry.DurationBuckets(),
		}),
		products: prometheus.NewGauge(prometheus.GaugeOpts{Name: MetricProducts, Help: "Lines held in memory."}),
		places:   prometheus.NewGauge(prometheus.GaugeOpts{Name: MetricPlaces, Help: "Places of all lines held in memory."}),
	}
	for _, c := range []prometheus.Collector{m.refreshes, m.begins, m.seconds, m.products, m.places} {
		if err := registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *Metrics) refreshed(err error, took time.Duration) {
	result := "ok"
	if err != nil {
		result = "failed"
	}
	m.refreshes.WithLabelValues(result).Inc()
	m.seconds.Observe(took.Seconds())
}

func (m *Metrics) began() { m.begins.Inc() }

func (m *Metrics) held(products, places int) {
	m.products.Set(float64(products))
	m.places.Set(float64(places))
}
