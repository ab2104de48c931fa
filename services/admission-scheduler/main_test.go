package main

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"

	"hanjul/deploy/local/localtest"
)

func TestMain(m *testing.M) { localtest.Main(m) }

// key is a key line of the test's own.
func keyLine() string {
	return "c1:" + base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))
}

// environ is an environment that is complete.
func environ(more ...string) []string {
	return append([]string{
		"HANJUL_REDIS_ADDRS=127.0.0.1:1", "HANJUL_KAFKA_BROKERS=127.0.0.1:1", "HANJUL_POSTGRES_URL=postgres://x@127.0.0.1:1/x",
		"HANJUL_IDENTITY=local", "HANJUL_KEY_COMMAND=" + keyLine(), "HANJUL_KEY_USER=" + keyLine(), "HANJUL_OPERATOR_TOKENS=anna:correct-horse-battery",
	}, more...)
}

func TestRun(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		args    []string
		environ []string
		code    int
		out     []string // parts of what is printed on either
	}{
		{"Version", []string{"-version"}, nil, 0, []string{"admission-scheduler dev"}},
		{"HelpListsEverySetting", []string{"-help"}, nil, 0, []string{
			"-validate", "HANJUL_SCHEDULER_TICK", "HANJUL_SCHEDULER_OPERATOR_TOKENS (or HANJUL_SCHEDULER_OPERATOR_TOKENS_FILE)", "default 100ms",
		}},
		{"Validate", []string{"-validate"}, environ(), 0, []string{"settings: ok"}},
		{"EveryFaultAtOnce", []string{"-validate"}, environ("HANJUL_SCHEDULER_TICK=soon", "HANJUL_SCHEDULER_TIK=1s", "HANJUL_SCHEDULER_OPERATOR_TOKENS=anna:short", "HANJUL_SCHEDULER_KEY_COMMAND=nokey",
			"HANJUL_KAFKA_MIN_INSYNC=2"), 2, []string{
			"HANJUL_KAFKA_MIN_INSYNC: expected at most KAFKA_REPLICATION (1)",
			"HANJUL_SCHEDULER_TICK: ", "HANJUL_SCHEDULER_TIK: ", "HANJUL_SCHEDULER_OPERATOR_TOKENS: ", "HANJUL_SCHEDULER_KEY_COMMAND: ",
		}},
		{"NoReplayOfCommands", []string{"-validate"}, environ("HANJUL_TOPIC_ORDERS=o", "HANJUL_REPLAY_TOPICS=r,o"), 2, []string{"HANJUL_REPLAY_TOPICS: ", "no topic of commands, found o"}},
		{"EventsAreNoCommands", []string{"-validate"}, environ("HANJUL_TOPIC_EVENTS=orders"), 2, []string{"HANJUL_TOPIC_EVENTS: "}},
		{"NothingSet", nil, nil, 2, []string{
			"HANJUL_SCHEDULER_REDIS_ADDRS: ", "HANJUL_SCHEDULER_KAFKA_BROKERS: ", "HANJUL_SCHEDULER_POSTGRES_URL: ", "HANJUL_SCHEDULER_IDENTITY: ",
			"HANJUL_SCHEDULER_KEY_COMMAND: ", "HANJUL_SCHEDULER_KEY_USER: ", "HANJUL_SCHEDULER_OPERATOR_TOKENS: ",
		}},
		{"AHealthCheckOfNobody", []string{"healthcheck"}, environ("HANJUL_ADMIN_LISTEN=127.0.0.1:1"), 1, []string{"admission-scheduler: "}},
		{"AnUnknownFlag", []string{"-verbose"}, nil, 2, []string{"-verbose"}},
		{"AnArgument", []string{"now"}, nil, 2, []string{`unexpected argument "now"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			if code := run(tt.args, tt.environ, &out, &out); code != tt.code {
				t.Fatalf("code %d, expected %d:\n%s", code, tt.code, out.String())
			}
			for _, part := range tt.out {
				if !strings.Contains(out.String(), part) {
					t.Fatalf("expected %q in:\n%s", part, out.String())
				}
			}
			if strings.Contains(out.String(), "correct-horse") || strings.Contains(out.String(), "short") {
				t.Fatalf("a token is shown:\n%s", out.String())
			}
		})
	}
}
