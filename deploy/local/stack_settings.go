package local

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// firstPorts are the ports of the first of each binary where they are fixed;
// the next one's are ten higher.
const (
	apiPort            = 8080
	schedulerPort      = 8081
	apiAdminPort       = 9080
	schedulerAdminPort = 9081
	consumerAdminPort  = 9082
	portStep           = 10
)

// ports gives the addresses for the i-th of a binary.
func (s *Stack) ports(name string, i int) (listen, admin string, err error) {
	if s.options.FixedPorts {
		step := portStep * i
		switch name {
		case QueueAPI:
			return hostPort(apiPort + step), hostPort(apiAdminPort + step), nil
		case Scheduler:
			return hostPort(schedulerPort + step), hostPort(schedulerAdminPort + step), nil
		default:
			return "", hostPort(consumerAdminPort + step), nil
		}
	}
	first, err := freePort()
	if err != nil {
		return "", "", err
	}
	second, err := freePort()
	if err != nil {
		return "", "", err
	}
	return hostPort(first), hostPort(second), nil
}

// settle decides the names of this stack (database, key prefix, topics, group)
// and makes its database.
func (s *Stack) settle(ctx context.Context) error {
	suffix, prefix, database := "", "hanjul:", "hanjul"
	if !s.options.Persist {
		// On servers that are not ours alone every name must be new.
		suffix = fmt.Sprintf("-%x", randomBytes(4))
		prefix = fmt.Sprintf("s%x:", randomBytes(4))
		database = fmt.Sprintf("hanjul_%x", randomBytes(4))
	}
	address := s.servers.given.Postgres
	if address == "" || !s.options.Persist {
		var err error
		if address, err = s.makeDatabase(ctx, database); err != nil {
			return err
		}
	}
	s.settings = map[string]string{
		"HANJUL_IDENTITY":             "local",
		"HANJUL_REDIS_ADDRS":          strings.Join(s.servers.RedisAddrs(), ","),
		"HANJUL_REDIS_MODE":           s.servers.RedisMode(),
		"HANJUL_KEY_PREFIX":           prefix,
		"HANJUL_KAFKA_BROKERS":        strings.Join(s.servers.KafkaBrokers(), ","),
		"HANJUL_KAFKA_PARTITIONS":     fmt.Sprint(DefaultPartitions),
		"HANJUL_KAFKA_REPLICATION":    fmt.Sprint(max(1, s.options.KafkaNodes)),
		"HANJUL_TOPIC_ORDERS":         "orders" + suffix,
		"HANJUL_TOPIC_EVENTS":         "order-events" + suffix,
		"HANJUL_TOPIC_DEAD_LETTERS":   "orders.dead-letters" + suffix,
		"HANJUL_GROUP":                "order-consumer" + suffix,
		"HANJUL_POSTGRES_URL":         address,
		"HANJUL_KEY_ORDER_FILE":       s.keys.Order,
		"HANJUL_KEY_USER_FILE":        s.keys.User,
		"HANJUL_KEY_TICKET_FILE":      s.keys.Ticket,
		"HANJUL_KEY_COMMAND_FILE":     s.keys.Command,
		"HANJUL_KEY_PASS_FILE":        s.keys.Pass,
		"HANJUL_PASS_JWKS_FILE":       s.keys.PassJWKS,
		"HANJUL_OPERATOR_TOKENS_FILE": s.keys.OperatorTokens,
	}
	maps.Copy(s.settings, s.options.Env)
	return nil
}

// withheld names the settings that a binary does not get: the storefront's side
// knows neither the ledger nor the operators, and only it signs passes.
func withheld(name string) []string {
	switch name {
	case QueueAPI:
		return []string{"HANJUL_POSTGRES_URL", "HANJUL_POSTGRES_DIRECT_URL", "HANJUL_OPERATOR_TOKENS_FILE"}
	case Scheduler:
		return []string{"HANJUL_KEY_PASS_FILE"}
	default:
		return []string{"HANJUL_KEY_PASS_FILE", "HANJUL_OPERATOR_TOKENS_FILE"}
	}
}

// env gives a binary's settings as NAME=value, sorted.
func (s *Stack) env(name string) []string {
	hidden := withheld(name)
	var env []string
	for _, key := range slices.Sorted(maps.Keys(s.settings)) {
		if !slices.Contains(hidden, key) {
			env = append(env, key+"="+s.settings[key])
		}
	}
	return env
}

