package kubernetes

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestJobsCanBeAppliedAgain changes a setting: the pods of the services must be replaced and the jobs left as they are, since a job's pods
// cannot be changed. Another version must have jobs of its own.
func TestJobsCanBeAppliedAgain(t *testing.T) {
	t.Parallel()
	tree := copied(t)
	overlay := filepath.Join(tree, "overlays/production")
	jobs := func() map[string]any {
		all := make(map[string]any)
		for _, job := range of(render(t, overlay), "Job") {
			all[job.name()] = get[any](job, "spec")
		}
		return all
	}
	pods := func() any { return get[any](one(t, render(t, overlay), "Deployment", "order-consumer").pod(), "spec") }

	before, podsBefore := jobs(), pods()
	appendLines(t, filepath.Join(overlay, "settings.env"), "HANJUL_LOG_LEVEL=debug\n")
	if diff := cmp.Diff(before, jobs()); diff != "" {
		t.Errorf("another setting changes jobs, which a cluster refuses:\n%s", diff)
	}
	if cmp.Equal(podsBefore, pods()) {
		t.Error("another setting does not replace the pods")
	}

	file := filepath.Join(overlay, "kustomization.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(regexp.MustCompile(`newTag: [0-9.]+`).ReplaceAllString(string(text), "newTag: 99.0.1")), 0o644); err != nil {
		t.Fatal(err)
	}
	for name := range jobs() {
		if _, was := before[name]; was || !strings.HasSuffix(name, "-99.0.1") {
			t.Errorf("the next version has the job %s", name)
		}
	}
}

// TestWhatServesIsAppliedLast wants the label by which docs/deploy.md holds the services back until the jobs are done: on what makes their
// pods, and on nothing that the jobs need.
func TestWhatServesIsAppliedLast(t *testing.T) {
	t.Parallel()
	for _, all := range everyOverlay(t) {
		for _, o := range all {
			serves := get[string](o, `metadata.labels.app\.kubernetes\.io/component`) == "serve"
			makes := len(of([]object{o}, "Deployment", "HorizontalPodAutoscaler", "ScaledObject")) == 1
			if serves != makes {
				t.Errorf("%s is labelled as what serves: %v", o, serves)
			}
		}
	}
}

// TestOverlaysStayApart wants overlays on the same stores to share no key, topic, group or schema.
func TestOverlaysStayApart(t *testing.T) {
	t.Parallel()
	taken, addresses := make(map[string]string), make(map[string]string)
	for name, all := range everyOverlay(t) {
		settings := configuration(t, all, "settings")
		if diff := cmp.Diff(settings, configuration(t, all, "prepare")); diff != "" {
			t.Errorf("%s prepares under other settings than it serves:\n%s", name, diff)
		}
		for _, own := range []string{
			"HANJUL_KEY_PREFIX", "HANJUL_TOPIC_ORDERS", "HANJUL_TOPIC_EVENTS", "HANJUL_TOPIC_DEAD_LETTERS", "HANJUL_GROUP", "HANJUL_POSTGRES_SCHEMA",
			"HANJUL_REDIS_USER", "HANJUL_KAFKA_USER",
		} {
			value := settings[own]
			if value == "" {
				t.Errorf("%s leaves %s at its default, as others may", name, own)
			}
			if other := taken[value]; other != "" && other != name {
				t.Errorf("%s has %s %s, which is something of %s", name, own, value, other)
			}
			taken[value] = name
		}
		for _, shared := range []string{"HANJUL_REDIS_ADDRS", "HANJUL_KAFKA_BROKERS"} {
			if addresses[shared] != "" && addresses[shared] != settings[shared] {
				t.Errorf("%s has stores of its own, so this test shows nothing", name)
			}
			addresses[shared] = settings[shared]
		}
		space := of(all, "Namespace")[0].name()
		for _, o := range all {
			if o.kind() != "Namespace" && get[string](o, "metadata.namespace") != space {
				t.Errorf("%s is in the namespace %q, expected %s", o, get[string](o, "metadata.namespace"), space)
			}
		}
		if other := taken[space]; other != "" {
			t.Errorf("%s and %s have one namespace", name, other)
		}
		taken[space] = name
	}
}

// TestScalerReadsTheSettings wants KEDA to look at the lag that the consumers have, and to start no more of them than there are partitions.
func TestScalerReadsTheSettings(t *testing.T) {
	t.Parallel()
	all := everyOverlay(t)["production"]
	settings := configuration(t, all, "settings")
	scaler := one(t, all, "ScaledObject", "order-consumer")
	for field, setting := range map[string]string{"bootstrapServers": "KAFKA_BROKERS", "consumerGroup": "GROUP", "topic": "TOPIC_ORDERS"} {
		if got := get[string](scaler, "spec.triggers.0.metadata."+field); got == "" || got != settings["HANJUL_"+setting] {
			t.Errorf("%s reads the lag of %s %q, the setting is %q", scaler, field, got, settings["HANJUL_"+setting])
		}
	}
	if tls := get[string](scaler, "spec.triggers.0.metadata.tls") == "enable"; tls != (settings["HANJUL_KAFKA_TLS"] == "on") {
		t.Errorf("%s speaks TLS: %v, the services HANJUL_KAFKA_TLS=%s", scaler, tls, settings["HANJUL_KAFKA_TLS"])
	}
	if sasl := get[string](scaler, "spec.triggers.0.metadata.sasl"); sasl != strings.NewReplacer("plain", "plaintext", "scram-sha-", "scram_sha").Replace(settings["HANJUL_KAFKA_SASL"]) {
		t.Errorf("%s logs in by %s, the services by %s", scaler, sasl, settings["HANJUL_KAFKA_SASL"])
	}
	one(t, all, "TriggerAuthentication", get[string](scaler, "spec.triggers.0.authenticationRef.name"))
}
