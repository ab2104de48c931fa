package kafka

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestOffsets(t *testing.T) {
	t.Parallel()

	c, _ := cluster(t, 3)
	p := producer(t, produceConfig(c, 3))
	accepted(t, p.send(t, record("k", "v")))

	want := map[int]int64{0: 0, 1: 0, 2: 0}
	want[Partition([]byte("k"), 3)] = 1

	// One of the requests behind the call fails, and leaves a zero in its place.
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: topic, Count: 6, Err: kerr.LeaderNotAvailable})

	_, end, err := Offsets(patient(t), configOf(c), topic)
	if diff := cmp.Diff(want, end); diff != "" || err != nil {
		t.Error(diff, err)
	}

	if _, _, err := Offsets(patient(t), configOf(c), "typo"); !errors.Is(err, ErrNoTopic) {
		t.Errorf("error: %v", err)
	}
}

func TestCommitted(t *testing.T) {
	t.Parallel()

	c, _ := cluster(t, 3)

	got, err := Committed(patient(t), configOf(c), "nobody", topic)
	if err != nil || len(got) != 0 {
		t.Errorf("committed: %v, error: %v", got, err)
	}

	// A coordinator that is not there yet answers so for a moment.
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.FindCoordinator}, Count: 2, Err: kerr.CoordinatorNotAvailable})

	if _, err := Committed(patient(t), configOf(c), "nobody", topic); err != nil {
		t.Error(err)
	}

	if _, err := Committed(patient(t), configOf(c), "nobody", "typo"); !errors.Is(err, ErrNoTopic) {
		t.Errorf("error: %v", err)
	}
}
