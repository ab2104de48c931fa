package kafka

// Partition returns the partition in [0, partitions) that the Java client picks
// for a record with this key, so that records written by other tools land where
// ours do. partitions is the configured count and never one taken from
// metadata: a topic that grew would silently place a key elsewhere. It panics
// when partitions is not positive.
func Partition(key []byte, partitions int) int {
	if partitions <= 0 {
		panic("kafka: partition count must be positive")
	}

	return int(murmur2(key)&0x7fffffff) % partitions
}

// murmur2 is the 32-bit MurmurHash2 with the seed of Kafka's Java client.
func murmur2(data []byte) uint32 {
	const (
		seed  = 0x9747b28c
		mix   = 0x5bd1e995
		shift = 24
	)

	hash := uint32(seed) ^ uint32(len(data))

	for ; len(data) >= 4; data = data[4:] {
		k := uint32(data[0]) | uint32(data[1])<<8 | uint32(data[2])<<16 | uint32(data[3])<<24
		k *= mix
		k ^= k >> shift
		k *= mix
		hash = hash*mix ^ k
	}

	if len(data) > 0 {
		for i, b := range data {
			hash ^= uint32(b) << (8 * i)
		}

		hash *= mix
	}

	hash ^= hash >> 13
	hash *= mix

	return hash ^ hash>>15
}
