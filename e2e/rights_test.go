package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"hanjul/deploy/local"
	"hanjul/deploy/local/localtest"
	"hanjul/e2e/buyers"
	"hanjul/e2e/sale"
	"hanjul/pkg/product"
)

// given is one right as order-consumer prints it.
type given struct {
	Principal, Kind, Name string
	Operations            []string
}

// guarded is an installation on a broker that forbids what no ACL allows: its settings, one user for each service, and the rights that
// order-consumer asks for.
type guarded struct {
	broker localtest.SecureKafka
	admin  *kadm.Client
	dir    string
	env    map[string]string // Of every process, by full names.
	topics []string          // Orders first.
}

const guardedPassword = "a word of each user's"

// guard names topics and a group that begin with name, makes the users and, as the superuser, the topics.
func guard(t *testing.T, broker localtest.SecureKafka, name string) *guarded {
	t.Helper()
	g := &guarded{broker: broker, admin: broker.Admin(t), dir: binaries(t), env: quick()}
	for _, base := range []string{"orders", "order-events", "orders.dead-letters"} {
		g.topics = append(g.topics, localtest.Topic(t, name+"."+base))
	}
	for setting, value := range broker.Settings {
		g.env["HANJUL_"+setting] = value
	}
	maps.Copy(g.env, map[string]string{
		"HANJUL_KAFKA_SASL": "scram-sha-512", "HANJUL_KAFKA_PASSWORD": guardedPassword, "HANJUL_KAFKA_PARTITIONS": "4",
		"HANJUL_TOPIC_ORDERS": g.topics[0], "HANJUL_TOPIC_EVENTS": g.topics[1], "HANJUL_TOPIC_DEAD_LETTERS": g.topics[2],
		"HANJUL_GROUP": localtest.Topic(t, name+".group"), "HANJUL_LOG_LEVEL": "debug",
	})
	for service, variable := range map[string]string{"queue-api": "API", "admission-scheduler": "SCHEDULER", "order-consumer": "CONSUMER", "audit": "", "topics": ""} {
		user := name + "-" + service
		broker.AddUser(t, user, guardedPassword)
		if variable != "" {
			g.env["HANJUL_"+variable+"_KAFKA_USER"] = user
		}
	}
	return g
}

// run runs a subcommand of order-consumer as one of the users; "" is the superuser.
func (g *guarded) run(t *testing.T, user string, args ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), filepath.Join(g.dir, local.Consumer), args...)
	env := maps.Clone(g.env)
	if env["HANJUL_CONSUMER_KAFKA_USER"] = user; user == "" {
		env["HANJUL_CONSUMER_KAFKA_USER"], env["HANJUL_CONSUMER_KAFKA_SASL"] = g.broker.User, "plain"
		env["HANJUL_KAFKA_PASSWORD"] = g.broker.Password
	}
	for name, value := range env {
		command.Env = append(command.Env, name+"="+value)
	}
	out, err := command.CombinedOutput()
	return string(out), err
}

// rights asks order-consumer for the list.
func (g *guarded) rights(t *testing.T, name string) []given {
	t.Helper()
	out, err := g.run(t, "", "topics", "--rights", "--json", "--principals", "User:"+name+"-")
	var list []given
	if err == nil {
		err = json.Unmarshal([]byte(out), &list)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return list
}

// builder is a right in the words of the admin client.
func (r given) builder(t *testing.T) *kadm.ACLBuilder {
	t.Helper()
	var operations []kadm.ACLOperation
	for _, name := range r.Operations {
		operation, err := kmsg.ParseACLOperation(name)
		if err != nil {
			t.Error(err)
		}
		operations = append(operations, operation)
	}
	acl := kadm.NewACLs().Allow(r.Principal).AllowHosts().Operations(operations...).ResourcePatternType(kadm.ACLPatternLiteral)
	if r.Kind == "group" {
		return acl.Groups(r.Name)
	}
	return acl.Topics(r.Name)
}

// give may be called by any goroutine, as take may.
func (g *guarded) give(t *testing.T, list ...given) {
	t.Helper()
	for _, r := range list {
		results, err := g.admin.CreateACLs(t.Context(), r.builder(t))
		if err != nil {
			t.Error(err)
		}
		for _, result := range results {
			if result.Err != nil {
				t.Error(result.Err)
			}
		}
	}
}

func (g *guarded) take(t *testing.T, list ...given) {
	t.Helper()
	for _, r := range list {
		results, err := g.admin.DeleteACLs(t.Context(), r.builder(t))
		if err != nil {
			t.Error(err)
		}
		for _, result := range results {
			if result.Err != nil || len(result.Deleted) == 0 {
				t.Errorf("%+v is not taken: %v", r, result.Err)
			}
		}
	}
}

// target is the sale's view of the stack, audited by the user who may only audit.
func (g *guarded) target(t *testing.T, stack *local.Stack, name string) sale.Stack {
	t.Helper()
	target, err := sale.Of(stack, false)
	if err != nil {
		t.Fatal(err)
	}
	target.Audit = func(ctx context.Context, args []string, out io.Writer) error {
		command := exec.CommandContext(ctx, filepath.Join(g.dir, local.Consumer), append([]string{"audit"}, args...)...)
		command.Env = append(stack.Env(), "HANJUL_CONSUMER_KAFKA_USER="+name+"-audit") // The later one counts.
		var problems bytes.Buffer
		command.Stdout, command.Stderr = out, &problems
		err := command.Run()
		if problems.Len() > 0 {
			t.Logf("audit: %s", &problems)
		}
		return err
	}
	return target
}

// loss is a right that is taken away for a while, and how the process that needs it says so.
type loss struct {
	given
	log, words string
	late       bool // In the middle of the sale instead of at its beginning.
}

// told waits for words in a log.
func told(t *testing.T, path, words string) bool {
	t.Helper()
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
			return false
		}
		if strings.Contains(string(text), words) {
			return true
		}
		select {
		case <-t.Context().Done():
			return false
		case <-time.After(50 * time.Millisecond):
		}
	}
	return false
}

