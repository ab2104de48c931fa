package intake

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"

	"hanjul/pkg/kafka"
)

// frozenStage makes this test binary a member of a group: brokers, topic and group, in JSON.
const frozenStage = "HANJUL_TEST_FROZEN_MEMBER"

const frozenClient = "frozen"

type membership struct {
	Brokers      []string
	Topic, Group string
}

// asleep is a gap in a busy loop that no scheduler makes.
const asleep = 3 * time.Second

// A member is stopped by SIGSTOP with a batch in hand, until another has its partition and went on. When it wakes and is not told by a
// heartbeat first, it commits the batch: the broker refuses, and the offset stays where the other one put it.
func TestIntakeWokenMemberIsFenced(t *testing.T) {
	t.Parallel()

	b, cluster := faulty(t)
	b.send(t, 10, 1)

	frozen, said := b.startFrozen(t)
	if line := said(); line != "in hand" {
		t.Fatalf("the member says %q", line)
	}

	if err := frozen.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}

	var j journal

	second := b.start(t, j.handle)
	eventually(t, "the other has the partitions", func() bool { return second.value(t, "assigned_partitions") == partitions })
	eventually(t, "the other handled the batch", func() bool { return b.allCommitted(t) })
	b.send(t, 5, 1)
	eventually(t, "the other went on", func() bool { return b.allCommitted(t) })

	cluster.ControlKey(int16(kmsg.Heartbeat), func(r kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()

		beat, is := r.(*kmsg.HeartbeatRequest)
		if !is || !strings.HasPrefix(beat.MemberID, frozenClient) {
			return nil, nil, false
		}

		return beat.ResponseKind(), nil, true // All is well, it says.
	})

	if err := frozen.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}

	if line := said(); line != "ok 0, fenced 1" {
		t.Errorf("the member that woke says %q", line)
	}

	if got := b.committed(t); !maps.Equal(got, map[int]int64{1: 15}) {
		t.Errorf("the late commit moved the offset: %v", got)
	}

	j.exactly(t, 1, 0, 15)
}

// startFrozen starts the member and returns it with what reads its next line.
func (b *bundle) startFrozen(t *testing.T) (*os.Process, func() string) {
	t.Helper()

	text, err := json.Marshal(membership{b.kafka.Brokers, b.topic, b.group})
	if err != nil {
		t.Fatal(err)
	}

	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), frozenStage+"="+string(text))
	cmd.Stderr = t.Output()

	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}

	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		_ = cmd.Process.Kill() // Stopped or ended, either way.
		_ = cmd.Wait()
	})

	lines := bufio.NewReader(out)

	return cmd.Process, func() string {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("the member ended: %v", err)
		}

		return strings.TrimSpace(line)
	}
}

// runFrozen is the member, until it committed something or had to give it up; it prints which.
func runFrozen(text string) int {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()

	if err := beFrozen(ctx, cancel, text); err != nil {
		fmt.Fprintln(os.Stderr, err)

		return 1
	}

	return 0
}

func beFrozen(ctx context.Context, done context.CancelFunc, text string) error {
	var s membership
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}

	b := &bundle{kafka: kafka.Config{Brokers: s.Brokers, ClientID: frozenClient}, topic: s.Topic, group: s.Group}
	registry := prometheus.NewRegistry()
	cfg := b.config()
	cfg.Registerer = registry
	cfg.CheckEvery = patience // Nor is it to find out by itself.
	cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))

	slept := false

	i, err := New(cfg, func(ctx context.Context, _ Batch) (Rest, error) {
		if slept {
			<-ctx.Done() // A later life, should the partition come back: nothing is handled.

			return nil, ctx.Err()
		}

		last := time.Now()

		fmt.Println("in hand") // From here on it may be stopped.

		for !slept && ctx.Err() == nil {
			now := time.Now()
			slept, last = now.Sub(last) > asleep, now
		}

		return nil, nil
	})
	if err != nil {
		return err
	}

	ended := make(chan error, 1)

	go func() { ended <- i.Run(ctx) }()

	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()

	for ; ctx.Err() == nil; <-ticker.C {
		if all, err := metric(registry, "commits_total"); err != nil || all == 0 {
			continue
		}

		ok, _ := metric(registry, "commits_total", "ok")
		fenced, _ := metric(registry, "commits_total", "fenced")
		fmt.Printf("ok %v, fenced %v\n", ok, fenced)
		done()
	}

	return <-ended
}
