package sale

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"time"

	"hanjul/deploy/local"
	"hanjul/pkg/product"
)

// The kinds of faults that a stack with servers of its own can stand.
const (
	KillAPI       = "SIGKILL to a queue-api"
	KillScheduler = "SIGKILL to an admission-scheduler"
	KillConsumer  = "SIGKILL to an order-consumer"
	KillRelay     = "SIGKILL to the relay with the most shards"
	PauseConsumer = "SIGSTOP to an order-consumer until its partitions have moved"
	KillPostgres  = "SIGKILL to Postgres"
	KillRedis     = "SIGKILL to Redis"
	EmptyRedis    = "Redis emptied"
	RestartBroker = "the broker restarted"
)

// Kinds are all of them.
func Kinds() []string {
	return []string{KillAPI, KillScheduler, KillConsumer, KillRelay, PauseConsumer, KillPostgres, KillRedis, EmptyRedis, RestartBroker}
}

// Draw picks some of the kinds; equal seeds pick equal ones.
func Draw(seed uint64, count int) []string {
	kinds := Kinds()
	rng := rand.New(rand.NewPCG(seed, 0x6661756c74))
	rng.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	return slices.Sorted(slices.Values(kinds[:min(count, len(kinds))]))
}

// havoc strikes a stack. Faults of one binary, or of one server, come one after the other; those of different ones overlap freely.
type havoc struct {
	stack *local.Stack
	seed  uint64
	locks map[string]*sync.Mutex
}

// Faults makes the kinds strike this stack, whose servers must be its own and persistent. The seed says which process of several is hit.
// On a Redis Cluster it is the primary of the product's line that is killed, with an odd seed so that its replica lacks the last second.
func Faults(stack *local.Stack, p product.ID, seed uint64, kinds ...string) ([]Fault, error) {
	if stack.Redis() == nil && stack.RedisCluster() == nil || stack.Postgres() == nil || stack.Kafka() == nil && stack.KafkaNode() == nil {
		return nil, fmt.Errorf("faults: the servers are not this stack's own")
	}
	if len(stack.Processes(local.Consumer)) < 2 {
		return nil, fmt.Errorf("faults: two consumers are needed, so that partitions can move")
	}
	h := &havoc{stack: stack, seed: seed, locks: map[string]*sync.Mutex{}}
	for _, name := range []string{local.QueueAPI, local.Scheduler, local.Consumer, "redis", "postgres", "kafka"} {
		h.locks[name] = &sync.Mutex{}
	}
	strikes := map[string]func(context.Context, time.Duration) error{
		KillAPI:       h.killOne(local.QueueAPI),
		KillScheduler: h.killOne(local.Scheduler),
		KillConsumer: h.alone(local.Consumer, func(ctx context.Context, pause time.Duration) error {
			h.joined(ctx)
			return kill(ctx, h.one(local.Consumer), pause)
		}),
		KillRelay:     h.alone(local.Consumer, h.killRelay),
		PauseConsumer: h.alone(local.Consumer, h.pauseConsumer),
		KillPostgres: h.alone("postgres", func(ctx context.Context, pause time.Duration) error {
			stack.Postgres().Kill()
			sleep(ctx, pause)
			return stack.Postgres().Restart(ctx)
		}),
		KillRedis: h.alone("redis", func(ctx context.Context, pause time.Duration) error {
			if cluster := stack.RedisCluster(); cluster != nil {
				return killPrimary(ctx, cluster, slotOf(stack, p), time.Duration(seed%2)*time.Second, pause)
			}
			stack.Redis().Kill()
			sleep(ctx, pause)
			return stack.Redis().Restart(ctx)
		}),
		EmptyRedis: h.alone("redis", func(ctx context.Context, _ time.Duration) error {
			return emptyRedis(ctx, stack.Servers().RedisAddrs())
		}),
		RestartBroker: h.alone("kafka", h.restartBroker),
	}
	var faults []Fault
	for _, kind := range kinds {
		strike, known := strikes[kind]
		if !known {
			return nil, fmt.Errorf("faults: there is no kind %q", kind)
		}
		faults = append(faults, Fault{What: kind, Strike: func(ctx context.Context, pause time.Duration) error {
			if err := strike(ctx, pause); err != nil {
				return fmt.Errorf("%s: %w", kind, err)
			}
			return nil
		}})
	}
	return faults, nil
}

func (h *havoc) alone(name string, strike func(context.Context, time.Duration) error) func(context.Context, time.Duration) error {
	return func(ctx context.Context, pause time.Duration) error {
		h.locks[name].Lock()
		defer h.locks[name].Unlock()
		return strike(ctx, pause)
	}
}