// TestSalesUnderRights has a production and a staging installation share a broker, each with topics, a group and one user for each service of its
// own, and each user with exactly the rights that `order-consumer topics --rights` asks for. Both hold a sale. During production's three
// rights are taken away and given again: that costs nobody an order, and staging does not notice.
func TestSalesUnderRights(t *testing.T) {
	t.Parallel()
	inKafka(t)
	broker := localtest.GuardedKafka(t)
	t.Run("Production", func(t *testing.T) {
		t.Parallel()
		saleUnderRights(t, guard(t, broker, "production"), "production", true)
	})
	t.Run("Staging", func(t *testing.T) {
		t.Parallel()
		saleUnderRights(t, guard(t, broker, "staging"), "staging", false)
	})
}

func saleUnderRights(t *testing.T, g *guarded, name string, loses bool) {
	t.Helper()
	list := g.rights(t, name)

	// Who may not make topics is told what is missing, and the lines for whoever may.
	out, err := g.run(t, name+"-order-consumer", "topics", "--create")
	if err == nil || !strings.Contains(out, "Create on topic "+g.topics[0]) || !strings.Contains(out, "kafka-topics.sh --bootstrap-server") {
		t.Fatalf("topics --create without the right: %v, %s", err, out)
	}
	if out, err := g.run(t, name+"-order-consumer", "topics", "--check"); err == nil || !strings.Contains(out, "Describe on topic "+g.topics[0]) {
		t.Fatalf("topics --check without the right: %v, %s", err, out)
	}
	g.give(t, list...)
	for _, flag := range []string{"--create", "--check"} {
		if out, err := g.run(t, name+"-topics", "topics", flag); err != nil || !strings.HasSuffix(out, "topics: ok\n") || strings.Contains(out, "warning") {
			t.Fatalf("topics %s: %v, %s", flag, err, out)
		}
	}

	dir := t.TempDir()
	stack := startIn(t, local.StackOptions{DataDir: dir, PerService: 1, Kafka: g.broker.Brokers, Env: g.env})
	var lost []loss
	for _, r := range list {
		l := loss{given: r, log: filepath.Join(dir, "logs", strings.TrimPrefix(r.Principal, "User:"+name+"-")+"-1.log")}
		switch {
		case r.Name == g.topics[0] && strings.HasSuffix(r.Principal, local.QueueAPI), r.Name == g.topics[1] && strings.HasSuffix(r.Principal, local.Consumer):
			l.words = "Write on topic " + r.Name
		case r.Kind == "group" && strings.HasSuffix(r.Principal, local.Consumer):
			l.words, l.late = "Read on group "+r.Name, true
		default:
			continue
		}
		lost = append(lost, l)
	}
	if len(lost) != 3 {
		t.Fatalf("the list lacks a right: %+v", list)
	}
	// lose takes rights away, until it is told that they are missing.
	var away sync.WaitGroup
	lose := func(late bool) {
		for _, l := range lost {
			if loses && l.late == late {
				g.take(t, l.given)
				away.Go(func() {
					if !told(t, l.log, l.words) {
						t.Errorf("nobody says that %q is missing", l.words)
					}
					g.give(t, l.given)
				})
			}
		}
	}

	const people, stock = 60, 20
	var once sync.Once
	lose(false) // The first order meets one of them, and the event of the stock the other.
	report, err := sale.Run(t.Context(), g.target(t, stack, name), sale.Config{
		Product: product.ID(name), Buyers: people, Stock: stock, Seed: 20261101, Settings: settings(), Dir: t.TempDir(), Limit: 4 * time.Minute,
		Progress: func(r buyers.Result) {
			if r.Outcomes[buyers.Confirmed] >= stock/4 {
				once.Do(func() { lose(true) }) // Heartbeats meet it.
			}
		},
	})
	away.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if loses {
		// Answers such as "the outcome is unknown" are right meanwhile; what counts is what came of the orders.
		report.Faults = nil
	}
	show(t, report)
	if report.Buyers.Outcomes[buyers.Lost] > 0 || !report.Buyers.Accounted() {
		t.Errorf("buyers are unaccounted for: %v", report.Buyers.LastWords)
	}
}
