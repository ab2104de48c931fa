package localtest

import (
	"crypto/tls"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"hanjul/deploy/local"
)

// SecureKafka is a broker that speaks TLS only and lets nobody in who does not log in.
type SecureKafka struct {
	Cluster *kfake.Cluster
	// Authority signed the broker's certificate.
	Authority *local.Authority
	// Settings are those by which kafka.Settings reaches it, without their prefix.
	Settings map[string]string
}

// SecureKafkaCluster gives such a broker of the test's own inside the process. One may log in as a superuser "admin" by PLAIN and by both kinds of
// SCRAM; the settings do so by SCRAM-SHA-512.
func SecureKafkaCluster(t testing.TB, opts ...kfake.Opt) SecureKafka {
	t.Helper()
	authority, err := local.NewAuthority(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	broker, err := authority.Issue("broker", "localhost", "127.0.0.1", "::1")
	if err != nil {
		t.Fatal(err)
	}
	const user = "admin"
	password := random()
	all := []kfake.Opt{kfake.EnableSASL(), kfake.TLS(&tls.Config{Certificates: []tls.Certificate{broker.Pair}, MinVersion: tls.VersionTLS12})}
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		all = append(all, kfake.Superuser(mechanism, user, password))
	}
	cluster := KafkaCluster(t, append(all, opts...)...)
	return SecureKafka{Cluster: cluster, Authority: authority, Settings: map[string]string{
		"KAFKA_BROKERS": strings.Join(cluster.ListenAddrs(), ","), "KAFKA_TLS": "on", "KAFKA_CA_FILE": authority.File(),
		"KAFKA_SASL": "scram-sha-512", "KAFKA_USER": user, "KAFKA_PASSWORD": password,
	}}
}
