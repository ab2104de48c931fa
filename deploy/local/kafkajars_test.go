package local_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"hanjul/deploy/local/localtest"
)

func TestKafkaFromJarsKeepsCommitsOverKillAndRestart(t *testing.T) {
	t.Parallel()
	server := localtest.KafkaNode(t)
	commit := func(at int64) {
		admin := kadm.NewClient(kafkaClient(t, server.Addrs()))
		var commits kadm.Offsets
		commits.AddOffset("hanjul-ready", 0, at, -1)
		if err := admin.CommitAllOffsets(t.Context(), "group", commits); err != nil {
			t.Fatal(err)
		}
	}
	commit(1)
	server.Kill()
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	offsets, err := kadm.NewClient(kafkaClient(t, server.Addrs())).FetchOffsets(t.Context(), "group")
	if err != nil {
		t.Fatal(err)
	}
	if at, found := offsets.Lookup("hanjul-ready", 0); !found || at.At != 1 {
		t.Fatalf("committed offset %v, %v", at.At, found)
	}
}
