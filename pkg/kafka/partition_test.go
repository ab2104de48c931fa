package kafka

import "testing"

// The hashes are those of the Java client's own test of its hash; the
// partitions were computed from the published algorithm in another language.
func TestPartition(t *testing.T) {
	t.Parallel()

	for key, want := range map[string]int32{
		"21":                         -973932308,
		"foobar":                     -790332482,
		"a-little-bit-long-string":   -985981536,
		"a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
		"abc": 479470107,
		"":    275646681,
	} {
		if got := int32(murmur2([]byte(key))); got != want {
			t.Errorf("hash of %q = %d, want %d", key, got, want)
		}
	}

	for _, row := range []struct {
		key            string
		of3, of6, of12 int
	}{
		{"a", 1, 4, 4},
		{"ab", 2, 2, 2},
		{"abc", 0, 3, 3},
		{"abcd", 2, 2, 8},
		{"abcde", 1, 1, 1},
		{"sneaker-1", 0, 3, 3},
		{"sneaker-2", 1, 4, 4},
		{"P.0_x-9", 1, 4, 10},
		{"demo-2026", 2, 2, 8},
		{"21", 0, 0, 0},
		{"foobar", 0, 0, 6},
		{"a-little-bit-long-string", 2, 2, 8},
		{"0000000000000000000000000000000000000000000000000000000000000000", 0, 3, 3},
		{"é", 0, 3, 3},
	} {
		for count, want := range map[int]int{3: row.of3, 6: row.of6, 12: row.of12, 1: 0} {
			if got := Partition([]byte(row.key), count); got != want {
				t.Errorf("partition of %q of %d = %d, want %d", row.key, count, got, want)
			}
		}
	}
}