// makeDatabase makes the stack's database where there is none and gives its
// URL. Unless the stack is persistent it is dropped when the stack stops.
func (s *Stack) makeDatabase(ctx context.Context, name string) (string, error) {
	server := s.servers.PostgresURL()
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return "", fmt.Errorf("make the database %s: %w", name, err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var made bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&made); err != nil {
		return "", fmt.Errorf("make the database %s: %w", name, err)
	}
	if !made {
		if _, err := conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()); err != nil {
			return "", fmt.Errorf("make the database %s: %w", name, err)
		}
	}
	if !s.options.Persist {
		s.cleanUp = append(s.cleanUp, func(ctx context.Context) error { return dropDatabase(ctx, server, name) })
	}
	address, err := url.Parse(server)
	if err != nil {
		return "", fmt.Errorf("address of postgres: %w", err)
	}
	address.Path = "/" + name
	return address.String(), nil
}

func dropDatabase(ctx context.Context, server, name string) error {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return fmt.Errorf("drop the database %s: %w", name, err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)"); err != nil {
		return fmt.Errorf("drop the database %s: %w", name, err)
	}
	return nil
}

// APIs are the base URLs of every queue-api, such as "http://127.0.0.1:8080".
func (s *Stack) APIs() []string { return s.urls(QueueAPI) }

// OperatorURLs are the base URLs of every admission-scheduler's operator port.
func (s *Stack) OperatorURLs() []string { return s.urls(Scheduler) }

func (s *Stack) urls(name string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var urls []string
	for _, listen := range s.listens[name] {
		urls = append(urls, "http://"+listen)
	}
	return urls
}

// OperatorToken is the bearer token of the one operator.
func (s *Stack) OperatorToken() (string, error) { return s.keys.OperatorToken() }

// AdminAddrs are the admin ports of every process of a binary, host:port.
func (s *Stack) AdminAddrs(name string) []string {
	var addrs []string
	for _, p := range s.Processes(name) {
		addrs = append(addrs, p.AdminAddr())
	}
	return addrs
}

// Processes are the running ones of a binary (QueueAPI, Scheduler, Consumer).
func (s *Stack) Processes(name string) []*Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.processes[name]), func(p *Process) bool { return p == nil })
}

// Env are the settings of order-consumer, NAME=value, which reaches every store
// and topic: with them a program of its own sees what this stack sees.
func (s *Stack) Env() []string { return s.env(Consumer) }

// Setting is one setting by its full name, such as "HANJUL_KEY_PREFIX"; "" when there is none.
func (s *Stack) Setting(name string) string { return s.settings[name] }

// Keys are the key files.
func (s *Stack) Keys() Keys { return s.keys }

// Dir is the data folder; logs are in its folder logs.
func (s *Stack) Dir() string { return s.dir }

// Servers are the three servers.
func (s *Stack) Servers() *Servers { return s.servers }

// Redis is the Redis started here, nil when one was given or it is a cluster.
func (s *Stack) Redis() *Redis { return s.servers.redis }

// RedisCluster is the Redis Cluster started here, nil when neither the options nor HANJUL_REDIS asked for one.
func (s *Stack) RedisCluster() *RedisCluster { return s.servers.redisCluster }

// Postgres is the Postgres started here, nil when one was given.
func (s *Stack) Postgres() *Postgres { return s.servers.postgres }

// Kafka is the broker inside this process, nil when it is another.
func (s *Stack) Kafka() *Kafka { return s.servers.kafka }

// KafkaNode is the one Apache Kafka node started here, from jars or as a
// container; nil when the broker is another.
func (s *Stack) KafkaNode() KafkaNode {
	switch {
	case s.servers.jars != nil:
		return s.servers.jars
	case s.servers.docker != nil:
		return s.servers.docker
	default:
		return nil
	}
}

// KafkaCluster is the cluster started here, nil when KafkaNodes asked for none.
func (s *Stack) KafkaCluster() *KafkaCluster { return s.servers.cluster }

// Unexpected delivers the error of a binary that ended although nobody asked;
// at most one is kept.
func (s *Stack) Unexpected() <-chan error { return s.unexpected }
