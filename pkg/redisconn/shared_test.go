package redisconn_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/redis/go-redis/v9"

	"hanjul/deploy/local"
	"hanjul/deploy/local/localtest"
	"hanjul/pkg/redisconn"
)

// count counts its calls for a key and answers what it was told and the count; "bad" is its own error, after it counted.
func count() *redisconn.Script {
	return redisconn.LoadScript(fstest.MapFS{"count.lua": {Data: []byte(`#!lua
local n = redis.call('INCR', KEYS[1])
if ARGV[1] == 'bad' then return redis.error_reply('ERR told to fail') end
return { ARGV[1], n }
`)}}, "count.lua")
}

// gate is what a test does to connections once scripts go over them.
type gate struct {
	hold  atomic.Bool   // their answers wait for open
	wrote chan struct{} // a pipeline was written while answers wait
	open  chan struct{}
	cut   atomic.Int64 // so many answers break off in the middle, and the connection with them
}

type gated struct {
	net.Conn
	*gate
	scripts atomic.Bool
}

func (g *gated) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("evalsha")) {
		g.scripts.Store(true)
		if g.hold.Load() {
			g.wrote <- struct{}{}
		}
	}
	return g.Conn.Write(p)
}

func (g *gated) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	if err != nil || !g.scripts.Load() {
		return n, err
	}
	if g.hold.Load() {
		<-g.open
	}
	if g.cut.Add(-1) >= 0 {
		_ = g.Close()
		if n < 200 {
			return 0, io.EOF
		}
		return n / 2, nil // what is behind it never arrives
	}
	return n, err
}

// shared is a Shared on the suite's Redis, whose connections pass the gate.
func shared(t *testing.T) (*redisconn.Shared, *gate, string) {
	t.Helper()
	fixture := localtest.Redis(t)
	rdb, g := sharedAt(t, redisconn.Config{Addrs: fixture.Addrs, Mode: redisconn.Mode(fixture.Mode)})
	return rdb, g, fixture.Prefix
}

func sharedAt(t *testing.T, c redisconn.Config) (*redisconn.Shared, *gate) {
	t.Helper()
	g := &gate{wrote: make(chan struct{}, 1000), open: make(chan struct{})}
	options := redisconn.ClientOptions(patient(c))
	options.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &gated{Conn: conn, gate: g}, err
	}
	rdb := redisconn.Share(redisconn.New(options))
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb, g
}

// Whoever calls gets the answer to the own call, over all nodes of a cluster, however calls meet in pipelines; a script's error is the
// error of its caller alone.
func TestSharedAnswersTheRightCaller(t *testing.T) {
	t.Parallel()
	rdb, _, prefix := shared(t)
	script := count()
	var wg sync.WaitGroup
	for caller := range 64 {
		wg.Go(func() {
			for n := range 50 {
				key, word := fmt.Sprintf("%s{%d}", prefix, caller), fmt.Sprintf("%d-%d", caller, n)
				if (caller+n)%7 == 0 {
					word = "bad"
				}
				answer, err := script.Run(t.Context(), rdb, []string{key}, word)
				if word == "bad" {
					if err == nil || !strings.Contains(err.Error(), "told to fail") {
						t.Errorf("caller %d, call %d: %v", caller, n, err)
					}
				} else if err != nil || answer.Text(0) != word || answer.Int(1) != int64(n+1) {
					t.Errorf("caller %d, call %d: %v, %v", caller, n, answer, err)
				}
			}
		})
	}
	wg.Wait()
}

// held begins a call whose answer waits, and returns when it is under way.
func held(t *testing.T, rdb *redisconn.Shared, g *gate, script *redisconn.Script, key string) (ended chan error) {
	t.Helper()
	if _, err := script.Run(t.Context(), rdb, []string{key}, "first"); err != nil {
		t.Fatal(err)
	}
	g.hold.Store(true)
	ended = make(chan error, 1)
	go func() {
		_, err := script.Run(context.Background(), rdb, []string{key}, "held")
		ended <- err
	}()
	<-g.wrote
	return ended
}

