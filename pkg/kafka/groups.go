package kafka

import (
	"context"
	"fmt"

	kafkago "github.com/segmentio/kafka-go"
)

// Assigned returns how many partitions of the topic the members of the group
// have together, and whether the group is stable: while it rebalances, the
// number means nothing. It asks once.
func (c *Client) Assigned(ctx context.Context, group, topic string) (count int, stable bool, err error) {
	answer, err := c.kafka.DescribeGroups(ctx, &kafkago.DescribeGroupsRequest{GroupIDs: []string{group}})
	if err != nil {
		return 0, false, fmt.Errorf("describe group %s: %w", group, WithRight(err, "Describe", onGroup, group))
	}

	partitions := make(map[int]bool)

	for _, g := range answer.Groups {
		if g.Error != nil {
			return 0, false, fmt.Errorf("describe group %s: %w", group, WithRight(g.Error, "Describe", onGroup, group))
		}

		stable = g.GroupState == "Stable"

		for _, member := range g.Members {
			for _, t := range member.MemberAssignments.Topics {
				if t.Topic != topic {
					continue
				}

				for _, p := range t.Partitions {
					partitions[p] = true
				}
			}
		}
	}

	return len(partitions), stable, nil
}
