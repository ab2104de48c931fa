package kafka

import (
	"errors"
	"fmt"

	kafkago "github.com/segmentio/kafka-go"
)

// Outcomes a caller branches on.
var (
	// ErrFull means that the bound of waiting records is reached: overload.
	ErrFull = errors.New("kafka: queue of waiting records is full")
	// ErrClosed means that the producer stops or has stopped.
	ErrClosed = errors.New("kafka: producer is closed")
	// ErrTooLarge means that a record alone exceeds the bound of a batch.
	ErrTooLarge = errors.New("kafka: record is too large")
	// ErrNoKey means that a record has no key to place it by.
	ErrNoKey = errors.New("kafka: record has no key")
	// ErrNoTopic means that a topic is not configured, or not in the cluster.
	ErrNoTopic = errors.New("kafka: no such topic")
	// ErrLayout means that topics are in the cluster, but not as configured:
	// waiting does not help. The text names each difference.
	ErrLayout = errors.New("kafka: topics are not as configured")
	// ErrVersions means that a broker and we have no protocol version in common
	// for an API: waiting does not help.
	ErrVersions = errors.New("kafka: no common protocol version")
	// ErrLogin means that a broker and we do not accept each other: who we say
	// we are, or who it says it is, or that the two of us want other means of
	// connecting. The text names the settings to look at. Waiting helps only
	// where somebody is about to change one of the two sides.
	ErrLogin = errors.New("kafka: not let in")
	// ErrRights means that brokers let us in and do not let us do this. The text
	// names the right and its object. It may be given while we run.
	ErrRights = errors.New("kafka: a right is missing")
	// ErrBehind means that a record was not sent, because an earlier one of the
	// same key and call was not acknowledged.
	ErrBehind = errors.New("kafka: an earlier record of the same key was not acknowledged")
	// ErrSlotUsed means that a slot was used twice.
	ErrSlotUsed = errors.New("kafka: slot is used up")
	// ErrOffsetOutOfRange means that an offset is not, or no longer, in the log.
	ErrOffsetOutOfRange = errors.New("kafka: offset out of range")
	// ErrNoProgress means that a broker repeatedly answered without records
	// although the log goes on.
	ErrNoProgress = errors.New("kafka: no progress")
)

// WithRight names the right that is missing, such as "Write on topic orders",
// where err says that one is; else it returns err as it is.
func WithRight(err error, right, object, name string) error {
	if errors.Is(err, ErrRights) || !isCode(err,
		kafkago.TopicAuthorizationFailed,
		kafkago.GroupAuthorizationFailed,
		kafkago.ClusterAuthorizationFailed,
		kafkago.TransactionalIDAuthorizationFailed,
	) {
		return err
	}

	return fmt.Errorf("%w: %s on %s %s: %w", ErrRights, right, object, name, err)
}

// What rights are about.
const (
	onTopic = "topic"
	onGroup = "group"
)

// isCode reports whether err carries one of the broker's error codes.
func isCode(err error, codes ...kafkago.Error) bool {
	var code kafkago.Error
	if !errors.As(err, &code) {
		return false
	}

	for _, c := range codes {
		if code == c {
			return true
		}
	}

	return false
}
