package kafka

import (
	"crypto/tls"
	"errors"
	"time"
)

// Defaults of Config.
const (
	defaultTimeout     = 5 * time.Second
	defaultMetadataTTL = time.Second
)

// Config says how to reach a cluster. It is the only place from which clients
// and transports are built.
type Config struct {
	// Brokers are host:port addresses to start from; at least one.
	Brokers []string
	// ClientID is what brokers see in their logs and quotas.
	ClientID string
	// Timeout bounds one request and one dial; zero means 5 s. Brokers are
	// told to wait half of it for acknowledgements of their replicas.
	Timeout time.Duration
	// MetadataTTL is the longest age of what is known about leaders; zero
	// means 1 s. The library refreshes at a random moment within it, does not
	// refresh on errors, and uses it as that request's deadline as well, so
	// values far below a second make refreshes fail.
	MetadataTTL time.Duration
	// TLS encrypts every connection; nil means plain text. The certificate of a
	// broker must name the host that was dialled. It must not be changed later.
	TLS *tls.Config
	// Login is who we are to the brokers; the zero value means nobody, or whom
	// the certificate of TLS names.
	Login Login
	// Topics limits metadata to these topics; every other topic is then
	// unknown to the client. Empty means all topics of the cluster.
	Topics []string
}

// Validate reports all faults of the configuration at once.
func (c Config) Validate() error {
	var faults []error

	if len(c.Brokers) == 0 {
		faults = append(faults, errors.New("kafka: no broker address given"))
	}

	for _, broker := range c.Brokers {
		if broker == "" {
			faults = append(faults, errors.New("kafka: empty broker address"))
		}
	}

	if c.Timeout < 0 {
		faults = append(faults, errors.New("kafka: negative timeout"))
	}

	if c.MetadataTTL < 0 {
		faults = append(faults, errors.New("kafka: negative metadata time to live"))
	}

	if _, err := c.Login.mechanism(); err != nil {
		faults = append(faults, err)
	}

	return errors.Join(faults...)
}

func (c Config) withDefaults() Config {
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}

	if c.MetadataTTL == 0 {
		c.MetadataTTL = defaultMetadataTTL
	}

	return c
}

// withTopics returns the configuration limited to the given topics.
func (c Config) withTopics(topics ...string) Config {
	c.Topics = topics

	return c
}

// Header is one header of a record.
type Header struct {
	Key   string
	Value []byte
}

// Record is what is produced. Its slices must not be changed until the outcome
// is known, and never when the outcome was Unknown.
type Record struct {
	Topic      string
	Key, Value []byte
	Headers    []Header
}

// Message is what is read back. Its slices belong to the receiver.
type Message struct {
	Topic      string
	Partition  int
	Offset     int64
	Time       time.Time
	Key, Value []byte
	Headers    []Header
}
