package local

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

// KafkaSecurity says how a broker from jars knows its clients: by SCRAM-SHA-512, each user made by the superuser, who logs in by PLAIN. What no ACL
// allows is forbidden to all but the superuser.
type KafkaSecurity struct {
	Authority *Authority
	// Broker is the certificate that it shows, for the hosts it is reached by.
	Broker Certificate
	// User and Password are the superuser's; without quotes.
	User, Password string
}

// properties are the lines of server.properties; it writes files into dir.
func (s *KafkaSecurity) properties(dir string) ([]string, error) {
	// Java wants key and certificate in one file.
	var both []byte
	for _, file := range []string{s.Broker.KeyFile, s.Broker.CertFile} {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		both = append(both, text...)
	}
	store := filepath.Join(dir, "broker.pem")
	if err := os.WriteFile(store, both, 0o600); err != nil {
		return nil, err
	}
	const listener, modules = "listener.name.sasl_ssl.", "org.apache.kafka.common.security."
	return []string{
		"ssl.keystore.type=PEM", "ssl.keystore.location=" + store, "ssl.truststore.type=PEM", "ssl.truststore.location=" + s.Authority.File(),
		"sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512", "sasl.mechanism.inter.broker.protocol=PLAIN",
		fmt.Sprintf("%splain.sasl.jaas.config=%splain.PlainLoginModule required username=%q password=%q user_%s=%q;", listener, modules, s.User, s.Password, s.User, s.Password),
		listener + "scram-sha-512.sasl.jaas.config=" + modules + "scram.ScramLoginModule required;",
		"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"super.users=User:" + s.User + ";User:ANONYMOUS", // The latter speaks on the controller's port only.
		"allow.everyone.if.no.acl.found=false",
	}, nil
}

// client is how the superuser connects; nothing for nil.
func (s *KafkaSecurity) client() []kgo.Opt {
	if s == nil {
		return nil
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(s.Authority.cert)
	return []kgo.Opt{
		kgo.DialTLSConfig(&tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}),
		kgo.SASL(plain.Auth{User: s.User, Pass: s.Password}.AsMechanism()),
	}
}

// Admin connects as the superuser to the brokers.
func (s *KafkaSecurity) Admin(brokers []string) (*kgo.Client, error) {
	return kgo.NewClient(append(s.client(), kgo.SeedBrokers(brokers...))...)
}
