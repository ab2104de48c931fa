package redisconn_test

import (
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"hanjul/deploy/local/localtest"
	"hanjul/pkg/redisconn"
	"hanjul/pkg/redisconn/redistest"
)

// What is asked over a swallower is done, whether or not it is answered, and what is answered is answered whole.
func TestSwallow(t *testing.T) {
	t.Parallel()
	fixture := localtest.Redis(t)
	swallower := redistest.Swallow(3)
	options := redisconn.OnceOptions(patient(redisconn.Config{Addrs: fixture.Addrs, Mode: redisconn.Mode(fixture.Mode)}))
	options.Dialer = swallower.Dial
	rdb := redisconn.New(options)
	defer func() { _ = rdb.Close() }()

	key := fixture.Prefix + "{n}"
	script := redis.NewScript(`redis.call('INCR', KEYS[1]); return { 'one', { 'two', redis.call('GET', KEYS[1]), false }, 3, { ok = 'four' } }`)
	answered := 0
	for range 60 {
		values, err := script.Eval(t.Context(), rdb, []string{key}).Slice()
		if err != nil {
			continue
		}
		answered++
		if two, ok := values[1].([]any); !ok || len(values) != 4 || values[3] != "four" || two[2] != nil {
			t.Fatalf("answered %v", values)
		}
	}
	direct := redisconn.New(redisconn.ClientOptions(patient(redisconn.Config{Addrs: fixture.Addrs, Mode: redisconn.Mode(fixture.Mode)})))
	defer func() { _ = direct.Close() }()
	done, err := direct.Get(t.Context(), key).Int()
	if err != nil || answered == 0 || answered >= done || swallower.Swallowed() == 0 {
		t.Fatalf("answered %d of %d that were done, %d answers swallowed: %v", answered, done, swallower.Swallowed(), err)
	}

	// A pipeline breaks at the answer that is lost; all of it is done.
	options.Dialer = redistest.Swallow(50).Dial
	pipe := redisconn.New(options)
	defer func() { _ = pipe.Close() }()
	for attempt := 1; ; attempt++ {
		results, _ := pipe.Pipelined(t.Context(), func(p redis.Pipeliner) error {
			for n := range 100 {
				p.Set(t.Context(), key+strconv.Itoa(n), attempt, 0) // one slot, so one node
			}
			return nil
		})
		if first, ok := results[0].(*redis.StatusCmd); ok && first.Val() == "OK" && results[99].Err() != nil {
			if n, err := direct.Get(t.Context(), key+"99").Int(); err != nil || n != attempt {
				t.Fatalf("behind the lost answer: %d of attempt %d, %v", n, attempt, err)
			}
			return
		}
		if attempt == 1000 {
			t.Fatal("no pipeline was broken in its midst")
		}
	}
}
