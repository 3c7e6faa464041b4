package serving_test

import (
	"strings"
	"testing"

	"berth.dev/berth/core/serving"
)

// TestActivatorsShareABound holds Slots to its promise: together they have the bound at each replica, and each of them has one at least.
func TestActivatorsShareABound(t *testing.T) {
	for limit := 1; limit <= 12; limit++ {
		for activators := 1; activators <= 6; activators++ {
			for replica := range 7 {
				sum := 0
				for place := range activators {
					n := serving.Slots(limit, activators, place, replica)
					if sum += n; n < 1 {
						t.Errorf("activator %d of %d has %d of %d at replica %d", place, activators, n, limit, replica)
					}
				}
				if sum != max(limit, activators) {
					t.Errorf("%d activators have %d at replica %d, want %d", activators, sum, replica, limit)
				}
			}
		}
	}
}

func TestABoundThatIsNotKeptIsNamed(t *testing.T) {
	for _, tt := range []struct {
		name              string
		limit, activators int
		says              string
	}{
		{"no bound", 0, 0, ""},
		{"one activator keeps it", 1, 1, ""},
		{"several share it", 4, 3, ""},
		{"without an activator requests pass it", 4, 0, "is not kept, as requests reach the replicas directly: `berth activator` keeps it"},
		{"more activators than it", 1, 2, "containerConcurrency 1 is less than the 2 activators"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := serving.Unbounded(tt.limit, tt.activators); (got == "") != (tt.says == "") || !strings.Contains(got, tt.says) {
				t.Errorf("it says %q, want %q", got, tt.says)
			}
		})
	}
}
