package sale

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// scrape reads the metrics of several admin ports into one map of families by name. A process that does not answer is left out: it
// was killed, and its counts with it.
func scrape(ctx context.Context, addrs []string) map[string][]*dto.MetricFamily {
	all := map[string][]*dto.MetricFamily{}
	client := &http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	for _, addr := range addrs {
		families, err := scrapeOne(ctx, client, addr)
		if err != nil {
			continue
		}
		for name, f := range families {
			all[name] = append(all[name], f)
		}
	}
	return all
}

func scrapeOne(ctx context.Context, client *http.Client, addr string) (map[string]*dto.MetricFamily, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/metrics", nil)
	if err != nil {
		return nil, fmt.Errorf("metrics of %s: %w", addr, err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("metrics of %s: %w", addr, err)
	}
	defer func() { _ = resp.Body.Close() }() // read to its end below
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("metrics of %s: %w", addr, err)
	}
	return families, nil
}

// total sums a counter or gauge over processes and labels.
func total(all map[string][]*dto.MetricFamily, name string, labels ...string) float64 {
	sum := 0.0
	for _, f := range all[name] {
		for _, m := range f.GetMetric() {
			if hasLabels(m, labels) {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// hasLabels takes pairs of name and value.
func hasLabels(m *dto.Metric, pairs []string) bool {
	for i := 0; i+1 < len(pairs); i += 2 {
		if !slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetName() == pairs[i] && l.GetValue() == pairs[i+1] }) {
			return false
		}
	}
	return true
}

// spread is a histogram summed over processes.
type spread struct {
	count  uint64
	sum    float64
	bounds []float64
	counts []uint64 // cumulative, like bounds
}

// minus is what was observed since an earlier reading.
func (s spread) minus(before spread) spread {
	if len(before.bounds) == 0 || before.count > s.count {
		return s
	}
	d := spread{count: s.count - before.count, sum: s.sum - before.sum, bounds: s.bounds}
	for i := range s.counts {
		d.counts = append(d.counts, s.counts[i]-before.counts[i])
	}
	return d
}

func histogram(all map[string][]*dto.MetricFamily, name string) spread {
	var s spread
	for _, f := range all[name] {
		for _, m := range f.GetMetric() {
			h := m.GetHistogram()
			s.count += h.GetSampleCount()
			s.sum += h.GetSampleSum()
			if s.bounds == nil {
				for _, b := range h.GetBucket() {
					s.bounds = append(s.bounds, b.GetUpperBound())
				}
				s.counts = make([]uint64, len(s.bounds))
			}
			for i, b := range h.GetBucket() {
				if i < len(s.counts) {
					s.counts[i] += b.GetCumulativeCount()
				}
			}
		}
	}
	return s
}

// percentile interpolates within the bucket, as PromQL's histogram_quantile does; NaN without observations.
func (s spread) percentile(p float64) time.Duration {
	if s.count == 0 {
		return -1
	}
	rank := p * float64(s.count)
	low, before := 0.0, uint64(0)
	for i, c := range s.counts {
		if float64(c) >= rank && c > before {
			high := s.bounds[i]
			if math.IsInf(high, 1) {
				return time.Duration(low * float64(time.Second))
			}
			part := (rank - float64(before)) / float64(c-before)
			return time.Duration((low + (high-low)*part) * float64(time.Second))
		}
		low, before = s.bounds[i], c
	}
	return time.Duration(low * float64(time.Second))
}
