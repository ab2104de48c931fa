package localtest

import (
	"context"
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"

	"hanjul/deploy/local"
)

// SecureKafka is a broker that speaks TLS only and lets nobody in who does not log in.
type SecureKafka struct {
	// Cluster is the broker inside the process; nil where it is another.
	Cluster *kfake.Cluster
	Brokers []string
	local.KafkaSecurity
	// Settings are those by which kafka.Settings reaches it as the superuser, without their prefix.
	Settings map[string]string
}

// SecureKafkaCluster gives such a broker of the test's own inside the process. The superuser may log in by PLAIN and by both kinds of SCRAM; the
// settings do so by SCRAM-SHA-512.
func SecureKafkaCluster(t testing.TB, opts ...kfake.Opt) SecureKafka {
	t.Helper()
	s := security(t)
	all := []kfake.Opt{kfake.EnableSASL(), kfake.TLS(&tls.Config{Certificates: []tls.Certificate{s.Broker.Pair}, MinVersion: tls.VersionTLS12})}
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		all = append(all, kfake.Superuser(mechanism, s.User, s.Password))
	}
	cluster := KafkaCluster(t, append(all, opts...)...)
	return secured(s, cluster, cluster.ListenAddrs(), "scram-sha-512")
}

// GuardedKafka gives a broker of the test's own that allows nobody but the superuser anything that no ACL allows: Apache Kafka where
// HANJUL_KAFKA=jars, else inside the process.
func GuardedKafka(t testing.TB) SecureKafka {
	t.Helper()
	if !local.GivenByEnvironment().Jars {
		return SecureKafkaCluster(t, kfake.EnableACLs())
	}
	s := security(t)
	server, err := local.StartKafkaJars(t.Context(), local.KafkaJarsOptions{Jars: Jars(t), Secure: &s, Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, server) })
	return secured(s, nil, server.Addrs(), "plain")
}

func security(t testing.TB) local.KafkaSecurity {
	t.Helper()
	authority, err := local.NewAuthority(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	broker, err := authority.Issue("broker", "localhost", "127.0.0.1", "::1")
	if err != nil {
		t.Fatal(err)
	}
	return local.KafkaSecurity{Authority: authority, Broker: broker, User: "admin", Password: random()}
}

func secured(s local.KafkaSecurity, cluster *kfake.Cluster, brokers []string, mechanism string) SecureKafka {
	return SecureKafka{Cluster: cluster, Brokers: brokers, KafkaSecurity: s, Settings: map[string]string{
		"KAFKA_BROKERS": strings.Join(brokers, ","), "KAFKA_TLS": "on", "KAFKA_CA_FILE": s.Authority.File(),
		"KAFKA_SASL": mechanism, "KAFKA_USER": s.User, "KAFKA_PASSWORD": s.Password,
	}}
}

// Admin gives a client of the superuser, closed with the test.
func (s SecureKafka) Admin(t testing.TB) *kadm.Client {
	t.Helper()
	client, err := s.KafkaSecurity.Admin(s.Brokers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return kadm.NewClient(client)
}

// AddUser lets somebody in by SCRAM-SHA-512, and returns when the broker knows of it.
func (s SecureKafka) AddUser(t testing.TB, user, password string) {
	t.Helper()
	admin := s.Admin(t)
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	altered, err := admin.AlterUserSCRAMs(ctx, nil, []kadm.UpsertSCRAM{{User: user, Mechanism: kadm.ScramSha512, Iterations: 4096, Password: password}})
	if err == nil {
		err = altered.Error()
	}
	if err != nil {
		t.Fatalf("add the user %s: %v", user, err)
	}
	for {
		known, err := admin.DescribeUserSCRAMs(ctx, user)
		if err == nil && known.Ok() {
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("the user %s is not known: %v, %v", user, err, known.Error())
		}
	}
}
