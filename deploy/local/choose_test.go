package local

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// These tests set the environment of the process and so run alone.

// unset clears every setting about servers.
func unset(t *testing.T) {
	t.Helper()
	for _, name := range []string{
		"HANJUL_SERVERS", "HANJUL_KAFKA", "HANJUL_REDIS_IMAGE", "HANJUL_POSTGRES_IMAGE", "HANJUL_KAFKA_IMAGE",
		"HANJUL_REDIS_ADDRS", "HANJUL_POSTGRES_URL", "HANJUL_KAFKA_BROKERS",
	} {
		t.Setenv(name, "")
	}
}

func TestWishes(t *testing.T) {
	unset(t)
	got, err := wished()
	if want := (wishes{serversAuto, kafkaEmbedded, RedisImage, PostgresImage, KafkaImage}); err != nil || got != want {
		t.Fatalf("without a setting: %+v, %v", got, err)
	}
	for name, value := range map[string]string{
		"HANJUL_SERVERS": "docker", "HANJUL_KAFKA": "jars", "HANJUL_REDIS_IMAGE": "mirror.example:5000/a/redis:8.0-alpine",
		"HANJUL_POSTGRES_IMAGE": "postgres", "HANJUL_KAFKA_IMAGE": "apache/kafka:4.1.1@sha256:0123456789abcdef",
	} {
		t.Setenv(name, value)
	}
	got, err = wished()
	if want := (wishes{serversDocker, kafkaJars, "mirror.example:5000/a/redis:8.0-alpine", "postgres", "apache/kafka:4.1.1@sha256:0123456789abcdef"}); err != nil || got != want {
		t.Fatalf("with every setting: %+v, %v", got, err)
	}
}

func TestEveryWrongWishIsNamedAtOnce(t *testing.T) {
	unset(t)
	wrong := map[string]string{
		"HANJUL_SERVERS": "container", "HANJUL_KAFKA": "jar", "HANJUL_REDIS_IMAGE": "redis 7",
		"HANJUL_POSTGRES_IMAGE": "Postgres:17", "HANJUL_KAFKA_IMAGE": "apache/kafka:",
	}
	for name, value := range wrong {
		t.Setenv(name, value)
	}
	_, errStart := StartServers(t.Context(), ServersOptions{})
	_, errRedis := StartRedis(t.Context(), RedisOptions{})
	_, errPostgres := StartPostgres(t.Context(), PostgresOptions{})
	_, errKafka := StartKafkaContainer(t.Context(), KafkaContainerOptions{})
	var said strings.Builder
	for what, err := range map[string]error{
		"StartServers": errStart, "StartRedis": errRedis, "StartPostgres": errPostgres, "StartKafkaContainer": errKafka,
		"Ensure": Ensure(t.Context(), &said), "Check": Check(t.Context()),
	} {
		for name, value := range wrong {
			if err == nil || !strings.Contains(err.Error(), name+": expected ") || !strings.Contains(err.Error(), `"`+value+`"`) {
				t.Errorf("%s does not name %s=%s: %v", what, name, value, err)
			}
		}
	}
}

