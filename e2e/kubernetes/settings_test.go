package kubernetes

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hanjul/deploy/local"
	"hanjul/deploy/local/localtest"
)

// Where secrets are mounted, and whom to trust.
const (
	secretsFolder = "/etc/hanjul/"
	authority     = "/etc/hanjul-authority/ca.crt"
)

func services() []string { return []string{"queue-api", "admission-scheduler", "order-consumer"} }

// words are the services' words in the names of their settings.
func words() map[string]string {
	return map[string]string{"queue-api": "API", "admission-scheduler": "SCHEDULER", "order-consumer": "CONSUMER"}
}

// setting is what -help tells of one.
type setting struct {
	secret bool
	def    string
}

// binaries builds the three services once.
var binaries = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "hanjul-kubernetes-")
	if err != nil {
		return "", err
	}
	args := []string{"build", "-trimpath", "-o", dir + "/"}
	for _, service := range services() {
		args = append(args, "hanjul/services/"+service)
	}
	command := exec.Command("go", args...)
	command.Env = append(os.Environ(), "CGO_ENABLED=0") // as the Makefile builds, so that builds share a cache
	if text, err := command.CombinedOutput(); err != nil {
		return dir, fmt.Errorf("%w: %s", err, text)
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if os.Getenv("HANJUL_KUSTOMIZE") != "" {
		if dir, _ := binaries(); dir != "" {
			_ = os.RemoveAll(dir)
		}
	}
	os.Exit(code)
}

// run runs a service's binary and returns all that it prints.
func run(t *testing.T, service string, environ []string, args ...string) (string, error) {
	t.Helper()
	dir, err := binaries()
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	command := exec.CommandContext(t.Context(), filepath.Join(dir, service), args...)
	command.Env, command.Stdout, command.Stderr = environ, &said, &said
	err = command.Run()
	return said.String(), err
}

// settingsOf asks a binary which settings it has, by their names without a prefix.
func settingsOf(t *testing.T, service string) map[string]setting {
	t.Helper()
	help, err := run(t, service, nil, "-help")
	if err != nil {
		t.Fatal(err, help)
	}
	entry := regexp.MustCompile(`(?m)^HANJUL_` + words()[service] + `_([A-Z0-9_]+)( \(or .*\))?\n    .*\n    .*; (?:no default|default (.*))$`)
	all := make(map[string]setting)
	for _, e := range entry.FindAllStringSubmatch(help, -1) {
		all[e[1]] = setting{secret: e[2] != "", def: e[3]}
	}
	if len(all) == 0 {
		t.Fatalf("%s -help lists no settings", service)
	}
	return all
}

// configuration is the content of the ConfigMap of that name; the hash behind its name is left out.
func configuration(t *testing.T, all []object, name string) map[string]string {
	t.Helper()
	for _, o := range of(all, "ConfigMap") {
		if o.name() == name || regexp.MustCompile(`^`+name+`-[a-z0-9]{10}$`).MatchString(o.name()) {
			return texts(get[map[string]any](o, "data"))
		}
	}
	t.Fatalf("there is no ConfigMap %s", name)
	return nil
}

// environment is what an object's container has for environment.
func environment(t *testing.T, all []object, o object) map[string]string {
	t.Helper()
	environ := make(map[string]string)
	for _, from := range get[[]any](o.container(), "envFrom") {
		maps.Copy(environ, texts(get[map[string]any](one(t, all, "ConfigMap", get[string](from, "configMapRef.name")), "data")))
	}
	for _, e := range get[[]any](o.container(), "env") {
		environ[get[string](e, "name")] = get[string](e, "value")
	}
	return environ
}

// TestSettingsExist wants every variable to set something: a service's own must be its setting, one for all that of at least one.
// No secret stands in a variable.
func TestSettingsExist(t *testing.T) {
	t.Parallel()
	for _, all := range everyOverlay(t) {
		known := make(map[string]map[string]setting)
		for _, service := range services() {
			known[service] = settingsOf(t, service)
		}
		for _, o := range of(all, "Deployment", "Job") {
			for variable := range environment(t, all, o) {
				name, ours := strings.CutPrefix(variable, "HANJUL_")
				if !ours {
					continue
				}
				asks := services()
				for service, word := range words() {
					if rest, own := strings.CutPrefix(name, word+"_"); own {
						name, asks = rest, []string{service}
					}
				}
				plain, inFile := strings.CutSuffix(name, "_FILE")
				found := false
				for _, service := range asks {
					direct, is := known[service][name]
					file, has := known[service][plain]
					found = found || is && !direct.secret || inFile && has && file.secret
				}
				if !found {
					t.Errorf("%s has %s, which is no setting of %v that may stand here", o, variable, asks)
				}
			}
		}
	}
}

