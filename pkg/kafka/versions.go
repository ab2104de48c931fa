package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// speech is what one of the library's two protocol stacks speaks of one API.
type speech struct {
	api      protocol.ApiKey
	versions []int  // Ascending.
	since    string // The first Kafka that has the lowest of them.
}

// Oldest is the oldest Kafka that we are meant for; by the requests alone some
// older ones would do.
const Oldest = "2.1"

// spoken lists every API we use. Consumer groups run on the library's older
// stack, whose versions are fixed in its source and visible nowhere; the rest
// runs on its transport, which can be asked.
func spoken() []speech {
	list := []speech{
		{protocol.Metadata, []int{1, 6}, "0.10.0"},
		{protocol.FindCoordinator, []int{0}, "0.9.0"},
		{protocol.JoinGroup, []int{1, 2}, "0.10.1"},
		{protocol.SyncGroup, []int{0}, "0.9.0"},
		{protocol.Heartbeat, []int{0}, "0.9.0"},
		{protocol.LeaveGroup, []int{0}, "0.9.0"},
		{protocol.OffsetFetch, []int{1}, "0.9.0"},
		{protocol.OffsetCommit, []int{2}, "0.9.0"},
		{protocol.ApiVersions, []int{0}, "0.10.0"},
	}

	for _, from := range []struct {
		api   protocol.ApiKey
		least int16 // Below it records have no headers.
		since string
	}{
		{protocol.Produce, 3, "0.11.0"},
		{protocol.Fetch, 4, "0.11.0"},
		{protocol.ListOffsets, 0, "0.10.1"},
		{protocol.Metadata, 0, "0.10.0"},
		{protocol.FindCoordinator, 0, "0.9.0"},
		{protocol.OffsetFetch, 0, "0.9.0"},
		{protocol.DescribeGroups, 0, "0.9.0"},
		{protocol.CreateTopics, 0, "0.10.1"},
		{protocol.DescribeConfigs, 0, "0.11.0"},
	} {
		api := from.api

		s := speech{api: api, since: from.since}
		for v := max(api.MinVersion(), from.least); v <= api.MaxVersion(); v++ {
			s.versions = append(s.versions, int(v))
		}

		list = append(list, s)
	}

	return list
}

// CheckAPIVersions compares the protocol versions that the configured brokers
// offer with those we speak, and joins all gaps, each naming the API and both
// ranges. The library itself looks at maxima only: against a broker that
// dropped an old version it would merely see connections close. At least one of
// the brokers must answer.
func CheckAPIVersions(ctx context.Context, cfg Config) error {
	return once(ctx, cfg, func(ctx context.Context, c *Client) error {
		var faults, unreached []error

		for _, broker := range c.cfg.Brokers {
			offers, err := c.offers(ctx, broker)
			if err != nil {
				unreached = append(unreached, fmt.Errorf("ask broker %s for its versions: %w", broker, err))

				continue
			}

			for _, s := range spoken() {
				faults = append(faults, compare(broker, s, offers))
			}
		}

		if len(unreached) == len(c.cfg.Brokers) {
			return errors.Join(unreached...)
		}

		return permanent(errors.Join(faults...))
	})
}

func (c *Client) offers(ctx context.Context, broker string) (map[protocol.ApiKey]kafkago.ApiVersion, error) {
	conn, err := c.conns.Dialer().DialContext(ctx, "tcp", broker)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }() // It was only read from.

	if err := conn.SetDeadline(time.Now().Add(c.cfg.Timeout)); err != nil {
		return nil, err
	}

	list, err := conn.ApiVersions()
	if err != nil {
		return nil, err
	}

	offers := make(map[protocol.ApiKey]kafkago.ApiVersion, len(list))
	for _, v := range list {
		offers[protocol.ApiKey(v.ApiKey)] = v
	}

	return offers, nil
}

func compare(broker string, s speech, offers map[protocol.ApiKey]kafkago.ApiVersion) error {
	offer, ok := offers[s.api]
	if !ok {
		return fmt.Errorf("broker %s does not offer %s, we speak %s, which is in Kafka since %s: %w; needed is Kafka %s or later",
			broker, s.api, s, s.since, ErrVersions, Oldest)
	}

	for _, v := range s.versions {
		if int(offer.MinVersion) <= v && v <= int(offer.MaxVersion) {
			return nil
		}
	}

	remedy := "needed is Kafka " + Oldest + " or later"
	if int(offer.MinVersion) > s.versions[len(s.versions)-1] {
		remedy = "this Kafka is too new for this build"
	}

	return fmt.Errorf("broker %s offers %s v%d to v%d, we speak %s, which is in Kafka since %s: %w; %s",
		broker, s.api, offer.MinVersion, offer.MaxVersion, s, s.since, ErrVersions, remedy)
}

func (s speech) String() string {
	first, last := s.versions[0], s.versions[len(s.versions)-1]
	if last-first == len(s.versions)-1 && first != last {
		return fmt.Sprintf("v%d to v%d", first, last)
	}

	names := make([]string, len(s.versions))
	for i, v := range s.versions {
		names[i] = fmt.Sprintf("v%d", v)
	}

	return strings.Join(names, ", ")
}