func (h *havoc) one(name string) *local.Process {
	all := h.stack.Processes(name)
	return all[h.seed%uint64(len(all))]
}

func (h *havoc) killOne(name string) func(context.Context, time.Duration) error {
	return h.alone(name, func(ctx context.Context, pause time.Duration) error { return kill(ctx, h.one(name), pause) })
}

func kill(ctx context.Context, p *local.Process, pause time.Duration) error {
	p.Kill()
	sleep(ctx, pause)
	return p.Restart(ctx)
}

// joinWithin bounds the wait for consumers to have joined.
const joinWithin = 20 * time.Second

// joined waits, on the broker inside our own process, until each consumer has its part in the group. That broker keeps a member for ever whose
// connection ends while it waits in a join, and its partitions with it; Apache Kafka lets its session run out.
func (h *havoc) joined(ctx context.Context) {
	if h.stack.KafkaNode() != nil {
		return
	}
	for limit := time.Now().Add(joinWithin); time.Now().Before(limit); {
		sum, all := 0.0, true
		for _, p := range h.stack.Processes(local.Consumer) {
			part := Gauge(ctx, p.AdminAddr(), "hanjul_intake_assigned_partitions")
			sum, all = sum+part, all && part > 0
		}
		if all && sum == local.DefaultPartitions || !sleep(ctx, 100*time.Millisecond) {
			return
		}
	}
}

func (h *havoc) killRelay(ctx context.Context, pause time.Duration) error {
	h.joined(ctx)
	for {
		var owner *local.Process
		most := 0.0
		for _, p := range h.stack.Processes(local.Consumer) {
			if shards := Gauge(ctx, p.AdminAddr(), "hanjul_relay_shards"); shards > most {
				owner, most = p, shards
			}
		}
		if owner != nil {
			return kill(ctx, owner, pause)
		}
		if !sleep(ctx, 100*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// pauseConsumer freezes a consumer until the others have all partitions, so that what it commits when it wakes is late.
func (h *havoc) pauseConsumer(ctx context.Context, pause time.Duration) (err error) {
	frozen := h.one(local.Consumer)
	if err := frozen.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	defer func() {
		if errWake := frozen.Signal(syscall.SIGCONT); err == nil {
			err = errWake
		}
	}()
	for {
		others := 0.0
		for _, p := range h.stack.Processes(local.Consumer) {
			if p != frozen {
				others += Gauge(ctx, p.AdminAddr(), "hanjul_intake_assigned_partitions")
			}
		}
		if others == local.DefaultPartitions {
			sleep(ctx, pause)
			return nil
		}
		if !sleep(ctx, 100*time.Millisecond) {
			return ctx.Err()
		}
	}
}

func (h *havoc) restartBroker(ctx context.Context, pause time.Duration) error {
	if node := h.stack.KafkaNode(); node != nil {
		node.Kill()
		sleep(ctx, pause)
		return node.Restart(ctx)
	}
	if err := h.stack.Kafka().Stop(ctx); err != nil {
		return err
	}
	sleep(ctx, pause)
	return h.stack.Kafka().Restart(ctx)
}

// Gauge reads one metric of one process; 0 when it does not answer.
func Gauge(ctx context.Context, addr, name string) float64 {
	client := &http.Client{Timeout: 2 * time.Second}
	defer client.CloseIdleConnections()
	families, err := scrapeOne(ctx, client, addr)
	if err != nil || families[name] == nil {
		return 0
	}
	sum := 0.0
	for _, m := range families[name].GetMetric() {
		sum += m.GetGauge().GetValue()
	}
	return sum
}

// Quick is the cadence of a sale that takes seconds: the settings of the processes, and those of the product. A group's session of a
// second lets partitions move within a sale; Apache Kafka itself accepts no less than six.
func Quick(apache bool) (map[string]string, Settings) {
	session := "1s"
	if apache {
		session = "6s"
	}
	env := map[string]string{
		"HANJUL_API_POLL_NEAR": "200ms", "HANJUL_API_POLL_MID": "400ms", "HANJUL_API_POLL_FAR": "400ms",
		"HANJUL_CONSUMER_VOID_GRACE": "5s", "HANJUL_CONSUMER_SESSION": session,
	}
	return env, Settings{
		Rate: 60, Burst: 6, Capacity: 20, PassLife: 4 * time.Second, OrderTTL: 20 * time.Second, VoidGrace: 5 * time.Second,
	}
}
