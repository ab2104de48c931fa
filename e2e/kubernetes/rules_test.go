package kubernetes

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSelectorsMatch wants every selector to find what it means: a deployment its own pods and nobody else's, a service and a budget one
// deployment, a policy and a monitor pods that are there and ports that they have.
func TestSelectorsMatch(t *testing.T) {
	t.Parallel()
	for _, all := range everyOverlay(t) {
		pods := of(all, "Deployment", "Job")
		for _, o := range of(all, "Deployment", "Service", "PodDisruptionBudget") {
			selector := get[any](o, "spec.selector")
			if o.kind() == "Service" {
				selector = map[string]any{"matchLabels": selector}
			}
			var found []string
			for _, p := range pods {
				if selects(selector, p.labels()) {
					found = append(found, p.String())
				}
			}
			if want := []string{one(t, all, "Deployment", o.name()).String()}; !slices.Equal(found, want) {
				t.Errorf("%s selects the pods of %v, expected %v", o, found, want)
			}
		}
		for _, service := range of(all, "Service") {
			for _, port := range get[[]any](service, "spec.ports") {
				number := portsOf(one(t, all, "Deployment", service.name()))[get[string](port, "targetPort")]
				if number == 0 || number != get[float64](port, "port") {
					t.Errorf("%s has the port %v, its pods have %v", service, port, number)
				}
			}
		}
		for _, policy := range of(all, "NetworkPolicy") {
			selected := 0
			for _, p := range pods {
				if !selects(get[any](policy, "spec.podSelector"), p.labels()) {
					continue
				}
				selected++
				for _, rule := range get[[]any](policy, "spec.ingress") {
					for _, port := range get[[]any](rule, "ports") {
						if name := get[string](port, "port"); portsOf(p)[name] == 0 {
							t.Errorf("%s lets callers to port %q of %s, which it has not", policy, name, p)
						}
					}
				}
			}
			if selected == 0 {
				t.Errorf("%s selects nobody", policy)
			}
		}
		for _, monitor := range of(all, "PodMonitor") {
			for _, p := range pods {
				watched := selects(get[any](monitor, "spec.selector"), p.labels())
				if port := get[string](monitor, "spec.podMetricsEndpoints.0.port"); watched != (p.kind() == "Deployment") || watched && portsOf(p)[port] == 0 {
					t.Errorf("%s watches %s: %v, port %s", monitor, p, watched, port)
				}
			}
		}
	}
}

// portsOf are a container's ports by name.
func portsOf(o object) map[string]float64 {
	all := make(map[string]float64)
	for _, port := range get[[]any](o.container(), "ports") {
		all[get[string](port, "name")] = get[float64](port, "containerPort")
	}
	return all
}

