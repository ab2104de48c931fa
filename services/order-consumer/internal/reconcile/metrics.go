package reconcile

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	wanted   *prometheus.CounterVec
	voids    *prometheus.CounterVec
	orders   prometheus.Counter
	written  prometheus.Counter
	losses   prometheus.Counter
	failures prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		wanted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hanjul_reconcile_wanted_total",
			Help: "Looks at wanted orders, by what was found (found, no_row, early, bound, in_line, absent, parked, voided).",
		}, []string{"found"}),
		voids: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hanjul_reconcile_voids_total",
			Help: "Voids sent for orders that nobody could account for, by outcome.",
		}, []string{"outcome"}),
		orders: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "hanjul_reconcile_orders_total",
			Help: "Orders whose status and settle were written again.",
		}),
		written: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "hanjul_reconcile_differences_total",
			Help: "Statuses that were missing or old in Redis and were put right.",
		}),
		losses: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "hanjul_reconcile_losses_total",
			Help: "Lines found under a new incarnation or on another run of a server: Redis lost something.",
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "hanjul_reconcile_failures_total",
			Help: "Rounds that ended early, mostly because a store was away.",
		}),
	}
	if registerer == nil {
		return m, nil
	}
	var faults []error
	for _, c := range []prometheus.Collector{m.wanted, m.voids, m.orders, m.written, m.losses, m.failures} {
		faults = append(faults, registerer.Register(c))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("register reconcile metrics: %w", err)
	}
	return m, nil
}
