package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"hanjul/deploy/local"
	"hanjul/deploy/local/localtest"
	"hanjul/pkg/ledger/ledgertest"
)

// setting are settings by their names, without the prefix of all services.
type setting map[string]string

// wrong is one store that is set up wrongly, while all others are well.
type wrong struct {
	name string
	setting
	tells []string // what stands in the log or on stderr: the setting or object, and the remedy
	waits []string // the services that wait instead of ending with 1
	runs  []string // services, and subcommands of order-consumer
}

// TestStoresSetUpWrongly starts each program beside one store that is set up wrongly. It ends with code 1, or waits and is not ready where docs/deploy.md
// says so, and tells what is wrong and what to do.
func TestStoresSetUpWrongly(t *testing.T) {
	t.Parallel()
	dir, redis := binaries(t), localtest.RedisWith(t, local.RedisOptions{Standalone: true})
	good := goodStores(t, redis)
	services, booked := []string{local.QueueAPI, local.Scheduler, local.Consumer}, []string{local.Scheduler, local.Consumer}
	audit, order, check := "audit --product shoe --wait 1s", "orders show 018bcfe5-6800-7a10-8b2c-0d3e5f708192", "topics --check"
	looks := []string{audit, order, "dead-letters list", "outbox stats"}
	for store, list := range map[string][]wrong{
		"redis": wrongRedis(t, redis, slices.Concat(services, []string{audit, order})), "postgres": wrongPostgres(t, booked, looks), "kafka": wrongKafka(t, good, services, check, audit),
	} {
		for _, c := range list {
			for _, run := range c.runs {
				t.Run(store+"/"+c.name+"/"+run, func(t *testing.T) {
					t.Parallel()
					env := maps.Clone(good)
					maps.Copy(env, c.setting)
					p := begin(t, dir, run, env)
					if slices.Contains(c.waits, run) {
						p.waits(t, store, c.tells)
					} else {
						p.ends(t, c.tells)
					}
				})
			}
		}
	}
	// Whoever only looks may do so where nothing can be written.
	for _, run := range looks[1:] {
		t.Run("postgres/ReadOnly/"+run, func(t *testing.T) {
			t.Parallel()
			env := maps.Clone(good)
			env["POSTGRES_URL"] += "&default_transaction_read_only=on"
			p := begin(t, dir, run, env)
			if code := p.code(t); strings.Contains(p.said(), "read-only") || run != order && code != 0 {
				t.Errorf("exit code %d: %s", code, p.said())
			}
		})
	}
}

// goodStores are the settings of stores as they should be.
func goodStores(t *testing.T, redis *local.Redis) setting {
	t.Helper()
	keys, err := local.EnsureKeys(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	env := setting{
		"IDENTITY": "local", "LISTEN": "127.0.0.1:0", "ADMIN_LISTEN": "127.0.0.1:0",
		"REDIS_ADDRS": redis.Addr(), "REDIS_MODE": redis.Mode(), "POSTGRES_URL": ledgertest.URL(t),
		"KAFKA_BROKERS": strings.Join(localtest.Kafka(t), ","), "KAFKA_PARTITIONS": "2", "GROUP": localtest.Topic(t, "group"),
		"TOPIC_ORDERS": localtest.Topic(t, "orders"), "TOPIC_EVENTS": localtest.Topic(t, "events"), "TOPIC_DEAD_LETTERS": localtest.Topic(t, "letters"),
		"KEY_ORDER_FILE": keys.Order, "KEY_USER_FILE": keys.User, "KEY_TICKET_FILE": keys.Ticket, "KEY_COMMAND_FILE": keys.Command, "KEY_PASS_FILE": keys.Pass,
		"PASS_JWKS_FILE": keys.PassJWKS, "OPERATOR_TOKENS_FILE": keys.OperatorTokens,
	}
	makeTopics(t, env)
	return env
}

func makeTopics(t *testing.T, env setting) {
	t.Helper()
	p := begin(t, binaries(t), "topics --create", env)
	if code := p.code(t); code != 0 {
		t.Fatalf("topics --create = %d: %s", code, p.said())
	}
}

func wrongRedis(t *testing.T, alone *local.Redis, all []string) []wrong {
	t.Helper()
	node := localtest.RedisWith(t, local.RedisOptions{})
	replica := localtest.RedisWith(t, local.RedisOptions{ReplicaOf: alone.Addr()})
	at := func(addr, mode string, more setting) setting {
		s := setting{"REDIS_ADDRS": addr, "REDIS_MODE": mode}
		maps.Copy(s, more)
		return s
	}
	return []wrong{
		{"AnOldRedis", at(claims(t, "redis_version:6.2.14"), "standalone", nil), []string{"redis 6.2.14, expected redis 7.0 or newer"}, nil, all},
		{"AnOldValkey", at(claims(t, "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:7.1.9"), "standalone", nil), []string{"valkey 7.1.9, expected valkey 7.2 or newer"}, nil, all},
		{"AReplica", at(replica.Addr(), "standalone", nil), []string{"REDIS_ADDRS", "a read-only replica of " + alone.Addr(), "expected the master"}, nil, all},
		{"NoCluster", at(alone.Addr(), "cluster", nil), []string{"REDIS_MODE is cluster", "expected REDIS_MODE=standalone"}, nil, all},
		{"ACluster", at(node.Addr(), "standalone", nil), []string{"REDIS_MODE is standalone", "expected REDIS_MODE=cluster"}, nil, all},
		{"NoSentinel", at(alone.Addr(), "sentinel", setting{"REDIS_MASTER": "m"}), []string{"REDIS_ADDRS: expected the Sentinels"}, nil, all},
		{"AWrongPasswordOfRedis", at(alone.Addr(), "standalone", setting{"REDIS_USER": "kim", "REDIS_PASSWORD": "wrong"}), []string{"REDIS_USER and REDIS_PASSWORD"}, nil, all},
	}
}

// claims is a server that says of itself what it is told to, and takes every command without doing anything.
func claims(t *testing.T, info string) string {
	t.Helper()
	info += "\r\nredis_mode:standalone\r\nrole:master\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\n"
	var listen net.ListenConfig
	listener, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var talks sync.WaitGroup
	talks.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // closed with the test
			}
			// Who was called is gone before the test is.
			talks.Go(func() { claim(conn, info) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		talks.Wait()
	})
	return listener.Addr().String()
}

