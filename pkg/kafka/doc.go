// Package kafka is the plumbing between our services and Kafka: a producer
// that groups what waits into one request per partition, the check of topics
// and protocol versions at start-up, and a reader of single partitions.
//
// It owns every connection it opens and every goroutine behind it; nothing is
// left running after Producer.Run or Client.Close returned. It knows topics,
// keys and bytes and never a business word: what a record means, which topic it
// belongs to and what follows from an outcome is decided by its callers. It
// joins no consumer group; that is the work of the intake of order-consumer.
package kafka
