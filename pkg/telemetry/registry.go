package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// NewRegistry returns a registry with the Go runtime, the process and the build (hanjul_build_info, always 1). Each
// process makes one and hands it to the packages that count.
func NewRegistry(service string, build Build) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "hanjul_build_info",
		Help: "What runs here; always 1.",
		ConstLabels: prometheus.Labels{
			"service": service, "version": build.Version, "revision": build.Revision, "go_version": build.Go,
		},
	})
	info.Set(1)
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		info,
	)
	return registry
}

// DurationBuckets are the upper bounds, in seconds, of every histogram of a duration: the same on every hop, so that two
// hops can be compared and added, and fine around the budgets of 20 and 25 ms.
func DurationBuckets() []float64 {
	return []float64{
		0.0005, 0.001, 0.0025, 0.005, 0.01, 0.015, 0.02, 0.025, 0.035, 0.05, 0.075,
		0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60,
	}
}

// SizeBuckets are the upper bounds of every histogram of a batch's size: doublings from 1 to 4096.
func SizeBuckets() []float64 { return prometheus.ExponentialBuckets(1, 2, 13) }
