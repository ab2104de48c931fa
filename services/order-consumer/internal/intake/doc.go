// Package intake reads the commands of one topic as a member of a consumer
// group and hands them, batch by batch and in order within each partition, to
// the handler that judges them. Before it in the flow is the topic, behind it
// the handler of package fulfil.
//
// It owns the membership, the position in each partition, and when an offset is
// committed: after the handler has returned nil, and never under a membership
// that has ended. It decides nothing about a record. A record may come again
// after a crash, a rebalance or an error, also while another member is at work
// on it, so handlers must be safe to repeat; the offset merely saves work.
package intake
