package submit

import (
	"errors"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"hanjul/pkg/kafka"
	"hanjul/pkg/redisconn"
	"hanjul/pkg/waitingroom"
)

// The names of this package's metrics.
const (
	MetricSubmits     = "hanjul_submit_outcomes_total"
	MetricResent      = "hanjul_submit_resent_total"
	MetricStoreFaults = "hanjul_submit_store_faults_total"
	MetricSweepOK     = "hanjul_submit_sweep_ok"
)

// Metrics counts what submit does. Safe for concurrent use.
type Metrics struct {
	submits, resends, storeFaults *prometheus.CounterVec
	sweepOK                       prometheus.Gauge
}

// NewMetrics registers the metrics; an error when they are registered already.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		submits: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: MetricSubmits, Help: "Orders submitted, by what they were answered.",
		}, []string{"outcome"}),
		resends: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: MetricResent, Help: "Bound orders sent again by the sweeper, by what Kafka said.",
		}, []string{"outcome"}),
		storeFaults: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: MetricStoreFaults, Help: "Calls of Redis behind bind that failed and are healed later, by call.",
		}, []string{"call"}),
		sweepOK: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: MetricSweepOK, Help: "1 when the last round of the sweeper had no fault, 0 when Redis or Kafka failed it.",
		}),
	}
	for _, c := range []prometheus.Collector{m.submits, m.resends, m.storeFaults, m.sweepOK} {
		if err := registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *Metrics) outcome(a Answer, err error) { m.submits.WithLabelValues(outcomeLabel(a, err)).Inc() }

func (m *Metrics) resent(outcome kafka.Outcome) { m.resends.WithLabelValues(outcome.String()).Inc() }

func (m *Metrics) storeFailed(call string) { m.storeFaults.WithLabelValues(call).Inc() }

func (m *Metrics) swept(err error) {
	if err != nil {
		m.sweepOK.Set(0)
		return
	}
	m.sweepOK.Set(1)
}

func outcomeLabel(a Answer, err error) string {
	if err == nil {
		if a.Judged() {
			return "judged"
		}
		if !a.Known {
			return "pending"
		}
		return "accepted"
	}
	for _, known := range []struct {
		err   error
		label string
	}{
		{ErrOutcomeUnknown, "unknown"},
		{ErrBusy, "busy"},
		{ErrNotReady, "not_ready"},
		{ErrHalted, "halted"},
		{ErrSoldOut, "sold_out"},
		{ErrSpent, "spent"},
		{ErrKeySpent, "key_spent"},
		{ErrNeedsPass, "needs_pass"},
		{ErrPending, "order_pending"},
		{waitingroom.ErrNotOpen, "not_open"},
		{waitingroom.ErrClosed, "closed"},
		{ErrLapsed, "lapsed"},
		{ErrRevoked, "revoked"},
		{ErrLeft, "left"},
	} {
		if errors.Is(err, known.err) {
			return known.label
		}
	}
	if redisconn.Away(err) != nil {
		return "away"
	}
	return "failed"
}

func errAttr(err error) slog.Attr { return slog.Any("err", err) }
