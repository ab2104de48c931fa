package replay

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	running prometheus.Gauge
	events  prometheus.Counter
	runs    *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		running: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "hanjul_replay_running",
			Help: "Replays that this process runs in the background.",
		}),
		events: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "hanjul_replay_events_total",
			Help: "Events that this process published again in the background.",
		}),
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hanjul_replay_runs_total",
			Help: "Runs of replays in the background that ended here, by outcome (done, cancelled, stopped: somebody must put something right, given_up: this process was stopped, lost, failed: to be tried again).",
		}, []string{"outcome"}),
	}
	var faults []error
	for _, c := range []prometheus.Collector{m.running, m.events, m.runs} {
		faults = append(faults, registerer.Register(c))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("register replay metrics: %w", err)
	}
	return m, nil
}