func claim(conn net.Conn, info string) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	number := func() (n int, err error) {
		line, err := in.ReadString('\n')
		if err == nil {
			n, err = strconv.Atoi(strings.TrimSpace(line[1:]))
		}
		return n, err
	}
	for {
		words, err := number()
		name := ""
		for i := 0; i < words && err == nil; i++ {
			var size int
			if size, err = number(); err == nil {
				word := make([]byte, size+2)
				if _, err = io.ReadFull(in, word); i == 0 {
					name = strings.ToLower(string(word[:size]))
				}
			}
		}
		if err != nil {
			return
		}
		switch name {
		case "hello":
			_, err = io.WriteString(conn, "-ERR unknown command\r\n") // the older protocol will do
		case "info":
			_, err = fmt.Fprintf(conn, "$%d\r\n%s\r\n", len(info), info)
		case "eval", "evalsha":
			_, err = io.WriteString(conn, "-ERR Error compiling script\r\n")
		default:
			_, err = io.WriteString(conn, "+OK\r\n")
		}
		if err != nil {
			return
		}
	}
}

func wrongPostgres(t *testing.T, booked, looks []string) []wrong {
	t.Helper()
	prepared := func(url string, statements ...string) setting {
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
		var name string
		if err := conn.QueryRow(t.Context(), "SELECT current_database()").Scan(&name); err != nil {
			t.Fatal(err)
		}
		for _, statement := range statements {
			if _, err := conn.Exec(t.Context(), strings.ReplaceAll(statement, "THIS", name)); err != nil {
				t.Fatal(err)
			}
		}
		return setting{"POSTGRES_URL": url}
	}
	all, read := slices.Concat(booked, []string{"migrate"}), slices.Concat(booked, looks)
	// Asked for its version, a function of another schema answers in the place of the server's own.
	old := prepared(ledgertest.URL(t), "CREATE SCHEMA old", `CREATE FUNCTION old.current_setting(name text) RETURNS text LANGUAGE sql AS
$$ SELECT CASE name WHEN 'server_version_num' THEN '140011' ELSE pg_catalog.current_setting(name) END $$`,
		"ALTER DATABASE THIS SET search_path = old, pg_catalog, public")
	readOnly := prepared(ledgertest.URL(t), "ALTER DATABASE THIS SET default_transaction_read_only = on")
	behind := prepared(ledgertest.URL(t), "DELETE FROM goose_db_version WHERE version_id > 2")
	empty := prepared(localtest.Postgres(t))
	list := []wrong{
		{"AnOldPostgres", old, []string{"postgres is too old: version 14.11, needed 15 or newer"}, nil, slices.Concat(all, looks)},
		{"ReadOnly", readOnly, []string{"default_transaction_read_only is on", "expected off"}, booked, all},
		{"NoTables", empty, []string{"schema public has no tables of the ledger", "run `order-consumer migrate`"}, nil, read},
		{"OldTables", behind, []string{"schema public has version 2, needed ", "run `order-consumer migrate`"}, nil, read},
	}
	if server := localtest.PrivatePostgres(t); server.Dir() != "" { // else a container, whose files are out of reach
		if err := os.WriteFile(filepath.Join(server.Dir(), "data", "standby.signal"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := server.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		list = append(list, wrong{"AStandby", setting{"POSTGRES_URL": server.URL("postgres")}, []string{"it is a hot standby", "expected the address of the primary"}, booked, all})
	}
	return list
}

func wrongKafka(t *testing.T, good setting, services []string, check, audit string) []wrong {
	t.Helper()
	checks := slices.Concat(services, []string{check})
	audited := slices.Concat(checks, []string{audit})
	old := localtest.KafkaCluster(t, kfake.MaxVersions(kversion.V0_10_2()))
	fewer := setting{"KAFKA_PARTITIONS": "4"}
	missing := setting{"TOPIC_ORDERS": localtest.Topic(t, "nowhere")}
	secure := localtest.SecureKafkaCluster(t)
	// As Apache Kafka says it; the broker inside the process only hangs up.
	secure.Cluster.ControlKey(int16(kmsg.SASLAuthenticate), func(r kmsg.Request) (kmsg.Response, error, bool) {
		secure.Cluster.KeepControl()
		answer := r.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		answer.ErrorCode, answer.ErrorMessage = kerr.SaslAuthenticationFailed.Code, kmsg.StringPtr("invalid credentials")
		return answer, nil, true
	})
	login := setting(maps.Clone(secure.Settings))
	login["KAFKA_PASSWORD"] = "wrong"
	return []wrong{
		{"TooFewPartitions", fewer, []string{"topic " + good["TOPIC_ORDERS"] + ": has 2 partitions, configured are 4", "set KAFKA_PARTITIONS to what it has"}, nil, checks},
		{"AMissingTopic", missing, []string{"topic " + missing["TOPIC_ORDERS"], "order-consumer topics --create"}, []string{local.Scheduler, local.Consumer}, audited},
		{"AnOldBroker", setting{"KAFKA_BROKERS": strings.Join(old.ListenAddrs(), ",")}, []string{"broker " + old.ListenAddrs()[0], "needed is Kafka 2.1 or later"}, nil, checks},
		{"AWrongPasswordOfKafka", login, []string{"not let in", "check KAFKA_USER"}, nil, audited},
	}
}

// process is a program and what it says.
type process struct {
	command *exec.Cmd
	ended   chan struct{}
	err     error // once it ended

	mu  sync.Mutex
	out bytes.Buffer
}

// begin starts a service, or a subcommand of order-consumer with its arguments.
func begin(t *testing.T, dir, run string, env setting) *process {
	t.Helper()
	name, args := run, []string(nil)
	words := strings.Fields(run)
	switch name {
	case local.QueueAPI, local.Scheduler, local.Consumer:
	default:
		name, args = local.Consumer, words
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	p := &process{command: exec.CommandContext(ctx, filepath.Join(dir, name), args...), ended: make(chan struct{})}
	for setting, value := range env {
		p.command.Env = append(p.command.Env, "HANJUL_"+setting+"="+value)
	}
	p.command.Stdout, p.command.Stderr = p, p
	if err := p.command.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	go func() {
		p.err = p.command.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		cancel()
		<-p.ended
	})
	return p
}

// Write takes what the program says.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

func (p *process) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// lacks is the first of the words that was not said.
func (p *process) lacks(words []string) string {
	// Within a line of JSON.
	said := strings.NewReplacer(`\"`, `"`).Replace(p.said())
	for _, word := range words {
		if !strings.Contains(said, word) {
			return word
		}
	}
	return ""
}

// code waits for the program's end.
func (p *process) code(t *testing.T) int {
	t.Helper()
	<-p.ended
	if exit := (*exec.ExitError)(nil); p.err != nil && !errors.As(p.err, &exit) {
		t.Fatal(p.err)
	}
	return p.command.ProcessState.ExitCode()
}

func (p *process) ends(t *testing.T, tells []string) {
	t.Helper()
	if code := p.code(t); code != 1 {
		t.Errorf("exit code %d, expected 1", code)
	}
	if word := p.lacks(tells); word != "" {
		t.Errorf("%q is not told", word)
	}
	if t.Failed() {
		t.Log(p.said())
	}
}

// waits holds that it lives and says what it waits for, that its metric says so, and that order-consumer is not ready meanwhile.
func (p *process) waits(t *testing.T, store string, tells []string) {
	t.Helper()
	for p.lacks(tells) != "" {
		select {
		case <-p.ended:
			t.Fatalf("exit code %d, expected that it waits and tells %q:\n%s", p.code(t), p.lacks(tells), p.said())
		case <-time.After(20 * time.Millisecond):
		}
	}
	// The admin port is the first to listen.
	port := regexp.MustCompile(`"listening".*"addr":"([^"]+)"`).FindStringSubmatch(p.said())
	if port == nil {
		t.Fatalf("it does not listen:\n%s", p.said())
	}
	if _, metrics := get(t, "http://"+port[1]+"/metrics"); !regexp.MustCompile(`hanjul_store_up\{[^}]*store="` + store + `"[^}]*\} 0\n`).MatchString(metrics) {
		t.Errorf("no metric says that %s is away:\n%s", store, p.said())
	}
	if code, why := get(t, "http://"+port[1]+"/readyz"); filepath.Base(p.command.Path) == local.Consumer && code != http.StatusServiceUnavailable {
		t.Errorf("it is ready (%d): %s", code, why)
	}
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if code := p.code(t); code != 0 {
		t.Errorf("exit code %d of a process that was asked to end, expected 0:\n%s", code, p.said())
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}