// release lets the answers go.
func (g *gate) release() {
	g.hold.Store(false)
	close(g.open)
}

// Who gives up while a pipeline is under way is gone at once: a call that waited is never sent, one that was sent has run, and the
// others are served.
func TestSharedCallerGivesUp(t *testing.T) {
	t.Parallel()
	rdb, g, prefix := shared(t)
	script, key := count(), prefix+"{k}"
	under := held(t, rdb, g, script, key)
	ctx, cancel := context.WithCancel(t.Context())
	waiting := make(chan error, 1)
	go func() {
		_, err := script.Run(ctx, rdb, []string{key + "given-up"}, "waits")
		waiting <- err
	}()
	other := make(chan error, 1)
	go func() {
		_, err := script.Run(t.Context(), rdb, []string{key}, "waits too")
		other <- err
	}()
	cancel()
	if err := <-waiting; !errors.Is(err, context.Canceled) {
		t.Fatalf("who gave up: %v", err)
	}
	g.release()
	if err := errors.Join(<-under, <-other); err != nil {
		t.Fatal(err)
	}
	if n, err := rdb.Get(t.Context(), key).Int(); err != nil || n != 3 {
		t.Fatalf("ran %d times: %v", n, err)
	}
	if err := rdb.Get(t.Context(), key+"given-up").Err(); !errors.Is(err, redis.Nil) {
		t.Fatalf("a call that nobody waits for was sent: %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := script.Run(ended, rdb, []string{key}, "late"); !errors.Is(err, context.Canceled) {
		t.Fatalf("a call after the end of its context: %v", err)
	}
}

// A connection breaks in the middle of the answers: who was answered is not asked again, in every mode, the others are, and all get their
// own answer.
func TestSharedLosesAConnectionInThePipeline(t *testing.T) {
	t.Parallel()
	for _, standalone := range []bool{false, true} {
		t.Run(fmt.Sprintf("standalone %v", standalone), func(t *testing.T) {
			t.Parallel()
			server := localtest.RedisWith(t, local.RedisOptions{Standalone: standalone})
			rdb, g := sharedAt(t, redisconn.Config{Addrs: []string{server.Addr()}, Mode: redisconn.Mode(server.Mode())})
			script := count()
			under := held(t, rdb, g, script, "{k}")
			const callers = 100
			answers := make([]int64, callers)
			var wg sync.WaitGroup
			for i := range callers {
				wg.Go(func() {
					word := fmt.Sprintf("word of %d", i)
					answer, err := script.Run(t.Context(), rdb, []string{fmt.Sprintf("{k}%d", i)}, word)
					if err != nil || answer.Text(0) != word {
						t.Errorf("%d: %v, %v", i, answer, err)
						return
					}
					answers[i] = answer.Int(1)
				})
			}
			for deadline := time.Now().Add(time.Minute); rdb.Waiting() < callers; runtime.Gosched() {
				if time.Now().After(deadline) {
					t.Fatalf("%d wait", rdb.Waiting())
				}
			}
			g.cut.Store(2) // of the call that is held, and of those that wait behind it
			g.release()
			if err := <-under; err != nil {
				t.Fatal(err)
			}
			wg.Wait()
			once := 0
			for i, answered := range answers {
				ran, err := rdb.Get(t.Context(), fmt.Sprintf("{k}%d", i)).Int64()
				if err != nil || ran != answered || ran > 3 {
					t.Fatalf("%d ran %d times and was answered %d: %v", i, ran, answered, err)
				}
				if ran == 1 {
					once++
				}
			}
			if once == 0 || once == callers {
				t.Fatalf("%d of %d were asked once", once, callers)
			}
		})
	}
}

// Redis ends connections and forgets its scripts, again and again, while calls come: each gets its own answer, or an error after which it
// may have run.
func TestSharedMeetsKillsAndFlushes(t *testing.T) {
	t.Parallel()
	server := localtest.PrivateRedis(t)
	rdb := redisconn.Share(redisconn.New(redisconn.ClientOptions(patient(redisconn.Config{Addrs: []string{server.Addr()}, Mode: redisconn.Mode(server.Mode())}))))
	defer func() { _ = rdb.Close() }()
	admin := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = admin.Close() }()
	script := count()
	var answered, failed atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for caller := range 32 {
		wg.Go(func() {
			key, last := fmt.Sprintf("{%d}", caller), int64(0)
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				word := fmt.Sprintf("%d-%d", caller, n)
				answer, err := script.Run(t.Context(), rdb, []string{key}, word)
				if err != nil {
					failed.Add(1)
					continue
				}
				if answer.Text(0) != word || answer.Int(1) <= last {
					t.Errorf("%s after %d: %v", word, last, answer)
				}
				last = answer.Int(1)
				answered.Add(1)
			}
		})
	}
	for range 20 {
		if err := errors.Join(admin.ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes").Err(), admin.ScriptFlush(t.Context()).Err()); err != nil {
			t.Fatal(err)
		}
		reached, deadline := answered.Load()+50, time.Now().Add(time.Minute)
		for answered.Load() < reached {
			if time.Now().After(deadline) {
				t.Fatalf("%d answered, %d failed, and no more", answered.Load(), failed.Load())
			}
			runtime.Gosched()
		}
	}
	close(stop)
	wg.Wait()
}

