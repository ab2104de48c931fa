package localtest

import (
	"testing"

	"hanjul/deploy/local"
)

// PrivateKafka gives a broker of the test's own inside the process, which may be stopped and restarted. It keeps what it was told over
// a restart. It is never the real one: for that there is KafkaJars.
func PrivateKafka(t testing.TB) *local.Kafka {
	t.Helper()
	k, err := local.StartKafka(t.Context(), local.KafkaOptions{Dir: t.TempDir(), Persist: true})
	Need(t, err)
	t.Cleanup(func() { stop(t, k) })
	return k
}
