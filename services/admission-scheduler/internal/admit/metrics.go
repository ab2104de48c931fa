package admit

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"hanjul/pkg/telemetry"
	"hanjul/pkg/waitingroom"
)

// metrics are what this hop tells. Gauges are sums over all products as this scheduler sees them: with several schedulers, take
// the highest and do not add them up.
type metrics struct {
	products, waiting, active prometheus.Gauge

	admitted, lapsed prometheus.Counter
	runs             *prometheus.CounterVec
	freeSlot         prometheus.Histogram
	restores         *prometheus.CounterVec
	settings         *prometheus.CounterVec
	loads            *prometheus.CounterVec
	triggerUp        *prometheus.GaugeVec
	hints            *prometheus.CounterVec
	lagShare         prometheus.Gauge
	readersShort     prometheus.Counter
	stood            *prometheus.CounterVec
	away             *prometheus.CounterVec
	evicted          prometheus.Counter
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		products: prometheus.NewGauge(prometheus.GaugeOpts{Name: "hanjul_admit_products", Help: "Products known."}),
		waiting:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "hanjul_admit_waiting", Help: "People waiting, over all products; the same on every scheduler."}),
		active:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "hanjul_admit_passes_active", Help: "Passes neither used nor lapsed, over all products; the same on every scheduler."}),
		admitted: prometheus.NewCounter(prometheus.CounterOpts{Name: "hanjul_admit_admitted_total", Help: "People let through by this scheduler."}),
		lapsed:   prometheus.NewCounter(prometheus.CounterOpts{Name: "hanjul_admit_lapsed_total", Help: "Passes that lapsed, as found by this scheduler."}),
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hanjul_admit_runs_total",
			Help: "Runs of the admit script by what they came to: admitted, or why nobody was let through (empty, capacity, rate, lag, away, paused, queue_off, closed, not_open, sold_out, stock_unknown, lost, error).",
		}, []string{"outcome"}),
		freeSlot: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "hanjul_admit_free_slot_seconds", Help: "From a slot that became free to the admission that took it, while people were waiting.",
			Buckets: telemetry.DurationBuckets(),
		}),
		restores: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hanjul_admit_restores_total", Help: "Lines begun anew (restore) or continued under a new incarnation (advance), by outcome: done, lost (another scheduler did it), error.",
		}, []string{"kind", "outcome"}),
		settings: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hanjul_admit_settings_total", Help: "Settings copied to Redis, by outcome: written, older (Redis had newer ones).",
		}, []string{"outcome"}),
		loads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hanjul_admit_load_stock_total", Help: "Commands that ask for a product's stock, by what is known of their way into the log: accepted, refused, unknown.",
		}, []string{"outcome"}),
		triggerUp: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "hanjul_admit_trigger_up", Help: "1 while events of a trigger are listened to; 0 while the tick alone moves the lines.",
		}, []string{"trigger"}),
		hints: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hanjul_admit_hints_total", Help: "Events that told that a line may move, by trigger.",
		}, []string{"trigger"}),
		lagShare: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "hanjul_admit_lag_share", Help: "Least share of a rate that is admitted because of what consumers or relays have still to do; 1 while they keep up.",
		}),
		stood: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hanjul_admit_stood_still_seconds_total",
			Help: "Time that did not count for passes and absence, summed over products, by why: halted (orders are halted), deaf (no queue-api was there), held (every unit left awaits a verdict), gap (no scheduler came by).",
		}, []string{"why"}),
		away: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hanjul_admit_away_total",
			Help: "People near the front who were not heard for too long: moved (out of the way, their place kept) or lapsed (not heard in their grace either).",
		}, []string{"move"}),
		evicted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "hanjul_admit_evicted_total", Help: "People whom operators put out of a line or whose unused pass they took, as done by this scheduler.",
		}),
	}
	m.lagShare.Set(1)
	m.readersShort = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "hanjul_admit_readers_short_total", Help: "Looks at a line whose stream of slots was not read because every reader was taken; the tick moves it.",
	})
	for _, why := range []waitingroom.Standstill{waitingroom.StandsHalted, waitingroom.StandsDeaf, waitingroom.StandsHeld, waitingroom.StandsGap} {
		m.stood.WithLabelValues(string(why))
	}
	if r == nil {
		return m, nil
	}
	var faults []error
	for _, c := range []prometheus.Collector{
		m.products, m.waiting, m.active, m.admitted, m.lapsed, m.runs, m.freeSlot, m.restores, m.settings, m.loads, m.stood, m.away,
		m.triggerUp, m.hints, m.lagShare, m.readersShort, m.evicted,
	} {
		faults = append(faults, r.Register(c))
	}
	return m, errors.Join(faults...)
}

// ran counts one run of the admit script.
func (m *metrics) ran(result waitingroom.AdmitResult) {
	m.admitted.Add(float64(result.Admitted))
	m.lapsed.Add(float64(result.Lapsed))
	outcome := string(result.Reason)
	if result.Admitted > 0 {
		outcome = "admitted"
	}
	m.runs.WithLabelValues(outcome).Inc()
	m.away.WithLabelValues("moved").Add(float64(result.Away))
	m.away.WithLabelValues("lapsed").Add(float64(result.AwayLapsed))
	if result.StoodFor != waitingroom.StandsNot {
		m.stood.WithLabelValues(string(result.StoodFor)).Add(result.Stood.Seconds())
	}
	for _, wait := range result.Waits {
		m.freeSlot.Observe(wait.Seconds())
	}
}

func (m *metrics) put(applied bool) {
	outcome := "older"
	if applied {
		outcome = "written"
	}
	m.settings.WithLabelValues(outcome).Inc()
}