// TestSecretsAreRead wants every file of a mounted secret named by one setting and every path in a setting to be there; and docs/deploy.md to
// say how each secret is made.
func TestSecretsAreRead(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "docs/deploy.md"))
	if err != nil {
		t.Fatal(err)
	}
	documented := make(map[string][]string)
	stores := regexp.MustCompile(`(?m)^stores='(.*)'$`).FindStringSubmatch(string(page))
	if stores == nil {
		t.Fatal("docs/deploy.md does not say which passwords of stores there are")
	}
	for _, line := range strings.Split(strings.ReplaceAll(string(page), "$stores", stores[1]), "\n") {
		if made := regexp.MustCompile(`create secret generic ([a-z-]+)(.*)`).FindStringSubmatch(line); made != nil {
			for _, key := range regexp.MustCompile(`--from-file=([a-z-]+)`).FindAllStringSubmatch(made[2], -1) {
				documented[made[1]] = append(documented[made[1]], key[1])
			}
			slices.Sort(documented[made[1]])
		}
	}
	for _, all := range everyOverlay(t) {
		mounted := make(map[string][]string)
		for _, o := range of(all, "Deployment", "Job") {
			var files, named []string
			for _, volume := range get[[]any](o.pod(), "spec.volumes") {
				secret := get[string](volume, "secret.secretName")
				for _, item := range get[[]any](volume, "secret.items") {
					files = append(files, secretsFolder+get[string](item, "path"))
					mounted[secret] = append(mounted[secret], get[string](item, "key"))
				}
				slices.Sort(mounted[secret])
			}
			for variable, value := range environment(t, all, o) {
				if strings.HasPrefix(value, secretsFolder) {
					named = append(named, value)
					if !strings.HasSuffix(variable, "_FILE") {
						t.Errorf("%s has %s=%s, expected a setting that names a file", o, variable, value)
					}
				}
			}
			slices.Sort(files)
			slices.Sort(named)
			if diff := cmp.Diff(files, named); diff != "" {
				t.Errorf("%s mounts other secrets than its settings name:\n%s", o, diff)
			}
		}
		for _, login := range of(all, "TriggerAuthentication") {
			for _, from := range get[[]any](login, "spec.secretTargetRef") {
				secret := get[string](from, "name")
				mounted[secret] = append(mounted[secret], get[string](from, "key"))
				slices.Sort(mounted[secret])
			}
		}
		for secret := range documented { // what an overlay has no use for need not be made
			if mounted[secret] == nil {
				mounted[secret] = documented[secret]
			}
		}
		if diff := cmp.Diff(documented, mounted); diff != "" {
			t.Errorf("docs/deploy.md makes other secrets than are mounted:\n%s", diff)
		}
	}
}

// TestPortsAreTheDefaults wants the ports of the manifests to be those on which the services listen.
func TestPortsAreTheDefaults(t *testing.T) {
	t.Parallel()
	for _, all := range everyOverlay(t) {
		for _, d := range of(all, "Deployment") {
			var want, got []string
			for name, s := range settingsOf(t, d.name()) {
				if name == "LISTEN" || name == "ADMIN_LISTEN" {
					want = append(want, s.def)
				}
			}
			for _, port := range portsOf(d) {
				got = append(got, fmt.Sprintf(":%v", port))
			}
			slices.Sort(want)
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s has other ports than it listens on:\n%s", d, diff)
			}
		}
	}
}

// TestPartitionsAreTheDefault wants the number of partitions, and with it the most consumers, to be the setting's default.
func TestPartitionsAreTheDefault(t *testing.T) {
	t.Parallel()
	for _, all := range everyOverlay(t) {
		def := settingsOf(t, "order-consumer")["KAFKA_PARTITIONS"].def
		if set := configuration(t, all, "settings")["HANJUL_KAFKA_PARTITIONS"]; set != def {
			t.Errorf("HANJUL_KAFKA_PARTITIONS is %s, its default %s", set, def)
		}
		for _, scaler := range of(all, "ScaledObject") {
			if most := get[float64](scaler, "spec.maxReplicaCount"); fmt.Sprint(most) != def {
				t.Errorf("%s starts up to %v, of which %s have work", scaler, most, def)
			}
		}
	}
}

