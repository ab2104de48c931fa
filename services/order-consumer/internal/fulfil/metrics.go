package fulfil

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"hanjul/pkg/ledger"
)

type metrics struct {
	commands       *prometheus.CounterVec
	known          *prometheus.CounterVec
	parked         *prometheus.CounterVec
	unknownVersion prometheus.Counter
	batch          prometheus.Histogram
	steps          *prometheus.HistogramVec
	verdict        prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) metrics {
	m := metrics{
		commands: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hanjul_fulfil_commands_total", Help: "Commands judged, by kind, verdict and reason.",
		}, []string{"kind", "verdict", "reason"}),
		known: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hanjul_fulfil_known_total", Help: "Copies of judged or parked commands that changed nothing, by kind.",
		}, []string{"kind"}),
		parked: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hanjul_fulfil_parked_total", Help: "Commands parked as dead letters, by reason.",
		}, []string{"reason"}),
		unknownVersion: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "hanjul_fulfil_unknown_version_total", Help: "Times a command of a later build stopped a partition.",
		}),
		batch: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "hanjul_fulfil_batch_commands", Help: "Commands per judge transaction.",
			Buckets: []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000},
		}),
		steps: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "hanjul_fulfil_step_seconds", Help: "Duration of a step over one batch, failures included.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 14),
		}, []string{"step"}),
		verdict: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "hanjul_fulfil_verdict_seconds", Help: "From a place's record time to its verdict in Redis.",
			Buckets: prometheus.ExponentialBuckets(0.002, 2, 16),
		}),
	}
	if r != nil {
		r.MustRegister(m.commands, m.known, m.parked, m.unknownVersion, m.batch, m.steps, m.verdict)
	}
	return m
}

func (m metrics) step(name string, started time.Time) {
	m.steps.WithLabelValues(name).Observe(time.Since(started).Seconds())
}

func (m metrics) judged(r ledger.Result) {
	m.batch.Observe(float64(len(r.Verdicts)))
	for _, v := range r.Verdicts {
		switch v.Outcome {
		case ledger.Known, ledger.StillParked:
			m.known.WithLabelValues(string(v.Kind)).Inc()
		case ledger.Parked:
			m.parked.WithLabelValues(v.Park).Inc()
		case ledger.Judged:
			verdict, reason := "", ""
			if v.Command != nil {
				verdict = v.Command.Result
			} else if v.Order != nil {
				verdict, reason = string(v.Order.State), string(v.Order.Reason)
			}
			m.commands.WithLabelValues(string(v.Kind), verdict, reason).Inc()
		}
	}
}

// told measures what was new in the batch; a copy's record time says nothing about its order.
func (m metrics) told(inputs []ledger.Input, r ledger.Result, now time.Time) {
	for i, v := range r.Verdicts {
		if v.Outcome == ledger.Judged && v.Order != nil && v.Command == nil {
			m.verdict.Observe(max(0, now.Sub(inputs[i].At).Seconds()))
		}
	}
}
