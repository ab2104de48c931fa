package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The ports of servers with fixed ports.
const (
	redisPort    = 16379
	postgresPort = 15432
	// KafkaPort is also the port of a broker that is run alone.
	KafkaPort = 19092
)

// ServersOptions says how the three servers are had.
type ServersOptions struct {
	// Dir gets one folder for each server; "" means temporary ones.
	Dir string
	// Persist makes the state survive a restart; Dir must be named then.
	Persist bool
	// FixedPorts asks for the same ports every time, else free ones are taken.
	FixedPorts bool
	// Private starts all three here, whatever the environment names: for who
	// kills or empties them.
	Private bool
	// KafkaNodes asks for a cluster of so many nodes from jars, whatever Kafka
	// the environment names; 0 means one broker of the usual kind. Its state
	// does not survive a restart of all of it.
	KafkaNodes int
	// Kafka are brokers that run already, host:port; they are neither looked at nor
	// stopped, and may want a login.
	Kafka []string
	// RedisCluster asks for a cluster of six processes, whatever Redis the
	// environment names. Its state does not survive a restart of all of it.
	RedisCluster bool
	// RedisNodeTimeout is that of a Redis Cluster, see RedisClusterOptions.
	RedisNodeTimeout time.Duration
	// Log gets what the servers print; nil drops it.
	Log io.Writer
}

// Servers are one Redis, one Postgres and one Kafka, each given by the
// environment or started here.
type Servers struct {
	given Given

	redis        *Redis
	redisCluster *RedisCluster
	postgres     *Postgres
	kafka        *Kafka
	jars         *KafkaJars
	docker       *KafkaContainer
	cluster      *KafkaCluster

	lines []string
}

// StartServers starts what the environment does not give by address and
// returns when all of it works, versions checked. On an error nothing is left
// running.
func StartServers(ctx context.Context, options ServersOptions) (*Servers, error) {
	if _, err := wished(); err != nil {
		return nil, err
	}
	s := &Servers{given: GivenByEnvironment()}
	if options.Private {
		s.given = Given{Jars: s.given.Jars, Docker: s.given.Docker, RedisKind: s.given.RedisKind}
	}
	if options.RedisCluster {
		s.given.Redis, s.given.RedisKind = nil, kindCluster
	}
	if options.KafkaNodes > 0 {
		s.given.Kafka, s.given.Jars, s.given.Docker = nil, true, false
	}
	dir := func(kind string) string {
		if options.Dir == "" {
			return ""
		}
		return filepath.Join(options.Dir, kind)
	}
	port := func(fixed int) int {
		if options.FixedPorts {
			return fixed
		}
		return 0
	}
	starts := []func() (string, error){
		func() (line string, err error) {
			if len(s.given.Redis) > 0 {
				return describeRedis(ctx, s.given)
			}
			switch s.given.RedisKind {
			case "", kindStandalone:
			case kindCluster:
				s.redisCluster, err = StartRedisCluster(ctx, RedisClusterOptions{
					Dir: dir("redis-cluster"), NodeTimeout: options.RedisNodeTimeout, Log: options.Log,
				})
				if err != nil {
					return "", err
				}
				return fmt.Sprintf("redis     %s (%s, three primaries and their replicas, started here)",
					strings.Join(s.redisCluster.Addrs(), ","), s.redisCluster.Version()), nil
			default:
				return "", fmt.Errorf("HANJUL_REDIS: expected nothing, %q or %q, got %q", kindCluster, kindStandalone, s.given.RedisKind)
			}
			s.redis, err = StartRedis(ctx, RedisOptions{
				Dir: dir("redis"), Persist: options.Persist, Port: port(redisPort), Standalone: s.given.RedisKind == kindStandalone, Log: options.Log,
			})
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("redis     %s (%s, %s, %s)", s.redis.Addr(), s.redis.Version(), redisKind(s.redis.Mode()), whence(s.redis.container)), nil
		},
		func() (line string, err error) {
			if s.given.Postgres != "" {
				return describePostgres(ctx, s.given.Postgres)
			}
			s.postgres, err = StartPostgres(ctx, PostgresOptions{Dir: dir("postgres"), Persist: options.Persist, Port: port(postgresPort), Log: options.Log})
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("postgres  %s (postgres %s, %s)", s.postgres.URL("postgres"), s.postgres.Version(), whence(s.postgres.container)), nil
		},
		func() (line string, err error) {
			if len(options.Kafka) > 0 {
				s.given.Kafka = options.Kafka
				return fmt.Sprintf("kafka     %s (runs already)", strings.Join(options.Kafka, ",")), nil
			}
			if len(s.given.Kafka) > 0 {
				return describeKafka(ctx, s.given.Kafka)
			}
			if s.given.Jars {
				data, err := DataHome()
				if err != nil {
					return "", err
				}
				jars, err := FetchKafka(ctx, KafkaHome(data))
				if err != nil {
					return "", err
				}
				if options.KafkaNodes > 0 {
					s.cluster, err = StartKafkaCluster(ctx, KafkaJarsOptions{Jars: jars, Log: options.Log}, options.KafkaNodes)
					if err != nil {
						return "", err
					}
					return fmt.Sprintf("kafka     %s (%s from jars, a cluster started here)", strings.Join(s.cluster.Addrs(), ","), s.cluster.Version()), nil
				}
				s.jars, err = StartKafkaJars(ctx, KafkaJarsOptions{Jars: jars, Dir: dir("kafka-jars"), Persist: options.Persist, Port: port(KafkaPort), Log: options.Log})
				if err != nil {
					return "", err
				}
				return fmt.Sprintf("kafka     %s (%s from jars, started here)", strings.Join(s.jars.Addrs(), ","), s.jars.Version()), nil
			}
			if s.given.Docker {
				s.docker, err = StartKafkaContainer(ctx, KafkaContainerOptions{Dir: dir("kafka-docker"), Persist: options.Persist, Port: port(KafkaPort), Log: options.Log})
				if err != nil {
					return "", err
				}
				return fmt.Sprintf("kafka     %s (%s, %s)", strings.Join(s.docker.Addrs(), ","), s.docker.Version(), whence(s.docker.container)), nil
			}
			s.kafka, err = StartKafka(ctx, KafkaOptions{Dir: dir("kafka"), Persist: options.Persist, Port: port(KafkaPort), Log: options.Log})
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("kafka     %s (%s, inside this process)", strings.Join(s.kafka.Addrs(), ","), s.kafka.Version()), nil
		},
	}
	s.lines = make([]string, len(starts))
	faults := make([]error, len(starts))
	var group sync.WaitGroup
	for i, start := range starts {
		group.Go(func() { s.lines[i], faults[i] = start() })
	}
	group.Wait()
	if err := errors.Join(faults...); err != nil {
		return nil, errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
	}
	return s, nil
}

