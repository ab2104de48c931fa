package kafka

import (
	"errors"
	"net"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// verdict is what one failed produce attempt means for the batch.
type verdict int

const (
	// doubtful: the broker may have appended the batch. Send it again.
	doubtful verdict = iota
	// clean: the broker surely did not append it, and may next time.
	clean
	// refused: it did not, and never will.
	refused
	// refusedOne: as refused, for the sake of at least one record of the batch.
	refusedOne
)

// judge classifies the error of one attempt. The library's own notion of what
// is temporary is of no use here: it leaves out what its router says while a
// partition has no leader, and it does not tell doubt from certainty. Whatever
// is not listed is doubtful.
func judge(err error) verdict {
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == opDial {
		return clean // Also where a broker said why it does not let us in: somebody may change that.
	}

	var code kafkago.Error
	if errors.As(err, &code) {
		return judgeCode(code)
	}

	// The router speaks through these two types before anything is sent. The
	// same sentinels without them come from an answer that lacks the partition.
	var (
		topicError     *protocol.TopicError
		partitionError *protocol.TopicPartitionError
	)
	if errors.As(err, &topicError) || errors.As(err, &partitionError) {
		return clean
	}

	return doubtful
}

func judgeCode(code kafkago.Error) verdict {
	switch code {
	case kafkago.MessageSizeTooLarge,
		kafkago.RecordListTooLarge,
		kafkago.InvalidMessageSize,
		kafkago.InvalidRecord:
		return refusedOne

	case kafkago.InvalidTopic,
		kafkago.InvalidRequiredAcks,
		kafkago.InvalidTimestamp,
		kafkago.InvalidRequest,
		kafkago.UnsupportedVersion,
		kafkago.UnsupportedForMessageFormat,
		kafkago.UnsupportedCompressionType,
		kafkago.PolicyViolation:
		return refused

	case kafkago.InvalidMessage, // Checksum: damaged on the way.
		kafkago.UnknownTopicOrPartition,
		kafkago.UnknownTopicID,
		kafkago.LeaderNotAvailable,
		kafkago.NotLeaderForPartition,
		kafkago.BrokerNotAvailable,
		kafkago.ReplicaNotAvailable,
		kafkago.NotEnoughReplicas, // Said before the append; ...AfterAppend is in doubt.
		kafkago.FencedLeaderEpoch,
		kafkago.UnknownLeaderEpoch,
		kafkago.ThrottlingQuotaExceeded,
		// A right that was taken away may be given again; nobody's order is refused for it meanwhile.
		kafkago.TopicAuthorizationFailed,
		kafkago.ClusterAuthorizationFailed,
		kafkago.SASLAuthenticationFailed:
		return clean

	default:
		return doubtful
	}
}