// TestWhoMayReachWhat spells the policies out, so that a change of who reaches what is seen as one.
func TestWhoMayReachWhat(t *testing.T) {
	t.Parallel()
	for _, all := range everyOverlay(t) {
		denied := one(t, all, "NetworkPolicy", "nothing")
		if len(get[map[string]any](denied, "spec.podSelector")) > 0 || len(get[[]any](denied, "spec.policyTypes")) != 2 {
			t.Errorf("%s does not close every pod both ways", denied)
		}
		settings := configuration(t, all, "settings")
		stores := map[string]string{}
		for store, setting := range map[string]string{"redis": "HANJUL_REDIS_ADDRS", "kafka": "HANJUL_KAFKA_BROKERS"} {
			for addr := range strings.SplitSeq(settings[setting], ",") {
				stores[store] = addr[strings.LastIndexByte(addr, ':')+1:]
				if port := get[float64](one(t, all, "NetworkPolicy", store), "spec.egress.0.ports.0.port"); stores[store] != fmt.Sprint(port) {
					t.Errorf("%s has %s, the policy %s opens %v", setting, addr, store, port)
				}
			}
		}
		got := make(map[string][]string)
		for _, policy := range of(all, "NetworkPolicy") {
			if len(get[[]any](policy, "spec.ingress"))+len(get[[]any](policy, "spec.egress")) == 0 {
				continue
			}
			for _, egress := range get[[]any](policy, "spec.egress") {
				if len(get[[]any](egress, "to")) == 0 {
					t.Errorf("%s lets pods out to everywhere", policy)
				}
			}
			for _, p := range of(all, "Deployment", "Job") {
				if selects(get[any](policy, "spec.podSelector"), p.labels()) {
					got[p.labels()["app.kubernetes.io/name"]] = append(got[p.labels()["app.kubernetes.io/name"]], policy.name())
				}
			}
		}
		want := map[string][]string{
			"queue-api":           {"dns", "kafka", "monitoring", "redis", "storefront"},
			"admission-scheduler": {"dns", "kafka", "monitoring", "operators", "postgres", "redis"},
			"order-consumer":      {"dns", "kafka", "monitoring", "postgres", "redis"},
			"migrate":             {"dns", "postgres"},
			"topics":              {"dns", "kafka"},
		}
		for _, names := range got {
			slices.Sort(names)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}

// replicas says who decides how many pods a deployment has, and how few that may be.
func replicas(t *testing.T, all []object, deployment object) (by []string, least float64) {
	t.Helper()
	if n := get[any](deployment, "spec.replicas"); n != nil {
		by, least = append(by, deployment.String()), n.(float64)
	}
	for _, scaler := range of(all, "HorizontalPodAutoscaler", "ScaledObject") {
		if get[string](scaler, "spec.scaleTargetRef.name") == deployment.name() {
			by = append(by, scaler.String())
			least = max(get[float64](scaler, "spec.minReplicas"), get[float64](scaler, "spec.minReplicaCount"))
		}
	}
	return by, least
}

// TestOneDecidesHowMany wants one who says how many: an autoscaler, KEDA's, or the deployment itself. Two would undo each other's work.
func TestOneDecidesHowMany(t *testing.T) {
	t.Parallel()
	for _, all := range everyOverlay(t) {
		for _, d := range of(all, "Deployment") {
			if by, _ := replicas(t, all, d); len(by) != 1 {
				t.Errorf("how many %s there are is said by %v", d, by)
			}
		}
		for _, scaler := range of(all, "HorizontalPodAutoscaler", "ScaledObject") {
			target := one(t, all, get[string](scaler, "spec.scaleTargetRef.kind"), get[string](scaler, "spec.scaleTargetRef.name"))
			if get[string](scaler, "spec.scaleTargetRef.apiVersion") != get[string](target, "apiVersion") {
				t.Errorf("%s has another version of %s", scaler, target)
			}
		}
	}
}

// TestBudgetsAllowAnEviction wants a budget for each deployment, and that a node can be drained when as few as may be are running.
func TestBudgetsAllowAnEviction(t *testing.T) {
	t.Parallel()
	for _, all := range everyOverlay(t) {
		for _, d := range of(all, "Deployment") {
			budget := one(t, all, "PodDisruptionBudget", d.name())
			_, least := replicas(t, all, d)
			if least < 2 {
				t.Errorf("%s may have %v pods, so that an eviction leaves nobody", d, least)
			}
			switch unavailable, available := get[any](budget, "spec.maxUnavailable"), get[any](budget, "spec.minAvailable"); {
			case available == nil && unavailable != nil && unavailable != 0.0 && unavailable != "0%":
			case unavailable == nil && available != nil && available.(float64) < least:
			default:
				t.Errorf("%s allows no eviction of %v pods", budget, least)
			}
		}
	}
}

// TestPodsAreRestricted wants of every pod what the Pod Security Standard "restricted" asks for, and more.
func TestPodsAreRestricted(t *testing.T) {
	t.Parallel()
	for _, all := range everyOverlay(t) {
		for _, o := range of(all, "Deployment", "Job") {
			pod := get[map[string]any](o.pod(), "spec")
			for path, want := range map[string]any{
				"automountServiceAccountToken":                          false,
				"enableServiceLinks":                                    false,
				"serviceAccountName":                                    "hanjul",
				"securityContext.runAsNonRoot":                          true,
				"securityContext.runAsUser":                             65532.0,
				"securityContext.runAsGroup":                            65532.0,
				"securityContext.fsGroup":                               65532.0,
				"securityContext.seccompProfile.type":                   "RuntimeDefault",
				"containers.0.securityContext.allowPrivilegeEscalation": false,
				"containers.0.securityContext.readOnlyRootFilesystem":   true,
				"containers.0.securityContext.capabilities.drop.0":      "ALL",
				"containers.0.securityContext.privileged":               nil,
				"containers.0.securityContext.capabilities.add":         nil,
				"containers.1":                                          nil,
				"initContainers":                                        nil,
				"hostNetwork":                                           nil, "hostPID": nil, "hostIPC": nil,
			} {
				if got := get[any](pod, path); got != want {
					t.Errorf("%s has %s %v, expected %v", o, path, got, want)
				}
			}
			for _, volume := range get[[]any](pod, "volumes") {
				if get[any](volume, "secret") == nil && get[any](volume, "configMap") == nil {
					t.Errorf("%s mounts %v, expected secrets and settings only", o, volume)
				}
			}
			for _, mount := range get[[]any](o.container(), "volumeMounts") {
				if !get[bool](mount, "readOnly") {
					t.Errorf("%s may write to %v", o, mount)
				}
			}
		}
		for _, account := range of(all, "ServiceAccount") {
			if get[any](account, "automountServiceAccountToken") != false {
				t.Errorf("%s gives a token", account)
			}
		}
		if space := of(all, "Namespace")[0]; get[string](space, `metadata.labels.pod-security\.kubernetes\.io/enforce`) != "restricted" {
			t.Errorf("%s does not enforce the standard", space)
		}
	}
}

// TestPodsAreWatched wants of every deployment all three probes on the admin port, with liveness on the path that looks at no store; spread; and a
// rollout that waits.
func TestPodsAreWatched(t *testing.T) {
	t.Parallel()
	for _, all := range everyOverlay(t) {
		for _, d := range of(all, "Deployment") {
			for probe, path := range map[string]string{"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"} {
				get := get[map[string]any](d.container(), probe+".httpGet")
				if get["path"] != path || get["port"] != "admin" {
					t.Errorf("%s: %s asks %v", d, probe, get)
				}
			}
			spread := make(map[string]any)
			for _, c := range get[[]any](d.pod(), "spec.topologySpreadConstraints") {
				spread[get[string](c, "topologyKey")] = get[any](c, "matchLabelKeys")
				if !selects(get[any](c, "labelSelector"), d.labels()) {
					t.Errorf("%s is spread among others: %v", d, c)
				}
			}
			keys := []any{"app.kubernetes.io/name", "pod-template-hash"}
			if diff := cmp.Diff(map[string]any{"kubernetes.io/hostname": keys, "topology.kubernetes.io/zone": keys}, spread); diff != "" {
				t.Errorf("%s is spread otherwise: %s", d, diff)
			}
			if get[float64](d, "spec.minReadySeconds") <= 0 {
				t.Errorf("%s counts a pod that dies soon", d)
			}
		}
	}
}

// TestPodsAreBounded wants requests and limits, memory that is not lent, and a collector that knows the limit: a process that meets it is killed.
func TestPodsAreBounded(t *testing.T) {
	t.Parallel()
	for _, all := range everyOverlay(t) {
		for _, o := range of(all, "Deployment", "Job") {
			requests, limits := texts(get[map[string]any](o.container(), "resources.requests")), texts(get[map[string]any](o.container(), "resources.limits"))
			if requests["memory"] != limits["memory"] || requests["cpu"] == "" || limits["cpu"] == "" {
				t.Errorf("%s requests %v with the limits %v", o, requests, limits)
			}
			limit, err := strconv.ParseFloat(strings.TrimSuffix(limits["memory"], "Mi"), 64)
			if err != nil {
				t.Errorf("%s has the memory %s, expected Mi", o, limits["memory"])
			}
			soft, err := strconv.ParseFloat(strings.TrimSuffix(environment(t, all, o)["GOMEMLIMIT"], "MiB"), 64)
			if o.kind() == "Deployment" && (err != nil || soft < 0.8*limit || soft > 0.95*limit) {
				t.Errorf("%s has GOMEMLIMIT %v MiB of %v Mi, expected 80 to 95 %%", o, soft, limit)
			}
		}
	}
}

// TestImages wants every image by the name of its binary with one tag that is a version, which the jobs bear in their names.
func TestImages(t *testing.T) {
	t.Parallel()
	for _, all := range everyOverlay(t) {
		tags := make(map[string]bool)
		for _, o := range of(all, "Deployment", "Job") {
			service := o.name()
			if o.kind() == "Job" {
				service = "order-consumer"
			}
			image := get[string](o.container(), "image")
			name, tag, _ := strings.Cut(image, ":")
			tags[tag] = true
			if name != "hanjul/"+service || !slices.Contains(services(), service) {
				t.Errorf("%s runs %s", o, image)
			}
			if o.kind() == "Job" && o.name() != o.labels()["app.kubernetes.io/name"]+"-"+tag {
				t.Errorf("%s runs the version %s", o, tag)
			}
		}
		if len(tags) != 1 || !regexp.MustCompile(`^\d+\.\d+\.\d+`).MatchString(slices.Collect(maps.Keys(tags))[0]) {
			t.Errorf("the images have the tags %v, expected one version", tags)
		}
	}
}

// TestPodsFitTheImages wants pods to run as the user that the images are made for, and to give their program arguments and no command.
func TestPodsFitTheImages(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "deploy/docker/Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	user := regexp.MustCompile(`(?m)^USER (\d+):(\d+)$`).FindStringSubmatch(string(text))
	if user == nil {
		t.Fatal("the Dockerfile names no user by number, so that a cluster cannot know that it is not root")
	}
	for _, all := range everyOverlay(t) {
		for _, o := range of(all, "Deployment", "Job") {
			runs := get[map[string]any](o.pod(), "spec.securityContext")
			if got := fmt.Sprint(runs["runAsUser"], ":", runs["runAsGroup"]); got != user[1]+":"+user[2] {
				t.Errorf("%s runs as %s, its image is for %s:%s", o, got, user[1], user[2])
			}
			if command := get[any](o.container(), "command"); command != nil {
				t.Errorf("%s has the command %v, expected that of the image", o, command)
			}
		}
	}
}