// madeSecrets runs the lines of docs/deploy.md that make the keys, and returns the folder in which the files then are.
func madeSecrets(t *testing.T) string {
	t.Helper()
	for _, tool := range []string{"bash", "openssl", "basenc"} {
		if _, err := exec.LookPath(tool); err != nil {
			localtest.Need(t, fmt.Errorf("%s, which the lines of docs/deploy.md take: %w", tool, local.ErrMissing))
		}
	}
	page, err := os.ReadFile(filepath.Join(root, "docs/deploy.md"))
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile("(?s)<!-- a test runs these lines -->\n```sh\n(line\\(\\).*?)```").FindStringSubmatch(string(page))
	if lines == nil {
		t.Fatal("docs/deploy.md has no lines that make the keys")
	}
	dir := t.TempDir()
	command := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", lines[1])
	command.Dir = dir
	if said, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	for name, text := range map[string]string{
		"postgres-url":   "postgres://hanjul:secret@127.0.0.1:1/hanjul?sslmode=verify-full\n",
		"redis-password": "one\n", "kafka-password": "two\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	signed := exec.CommandContext(t.Context(), "openssl", "req", "-x509", "-newkey", "ed25519", "-nodes", "-subj", "/CN=stores", "-keyout", "ca.key", "-out", "ca.crt")
	signed.Dir = dir
	if said, err := signed.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	return dir
}

// asMounted is the environment of an object's container in the form of os.Environ, with the files of dir for those that are mounted.
func asMounted(t *testing.T, all []object, o object, dir string) []string {
	t.Helper()
	var environ []string
	for variable, value := range environment(t, all, o) {
		if name, secret := strings.CutPrefix(value, secretsFolder); secret {
			value = filepath.Join(dir, name)
		} else if value == authority {
			value = filepath.Join(dir, "ca.crt")
		}
		environ = append(environ, variable+"="+value)
	}
	return environ
}

// TestServicesTakeTheSettings has each binary read the very environment that its pods get, with the secrets that docs/deploy.md makes, and
// wants the pods to be granted longer than it says that it may take to stop.
func TestServicesTakeTheSettings(t *testing.T) {
	t.Parallel()
	dir := madeSecrets(t)
	for _, all := range everyOverlay(t) {
		for _, d := range of(all, "Deployment") {
			said, err := run(t, d.name(), asMounted(t, all, d, dir), "-validate")
			if err != nil {
				t.Errorf("%s does not take its settings: %v\n%s", d, err, said)
				continue
			}
			told := regexp.MustCompile(`(?m)^stops within ([0-9a-z.]+);`).FindStringSubmatch(said)
			if told == nil {
				t.Fatalf("%s -validate does not say how long it may take to stop:\n%s", d.name(), said)
			}
			stops, err := time.ParseDuration(told[1])
			if err != nil {
				t.Fatal(err)
			}
			granted := time.Duration(get[float64](d.pod(), "spec.terminationGracePeriodSeconds")) * time.Second
			if least := stops + 5*time.Second; granted < least || granted > least+10*time.Second {
				t.Errorf("%s is granted %s to stop and may take %s: expected %s, or little more", d, granted, stops, least)
			}
		}
		for job, args := range map[string][]string{"migrate": {"migrate"}, "topics": {"topics", "--print"}} {
			o := jobOf(t, all, job)
			// The stores are no more there than in the lines above; 2 is the code of wrong settings.
			if said, err := run(t, "order-consumer", asMounted(t, all, o, dir), args...); err != nil && exitCode(err) != 1 {
				t.Errorf("%s does not take its settings: %v\n%s", o, err, said)
			}
		}
	}
}

// jobOf is the job of that name, whatever its version.
func jobOf(t *testing.T, all []object, name string) object {
	t.Helper()
	for _, o := range of(all, "Job") {
		if o.labels()["app.kubernetes.io/name"] == name {
			if args := get[[]any](o.container(), "args"); len(args) == 0 || args[0] != name {
				t.Errorf("%s runs %v", o, args)
			}
			return o
		}
	}
	t.Fatalf("there is no job %s", name)
	return nil
}

func exitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return -1
}
