package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hanjul/deploy/local"
	"hanjul/deploy/local/localtest"
	"hanjul/pkg/ledger"
	"hanjul/pkg/ledger/ledgertest"
)

func TestMain(m *testing.M) { localtest.Main(m) }

// world is the servers and keys of one test, and the environment that leads to them.
type world struct {
	keys    local.Keys
	topics  ledger.Topics
	brokers []string
	url     string
	redis   localtest.RedisFixture
}

func newWorld(t *testing.T) *world {
	t.Helper()
	keys, err := local.EnsureKeys(t.TempDir())
	if err != nil {
		t.Fatalf("keys: %v", err)
	}
	return &world{
		keys: keys,
		topics: ledger.Topics{
			Orders: localtest.Topic(t, "orders"), Events: localtest.Topic(t, "order-events"), DeadLetters: localtest.Topic(t, "dead-letters"),
		},
		brokers: localtest.Kafka(t), url: ledgertest.URL(t), redis: localtest.Redis(t),
	}
}

func (w *world) environ(more ...string) []string {
	return append([]string{
		"HANJUL_ADMIN_LISTEN=127.0.0.1:0",
		"HANJUL_REDIS_ADDRS=" + strings.Join(w.redis.Addrs, ","), "HANJUL_KEY_PREFIX=" + w.redis.Prefix,
		"HANJUL_KAFKA_BROKERS=" + strings.Join(w.brokers, ","), "HANJUL_KAFKA_PARTITIONS=3", "HANJUL_GROUP=" + w.topics.Orders,
		"HANJUL_TOPIC_ORDERS=" + w.topics.Orders, "HANJUL_TOPIC_EVENTS=" + w.topics.Events, "HANJUL_TOPIC_DEAD_LETTERS=" + w.topics.DeadLetters,
		"HANJUL_POSTGRES_URL=" + w.url,
		"HANJUL_KEY_USER_FILE=" + w.keys.User, "HANJUL_KEY_COMMAND_FILE=" + w.keys.Command, "HANJUL_PASS_JWKS_FILE=" + w.keys.PassJWKS,
	}, more...)
}