// whence says in a line for people where a server of ours runs.
func whence(c *container) string {
	if c == nil {
		return "started here"
	}
	return c.describe()
}

// Describe is one line for each server: address, version, whose it is.
func (s *Servers) Describe() []string { return s.lines }

// RedisAddrs are the nodes, host:port.
func (s *Servers) RedisAddrs() []string {
	switch {
	case s.redis != nil:
		return []string{s.redis.Addr()}
	case s.redisCluster != nil:
		return s.redisCluster.Addrs()
	default:
		return s.given.Redis
	}
}

// RedisMode is "cluster" or "standalone", as the setting REDIS_MODE has it.
func (s *Servers) RedisMode() string { return s.given.RedisMode() }

// PostgresURL is the address of the database to make others from.
func (s *Servers) PostgresURL() string {
	if s.postgres == nil {
		return s.given.Postgres
	}
	return s.postgres.URL("postgres")
}

// KafkaBrokers are host:port.
func (s *Servers) KafkaBrokers() []string {
	switch {
	case s.kafka != nil:
		return s.kafka.Addrs()
	case s.jars != nil:
		return s.jars.Addrs()
	case s.docker != nil:
		return s.docker.Addrs()
	case s.cluster != nil:
		return s.cluster.Addrs()
	default:
		return s.given.Kafka
	}
}

// Env names the three addresses in the form that GivenByEnvironment reads.
func (s *Servers) Env() []string {
	return []string{
		"HANJUL_REDIS_ADDRS=" + strings.Join(s.RedisAddrs(), ","),
		"HANJUL_POSTGRES_URL=" + s.PostgresURL(),
		"HANJUL_KAFKA_BROKERS=" + strings.Join(s.KafkaBrokers(), ","),
	}
}

// Stop ends what was started here: Kafka, Redis, Postgres. Safe to repeat.
func (s *Servers) Stop(ctx context.Context) error {
	var faults []error
	if s.kafka != nil {
		faults = append(faults, s.kafka.Stop(ctx))
	}
	if s.jars != nil {
		faults = append(faults, s.jars.Stop(ctx))
	}
	if s.docker != nil {
		faults = append(faults, s.docker.Stop(ctx))
	}
	if s.cluster != nil {
		faults = append(faults, s.cluster.Stop(ctx))
	}
	if s.redis != nil {
		faults = append(faults, s.redis.Stop(ctx))
	}
	if s.redisCluster != nil {
		faults = append(faults, s.redisCluster.Stop(ctx))
	}
	if s.postgres != nil {
		faults = append(faults, s.postgres.Stop(ctx))
	}
	return errors.Join(faults...)
}

func describePostgres(ctx context.Context, url string) (string, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return "", fmt.Errorf("the postgres given: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	version := conn.PgConn().ParameterStatus("server_version")
	where := fmt.Sprintf("%s:%d/%s", conn.Config().Host, conn.Config().Port, conn.Config().Database)
	if !atLeast(version, 15, 0) {
		return "", fmt.Errorf("postgres given at %s is %s, 15 or newer is needed: %w", where, version, ErrTooOld)
	}
	return fmt.Sprintf("postgres  %s (postgres %s, given)", where, version), nil
}

func describeKafka(ctx context.Context, brokers []string) (string, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		return "", fmt.Errorf("the kafka given: %w", err)
	}
	defer client.Close()
	versions, err := kadm.NewClient(client).ApiVersions(ctx)
	if err != nil {
		return "", fmt.Errorf("kafka given at %s: %w", strings.Join(brokers, ","), err)
	}
	guess := "unknown version"
	versions.Each(func(v kadm.BrokerApiVersions) { guess = v.VersionGuess() })
	return fmt.Sprintf("kafka     %s (kafka %s by its requests, given)", strings.Join(brokers, ","), guess), nil
}
