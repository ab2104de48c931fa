package redisconn_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/redis/go-redis/v9"

	"hanjul/deploy/local/localtest"
	"hanjul/pkg/redisconn"
)

func TestMain(m *testing.M) { localtest.Main(m) }

func TestValidate(t *testing.T) {
	t.Parallel()
	for _, c := range []redisconn.Config{
		{},
		{Addrs: []string{"a:1", "b:1"}, Mode: redisconn.Standalone},
		{Addrs: []string{"a:1"}, Mode: redisconn.Sentinel},
		{Addrs: []string{"a:1"}, Master: "m"},
		{Addrs: []string{"a:1"}, Mode: "many"},
		{Addrs: []string{"a:1"}, Timeout: -1},
		{Addrs: []string{"a:1"}, PoolSize: -1},
	} {
		if c.Validate() == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}

// Admissions are sent at most once: neither by the retries nor by the redirects of a cluster client.
func TestOnceOptions(t *testing.T) {
	t.Parallel()
	o := redisconn.OnceOptions(redisconn.Config{Addrs: []string{"a:1"}})
	if o.MaxRetries != -1 || o.MaxRedirects != -1 || !o.ContextTimeoutEnabled || !o.IsClusterMode {
		t.Fatalf("options: %+v", o)
	}
}

// An answer that does not have the form its reader expects is a fault, told once, whichever field it is.
func TestAnswer(t *testing.T) {
	t.Parallel()
	fixture := localtest.Redis(t)
	rdb := redisconn.New(redisconn.ClientOptions(redisconn.Config{Addrs: fixture.Addrs, Mode: redisconn.Mode(fixture.Mode), Timeout: 20 * time.Second}))
	defer func() { _ = rdb.Close() }()
	files := fstest.MapFS{"form.lua": {Data: []byte("#!lua\nreturn {'9007199254740991', 7, false, {'a', '0.5'}, 'x'}")}}
	script := redisconn.LoadScript(files, "form.lua")
	keys := []string{fixture.Prefix + "k"}
	read := func() redisconn.Answer {
		t.Helper()
		a, err := script.Run(t.Context(), rdb, keys)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	a := read()
	if a.Len() != 5 || a.Int(0) != 9007199254740991 || a.Int(1) != 7 || a.Int(2) != 0 || a.Text(2) != "" ||
		a.List(3).Text(0) != "a" || a.List(3).Float(1) != 0.5 || a.Err() != nil {
		t.Fatalf("answer: %+v, %v", a, a.Err())
	}
	for name, misread := range map[string]func(redisconn.Answer){
		"IntOfText":   func(a redisconn.Answer) { a.Int(4) },
		"FloatOfText": func(a redisconn.Answer) { a.Float(4) },
		"TextOfList":  func(a redisconn.Answer) { a.Text(3) },
		"ListOfText":  func(a redisconn.Answer) { a.List(4).Text(0) },
		"PastTheEnd":  func(a redisconn.Answer) { a.Text(5) },
		"InAList":     func(a redisconn.Answer) { a.List(3).Int(0) },
	} {
		a := read()
		misread(a)
		if a.Err() == nil {
			t.Errorf("%s: no fault", name)
		}
	}
	wrong := redisconn.LoadScript(fstest.MapFS{"wrong.lua": {Data: []byte("#!lua\nreturn redis.error_reply('ERR no')")}}, "wrong.lua")
	if _, err := wrong.Run(t.Context(), rdb, keys); err == nil {
		t.Fatal("an error of the script is no error")
	}
	if _, err := wrong.RunMany(t.Context(), rdb, []redisconn.Call{{Keys: keys}}); err == nil {
		t.Fatal("an error of the script is no error in a pipeline")
	}
}

// A request ends with its own deadline, not with the connection's, also when Redis has taken the connection and stands still; and
// whoever has to wait for a connection is told so, instead of joining a line that only grows (hazard R15).
func TestRequestsEndWithTheirContext(t *testing.T) {
	t.Parallel()
	server := localtest.PrivateRedis(t)
	client := func(c redisconn.Config) redis.UniversalClient {
		c.Addrs, c.Mode = []string{server.Addr()}, redisconn.Mode(server.Mode())
		rdb := redisconn.New(redisconn.ClientOptions(c))
		t.Cleanup(func() { _ = rdb.Close() })
		if err := rdb.Get(t.Context(), "x").Err(); !errors.Is(err, redis.Nil) { // it knows the cluster, and has a connection
			t.Fatal(err)
		}
		return rdb
	}
	patient := client(redisconn.Config{Timeout: time.Hour})
	narrow := client(redisconn.Config{Timeout: 50 * time.Millisecond, PoolSize: 1})
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := patient.Get(ctx, "x").Err(); err == nil || errors.Is(err, redis.Nil) { // an hour later without that
		t.Errorf("a read that was out of time: %v", err)
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if err := narrow.Get(t.Context(), "x").Err(); err == nil || errors.Is(err, redis.Nil) {
				t.Errorf("a read from a server that stands still: %v", err)
			}
		})
	}
	wg.Wait()
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	for _, rdb := range []redis.UniversalClient{patient, narrow} {
		for !errors.Is(rdb.Get(t.Context(), "x").Err(), redis.Nil) {
			if time.Now().After(deadline) {
				t.Fatal("no answer after the server went on")
			}
		}
	}
}
