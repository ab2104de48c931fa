package intake

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	lag         *prometheus.GaugeVec
	progress    *prometheus.GaugeVec
	stranded    *prometheus.GaugeVec
	stuck       *prometheus.CounterVec
	redos       *prometheus.CounterVec
	fetchErrors *prometheus.CounterVec
	lost        *prometheus.CounterVec
	commits     *prometheus.CounterVec
	batches     prometheus.Counter
	records     prometheus.Counter
	generations prometheus.Counter
	joinErrors  prometheus.Counter
	assigned    prometheus.Gauge
	unassigned  prometheus.Gauge
}

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	partition := []string{"partition"}
	gauge := func(name, help string) prometheus.GaugeOpts {
		return prometheus.GaugeOpts{Name: name, Help: help}
	}
	counter := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Name: name, Help: help}
	}

	m := &metrics{
		lag:         prometheus.NewGaugeVec(gauge("hanjul_intake_lag_records", "Records of the log that are not handled yet."), partition),
		progress:    prometheus.NewGaugeVec(gauge("hanjul_intake_progress_timestamp_seconds", "When a batch was last handled, or nothing was left."), partition),
		stranded:    prometheus.NewGaugeVec(gauge("hanjul_intake_stranded", "1 while the position is above the end of the log."), partition),
		stuck:       prometheus.NewCounterVec(counter("hanjul_intake_stuck_total", "Generations dropped because a worker with records to handle gave no sign of life."), partition),
		redos:       prometheus.NewCounterVec(counter("hanjul_intake_redos_total", "Batches given to the handler again."), partition),
		fetchErrors: prometheus.NewCounterVec(counter("hanjul_intake_fetch_errors_total", "Fetches that failed."), partition),
		lost:        prometheus.NewCounterVec(counter("hanjul_intake_lost_records_total", "Offsets deleted from the log before they were read."), partition),
		commits:     prometheus.NewCounterVec(counter("hanjul_intake_commits_total", "Offset commits, by result: ok, failed; fenced: refused, since the membership had ended; late: not even tried for that reason."), []string{"result"}),
		batches:     prometheus.NewCounter(counter("hanjul_intake_batches_total", "Batches handled.")),
		records:     prometheus.NewCounter(counter("hanjul_intake_records_total", "Records handled.")),
		generations: prometheus.NewCounter(counter("hanjul_intake_generations_total", "Generations of the group this member had a part in.")),
		joinErrors:  prometheus.NewCounter(counter("hanjul_intake_join_errors_total", "Failed tries to join the group.")),
		assigned:    prometheus.NewGauge(gauge("hanjul_intake_assigned_partitions", "Partitions of this member.")),
		unassigned:  prometheus.NewGauge(gauge("hanjul_intake_unassigned_partitions", "Partitions that no member of the group has.")),
	}

	if registerer == nil {
		return m, nil
	}

	var faults []error
	for _, c := range []prometheus.Collector{
		m.lag, m.progress, m.stranded, m.stuck, m.redos, m.fetchErrors, m.lost, m.commits, m.batches, m.records,
		m.generations, m.joinErrors, m.assigned, m.unassigned,
	} {
		faults = append(faults, registerer.Register(c))
	}

	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("register intake metrics: %w", err)
	}

	return m, nil
}
