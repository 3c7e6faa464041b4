package controlplane

import (
	"testing"
)

func TestGrowthUnderHardWork(t *testing.T) {
	for _, c := range []struct {
		name string
		live uint64 // MiB
		want int    // percent
	}{
		{"nothing is known before the first collection", 0, 200},
		{"a small heap triples at most", 100, 200},
		{"up to the limit it triples", 266, 200},
		{"then it grows to 800 MiB", 320, 150},
		{"and no less than to twice what is live", 400, 100},
		{"however much that is", 5000, 100},
	} {
		if got := busyGC(c.live << 20); got != c.want {
			t.Errorf("%s: busyGC(%d MiB) = %d, want %d", c.name, c.live, got, c.want)
		}
	}
}