// standIn answers like a Docker engine that has one image.
func standIn(t *testing.T, image string) {
	t.Helper()
	version := regexp.MustCompile(`^/v1\.[0-9]+/`)
	answer := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.41")
		w.Header().Set("Content-Type", "application/json")
		switch path := version.ReplaceAllString(r.URL.Path, "/"); path {
		case "/version":
			_, _ = w.Write([]byte(`{"Version": "20.10.24", "ApiVersion": "1.41", "MinAPIVersion": "1.12"}`))
		case "/containers/json":
			_, _ = w.Write([]byte(`[]`))
		case "/_ping", "/volumes", "/images/" + image + "/json":
			_, _ = w.Write([]byte(`{}`))
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"message": "there is no ` + path + `"}`))
		}
	}
	// A socket's path may have 107 characters, which a test's folder may exceed.
	dir, err := os.MkdirTemp("", "engine") //nolint:usetesting // for that reason
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(answer)}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		_ = server.Close()
		_ = <-done // closed, as asked
		_ = os.RemoveAll(dir)
	})
	t.Setenv("DOCKER_HOST", "unix://"+listener.Addr().String())
	t.Setenv(reaperSwitch, "true")
}

// nowhere is an address where no engine answers.
func nowhere(t *testing.T) {
	t.Helper()
	t.Setenv("DOCKER_HOST", "unix://"+filepath.Join(t.TempDir(), "none"))
}

func TestWhereAServerRuns(t *testing.T) {
	here := func() error { return nil }
	missing := func() error { return ErrMissing }
	old := func() error { return ErrTooOld }
	for _, test := range []struct {
		name      string
		servers   string
		look      func() error
		engine    bool
		image     string
		container bool
		want      error
		says      string
	}{
		{name: "the program before the engine", look: here, engine: true, image: RedisImage},
		{name: "the program without an engine", look: here},
		{name: "a container where no program is", look: missing, engine: true, image: RedisImage, container: true},
		{name: "neither", look: missing, want: ErrMissing, says: "a Docker engine that answers"},
		{name: "an engine without the image", look: missing, engine: true, image: "other:1", want: ErrMissing, says: "the image " + RedisImage},
		{name: "a program too old is a fault, not a reason for a container", look: old, engine: true, image: RedisImage, want: ErrTooOld},
		{name: "containers by wish", servers: serversDocker, look: here, engine: true, image: RedisImage, container: true},
		{name: "containers by wish without an engine", servers: serversDocker, look: here, want: ErrMissing, says: "HANJUL_SERVERS=docker"},
		{name: "programs by wish", servers: serversPrograms, look: missing, engine: true, image: RedisImage, want: ErrMissing},
	} {
		t.Run(test.name, func(t *testing.T) {
			unset(t)
			t.Setenv("HANJUL_SERVERS", test.servers)
			if test.engine {
				standIn(t, test.image)
			} else {
				nowhere(t)
			}
			asked, err := wished()
			if err != nil {
				t.Fatal(err)
			}
			e, err := asked.inContainer(t.Context(), asked.redisImage, test.look)
			if e != nil {
				e.close()
			}
			if (e != nil) != test.container || !errors.Is(err, test.want) || test.want == nil && err != nil {
				t.Fatalf("container %v, %v", e != nil, err)
			}
			if test.says != "" && !strings.Contains(err.Error(), test.says) {
				t.Errorf("the error does not say %q: %v", test.says, err)
			}
		})
	}
}

func TestImagesComeBeforeAnInstall(t *testing.T) {
	both := []string{redisPackage, postgresPackage}
	left := func(t *testing.T, servers string) ([]string, error) {
		t.Helper()
		t.Setenv("HANJUL_SERVERS", servers)
		still, _, err := lackingImages(t.Context(), both)
		return still, err
	}
	unset(t)
	standIn(t, RedisImage)
	if got, err := left(t, ""); err != nil || len(got) != 1 || got[0] != postgresPackage {
		t.Fatalf("with one image: %v, %v", got, err)
	}
	if got, err := left(t, serversPrograms); err != nil || len(got) != 2 {
		t.Fatalf("without containers: %v, %v", got, err)
	}
	t.Setenv("HANJUL_SERVERS", "")
	if got, err := ensureImages(t.Context(), &strings.Builder{}, both[:1]); err != nil || len(got) != 0 {
		t.Fatalf("nothing is left to install: %v, %v", got, err)
	}
	t.Setenv("HANJUL_SERVERS", serversDocker)
	if err := Check(t.Context()); !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "the image "+PostgresImage) {
		t.Fatalf("the image that is missing is not named: %v", err)
	}
	t.Setenv("HANJUL_SERVERS", "")
	nowhere(t)
	if got, err := ensureImages(t.Context(), &strings.Builder{}, both); err != nil || len(got) != 2 {
		t.Fatalf("without an engine: %v, %v", got, err)
	}
	t.Setenv("HANJUL_SERVERS", serversDocker)
	if got, err := lacking(t.Context()); err != nil || len(got) != 2 {
		t.Fatalf("programs do not count then: %v, %v", got, err)
	}
	if err := Ensure(t.Context(), &strings.Builder{}); !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "HANJUL_SERVERS=docker") {
		t.Fatalf("containers asked for, and no engine: %v", err)
	}
	t.Setenv("HANJUL_SERVERS", "")
	t.Setenv("HANJUL_KAFKA", kafkaDocker)
	if err := Ensure(t.Context(), &strings.Builder{}); !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "HANJUL_KAFKA=docker") {
		t.Fatalf("Kafka as a container asked for, and no engine: %v", err)
	}
}

func TestEachChoiceOfServersHasAFolder(t *testing.T) {
	t.Parallel()
	for env, want := range map[[2]string]string{
		{}: "", {"auto", "embedded"}: "", {"docker", ""}: "-containers", {"", "jars"}: "-jars", {"docker", "docker"}: "-containers-docker",
	} {
		got := StateSuffix(func(name string) string {
			return map[string]string{"HANJUL_SERVERS": env[0], "HANJUL_KAFKA": env[1]}[name]
		})
		if got != want {
			t.Errorf("%v: %q", env, got)
		}
	}
}

// TestReaperImage compares our name of the reaper's image with the one that
// the library in use would start.
func TestReaperImage(t *testing.T) {
	t.Parallel()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/testcontainers/testcontainers-go").Output()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "internal/config/config.go"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), `"`+reaperImage+`"`) {
		t.Errorf("testcontainers-go has another image than %s", reaperImage)
	}
}

func TestOnlyContainersWithoutAnOwnerAreAbandoned(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	owned, err := newTempDir(parent, "container")
	if err != nil {
		t.Fatal(err)
	}
	defer owned.remove()
	orphan := filepath.Join(parent, "orphan.lock")
	if err := os.WriteFile(orphan, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		"": false, owned.owner.Name(): false, orphan: true, filepath.Join(parent, "gone.lock"): true,
		filepath.Join(parent, "elsewhere", "x.lock"): false, // another machine's or another file system's
	} {
		if got := abandoned(path); got != want {
			t.Errorf("%q: %v", path, got)
		}
	}
}

func TestKafkaSettingsOfAContainer(t *testing.T) {
	t.Parallel()
	env := kafkaEnv("id", "127.0.0.1:15000", KafkaContainerOptions{Partitions: 3, Persist: true})
	for name, want := range map[string]string{
		"CLUSTER_ID":                      "id",
		"KAFKA_ADVERTISED_LISTENERS":      "PLAINTEXT://127.0.0.1:15000,INTERNAL://localhost:9094",
		"KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false", "KAFKA_NUM_PARTITIONS": "3", "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": "1",
		"KAFKA_GROUP_MIN_SESSION_TIMEOUT_MS": "100", "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
	} {
		if env[name] != want {
			t.Errorf("%s is %q, want %q", name, env[name], want)
		}
	}
}

func TestAddressOfTheEnginesHost(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{"localhost": loopback, "172.17.0.1": "172.17.0.1"} {
		if got, err := resolve(t.Context(), host); err != nil || got != want {
			t.Errorf("%s: %s, %v", host, got, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := resolve(ctx, "no-such-host.invalid"); err == nil || !strings.Contains(err.Error(), `"no-such-host.invalid"`) {
		t.Errorf("got %v", err)
	}
}