// Closing ends those that wait, lets what is under way come to its end, and leaves no goroutine. Not beside other tests, which have
// goroutines of the same kind.
func TestSharedCloses(t *testing.T) {
	rdb, g, prefix := shared(t)
	script, key := count(), prefix+"{k}"
	under := held(t, rdb, g, script, key)
	// More than may wait: the last of them are turned away.
	const more = 10_100
	outcomes := make(chan error, more)
	for range more {
		go func() {
			_, err := script.Run(context.Background(), rdb, []string{key}, "waits")
			outcomes <- err
		}()
	}
	crowded := 0
	for crowded < more-10_000 {
		if err := <-outcomes; !errors.Is(err, redisconn.ErrCrowded) {
			t.Fatalf("one too many: %v", err)
		}
		crowded++
	}
	closed := make(chan error, 1)
	go func() { closed <- rdb.Close() }()
	for range more - crowded {
		if err := <-outcomes; !errors.Is(err, redis.ErrClosed) {
			t.Fatalf("who waited: %v", err)
		}
	}
	g.release()
	if err := errors.Join(<-under, <-closed); err != nil {
		t.Fatal(err)
	}
	if _, err := script.Run(context.Background(), rdb, []string{key}, "late"); !errors.Is(err, redis.ErrClosed) {
		t.Fatalf("after the end: %v", err)
	}
	stacks, deadline := make([]byte, 1<<20), time.Now().Add(time.Minute)
	for text := "(*Shared).drain"; strings.Contains(text, "(*Shared).drain"); runtime.Gosched() {
		if text = string(stacks[:runtime.Stack(stacks, true)]); time.Now().After(deadline) {
			t.Fatal("a goroutine is left:\n" + text)
		}
	}
}

// A primary dies: calls for its slots go on at the replica that was promoted, those for others never stop.
func TestSharedFindsThePromotedReplica(t *testing.T) {
	t.Parallel()
	cluster := localtest.RedisCluster(t)
	rdb := redisconn.Share(redisconn.New(redisconn.ClientOptions(redisconn.Config{Addrs: cluster.Addrs()})))
	defer func() { _ = rdb.Close() }()
	script := count()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	keys := []string{"{p}", "{a}", "{b}", "{c}", "{d}"}
	for _, key := range keys {
		if _, err := script.Run(ctx, rdb, []string{key}, "before"); err != nil {
			t.Fatal(key, err)
		}
	}
	if _, _, err := cluster.KillPrimary(ctx, "{p}"); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for _, key := range keys {
		wg.Go(func() {
			answer, err := script.Run(ctx, rdb, []string{key}, "after")
			for err != nil && ctx.Err() == nil {
				answer, err = script.Run(ctx, rdb, []string{key}, "after")
			}
			if err != nil || answer.Text(0) != "after" {
				t.Errorf("%s: %v, %v", key, answer, err)
			}
		})
	}
	wg.Wait()
}