// call runs the binary's main without a process.
func call(t *testing.T, environ []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, complaints bytes.Buffer
	code = run(t.Context(), args, environ, &out, &complaints)
	return code, out.String(), complaints.String()
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		code int
		says []string
	}{
		{[]string{"-help"}, 0, []string{"migrate", "topics", "audit", "HANJUL_CONSUMER_POSTGRES_URL (or HANJUL_CONSUMER_POSTGRES_URL_FILE)", "default order-consumer"}},
		{[]string{"-version"}, 0, []string{"order-consumer dev"}},
		{[]string{"-nonsense"}, 2, []string{"flag provided but not defined"}},
		{[]string{"nonsense"}, 2, []string{`unknown subcommand "nonsense"`}},
		{[]string{"-validate", "nonsense"}, 2, []string{`unexpected argument "nonsense"`}},
		{[]string{"-validate"}, 2, []string{"HANJUL_CONSUMER_REDIS_ADDRS", "HANJUL_CONSUMER_KAFKA_BROKERS", "HANJUL_CONSUMER_POSTGRES_URL", "HANJUL_CONSUMER_KEY_COMMAND", "HANJUL_CONSUMER_PASS_JWKS_FILE"}},
		{nil, 2, []string{"HANJUL_CONSUMER_POSTGRES_URL"}},
		{[]string{"migrate", "-help"}, 0, []string{"Example:"}},
		{[]string{"migrate", "now"}, 2, []string{`unexpected argument "now"`}},
		{[]string{"migrate"}, 2, []string{"HANJUL_CONSUMER_POSTGRES_URL: found nothing"}},
		{[]string{"topics", "-help"}, 0, []string{"Examples:", "--create"}},
		{[]string{"topics"}, 2, []string{"expected one of --create, --check, --print and --rights"}},
		{[]string{"topics", "--create", "--check"}, 2, []string{"expected one of"}},
		{[]string{"topics", "--create"}, 2, []string{"HANJUL_CONSUMER_KAFKA_BROKERS: found nothing"}},
		{[]string{"healthcheck", "-help"}, 0, []string{"order-consumer healthcheck --timeout 5s"}},
		{[]string{"healthcheck", "now"}, 2, []string{`unexpected argument "now"`}},
		{[]string{"audit", "-help"}, 0, []string{"order-consumer audit --product"}},
		{[]string{"audit"}, 2, []string{"--product"}},
		{[]string{"audit", "--product", "p"}, 2, []string{"HANJUL_CONSUMER_POSTGRES_URL"}},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := call(t, nil, c.args...)
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			for _, text := range c.says {
				if !strings.Contains(stdout+stderr, text) {
					t.Errorf("%q is not in\n%s%s", text, stdout, stderr)
				}
			}
		})
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	keys, err := local.EnsureKeys(t.TempDir())
	if err != nil {
		t.Fatalf("keys: %v", err)
	}
	good := []string{
		"HANJUL_REDIS_ADDRS=127.0.0.1:1", "HANJUL_KAFKA_BROKERS=127.0.0.1:1", "HANJUL_POSTGRES_URL=postgres://x:secret-word@127.0.0.1:1/x",
		"HANJUL_KEY_USER_FILE=" + keys.User, "HANJUL_KEY_COMMAND_FILE=" + keys.Command, "HANJUL_PASS_JWKS_FILE=" + keys.PassJWKS,
	}
	if code, stdout, stderr := call(t, good, "-validate"); code != 0 || !strings.HasPrefix(stdout, "settings: ok\nstops within ") {
		t.Errorf("validate = %d, %q, %q", code, stdout, stderr)
	}

	noKeys := filepath.Join(t.TempDir(), "none.json")
	if err := os.WriteFile(noKeys, []byte(`{"keys":[]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	bad := append(slices.Clone(good),
		"HANJUL_CONSUMER_VOID_GRACE=-1s", "HANJUL_CONSUMER_BATCH_RECORDS=0", "HANJUL_CONSUMER_KEY_USER=kid:short", "HANJUL_CONSUMER_NONSENSE=1",
		"HANJUL_CONSUMER_PASS_JWKS_FILE="+noKeys, "HANJUL_KAFKA_REPLICATION=3", "HANJUL_KAFKA_MIN_INSYNC=4")
	code, _, stderr := call(t, bad, "-validate")
	if code != 2 {
		t.Errorf("exit code %d, want 2", code)
	}
	for _, text := range []string{"VOID_GRACE", "BATCH_RECORDS", "KEY_USER", "NONSENSE: no such setting", "KAFKA_MIN_INSYNC: expected at most KAFKA_REPLICATION (3)", "PASS_JWKS_FILE: pass keys"} {
		if !strings.Contains(stderr, text) {
			t.Errorf("%q is not told: %s", text, stderr)
		}
	}
	if strings.Contains(stderr, "secret-word") || strings.Contains(stderr, "kid:short") {
		t.Errorf("a secret was told: %s", stderr)
	}
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	// Only its own setting: a job that migrates is given no keys. Another one of the service's does no harm.
	environ := []string{"HANJUL_CONSUMER_POSTGRES_URL=" + localtest.Postgres(t), "HANJUL_CONSUMER_VOID_GRACE=5s"}
	for range 2 {
		if code, stdout, stderr := call(t, environ, "migrate"); code != 0 || !strings.HasPrefix(stdout, "ledger: version ") {
			t.Fatalf("migrate = %d, %q, %q", code, stdout, stderr)
		}
	}
	environ[0] = "HANJUL_CONSUMER_POSTGRES_URL=postgres://nobody:secret-word@127.0.0.1:1/none"
	if code, _, stderr := call(t, environ, "migrate"); code != 1 || stderr == "" || strings.Contains(stderr, "secret-word") {
		t.Errorf("migrate of nothing = %d, %q", code, stderr)
	}
}

func TestTopics(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	environ := slices.DeleteFunc(w.environ(), func(entry string) bool { return !strings.Contains(entry, "KAFKA") && !strings.Contains(entry, "TOPIC") })
	if code, _, stderr := call(t, environ, "topics", "--check"); code != 1 || !strings.Contains(stderr, w.topics.Events) {
		t.Errorf("check of nothing = %d, %q", code, stderr)
	}
	for _, flag := range []string{"--create", "--create", "--check"} {
		if code, stdout, stderr := call(t, environ, "topics", flag); code != 0 || stdout != "topics: ok\n" {
			t.Errorf("%s = %d, %q, %q", flag, code, stdout, stderr)
		}
	}
	wrong := append(slices.Clone(environ), "HANJUL_CONSUMER_KAFKA_PARTITIONS=4", "HANJUL_CONSUMER_ORDERS_RETENTION=1000h")
	if code, _, stderr := call(t, wrong, "topics", "--check"); code != 1 || !strings.Contains(stderr, "3 partitions") || !strings.Contains(stderr, "retention.ms") {
		t.Errorf("check of other settings = %d, %q", code, stderr)
	}
	fewer := append(slices.Clone(environ), "HANJUL_KAFKA_REPLICATION=3")
	if code, _, stderr := call(t, fewer, "topics", "--check"); code != 1 || !strings.Contains(stderr, "1 replicas, at least 3 are configured") || !strings.Contains(stderr, "min.insync.replicas is 1, must be at least 2") {
		t.Errorf("check of more replicas = %d, %q", code, stderr)
	}
	code, stdout, _ := call(t, environ, "topics", "--print")
	want := "--create --topic " + w.topics.Orders + " --partitions 3 --replication-factor 1 --config cleanup.policy=delete"
	if code != 0 || !strings.Contains(stdout, want) || !strings.Contains(stdout, "retention.ms=604800000") || strings.Count(stdout, "\n") != 3 {
		t.Errorf("print = %d, %q", code, stdout)
	}
	for environ, want := range map[string]string{"HANJUL_KAFKA_MIN_INSYNC=0": "--config min.insync.replicas=2", "HANJUL_KAFKA_MIN_INSYNC=1": "--config min.insync.replicas=1"} {
		_, stdout, _ := call(t, append(fewer, environ), "topics", "--print")
		if strings.Count(stdout, want) != 3 || strings.Count(stdout, "--replication-factor 3") != 3 {
			t.Errorf("print with %s: %q", environ, stdout)
		}
	}
}

// The rights are those of this installation's own topics and group, one line of Kafka's own tool for each.
func TestTopicsRights(t *testing.T) {
	t.Parallel()
	environ := []string{
		"HANJUL_KAFKA_BROKERS=a:1,b:2", "HANJUL_TOPIC_ORDERS=s.orders", "HANJUL_TOPIC_EVENTS=s.events", "HANJUL_TOPIC_DEAD_LETTERS=s.letters",
		"HANJUL_GROUP=s.group", "HANJUL_REPLAY_TOPICS=s.again",
	}
	code, stdout, stderr := call(t, environ, "topics", "--rights", "--principals", "User:s-")
	const begin = "kafka-acls.sh --bootstrap-server a:1,b:2 --add --allow-principal User:s-"
	for _, line := range []string{
		"queue-api --operation Write --operation DescribeConfigs --topic s.orders",
		"admission-scheduler --operation Write --operation DescribeConfigs --topic s.orders", "admission-scheduler --operation Describe --group s.group",
		"order-consumer --operation Read --operation Write --operation DescribeConfigs --topic s.orders",
		"order-consumer --operation Write --operation DescribeConfigs --topic s.events",
		"order-consumer --operation Write --operation DescribeConfigs --topic s.letters",
		"order-consumer --operation Write --operation DescribeConfigs --topic s.again",
		"order-consumer --operation Read --group s.group",
		"audit --operation Read --topic s.orders", "audit --operation Read --topic s.events", "audit --operation Describe --group s.group",
		"topics --operation Create --operation Describe --operation DescribeConfigs --topic s.events",
	} {
		if !strings.Contains(stdout, begin+line+"\n") {
			t.Errorf("%q is not in\n%s", begin+line, stdout)
		}
	}
	if code != 0 || strings.Count(stdout, "\n") != 14 || stderr != "" {
		t.Errorf("rights = %d, %q, %q", code, stdout, stderr)
	}
	login := append(environ, "HANJUL_KAFKA_SASL=scram-sha-512", "HANJUL_KAFKA_USER=x", "HANJUL_KAFKA_PASSWORD=y")
	for _, flag := range []string{"--rights", "--print"} {
		if _, stdout, _ := call(t, login, "topics", flag); !strings.Contains(stdout, "--bootstrap-server a:1,b:2 --command-config client.properties --") {
			t.Errorf("%s names no file with a login:\n%s", flag, stdout)
		}
	}
	if code, _, stderr := call(t, environ, "topics", "--print", "--json"); code != 2 || !strings.Contains(stderr, "only beside --rights") {
		t.Errorf("print = %d, %q", code, stderr)
	}
}

// A server that is set up wrongly ends the process with a clear line, before anything is consumed.
func TestServeRefusesAnOldSchema(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.url = localtest.Postgres(t)
	code, _, stderr := call(t, w.environ(), []string{}...)
	if code != 1 || !strings.Contains(stderr, "order-consumer migrate") {
		t.Errorf("serve = %d, %q", code, stderr)
	}
}

// A broker that we do not trust, or that does not let us in, is no broker that is away.
func TestServeRefusesAWrongLogin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	settings := localtest.SecureKafkaCluster(t).Settings
	stranger, err := local.NewAuthority(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	settings["KAFKA_CA_FILE"] = stranger.File()
	environ := w.environ()
	for name, value := range settings {
		environ = append(environ, "HANJUL_CONSUMER_"+name+"="+value) // Before those of every service.
	}
	code, _, stderr := call(t, environ)
	if code != 1 || !strings.Contains(stderr, "not let in") || !strings.Contains(stderr, "check KAFKA_CA_FILE") || strings.Contains(stderr, settings["KAFKA_PASSWORD"]) {
		t.Errorf("serve = %d, %q", code, stderr)
	}
}

// One that is away is waited for, and the process can be stopped meanwhile.
func TestServeWaitsForServers(t *testing.T) {
	t.Parallel()
	w := newWorld(t) // Its topics are missing.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	logs := &logWatch{want: "a server does not answer yet", seen: make(chan struct{})}
	done := make(chan int, 1)
	go func() { done <- run(ctx, nil, w.environ(), logs, logs) }()
	<-logs.seen
	cancel()
	if code := <-done; code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

// logWatch is a log in which one line is waited for.
type logWatch struct {
	want string
	seen chan struct{}
	done bool
}

// Write is called by one logger, which holds a lock.
func (l *logWatch) Write(b []byte) (int, error) {
	if !l.done && bytes.Contains(b, []byte(l.want)) {
		l.done = true
		close(l.seen)
	}
	return len(b), nil
}
