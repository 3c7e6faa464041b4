package quota_test

import (
	"slices"
	"testing"
	"time"

	"berth.dev/berth/core/quota"
)

// TestThePodThatLeadsIsSparedLast holds that a workload which can lose some of its pods does not lose the one without which it ends, though that one
// began to run last.
func TestThePodThatLeadsIsSparedLast(t *testing.T) {
	b := quota.NewBook(quota.NewTree([]quota.Spec{
		{Name: "org", Quotas: []quota.Quota{gpus(8)}},
		{Name: "red", Parent: "org", Quotas: []quota.Quota{gpus(4)}},
		{Name: "blue", Parent: "org", Quotas: []quota.Quota{gpus(4)}},
	}))
	for k := range 8 {
		id := string(rune('a' + k))
		b.Hold(&quota.Holder{
			ID: id, Workload: "elastic", Queue: "red", Pieces: []quota.Piece{{Devices: 1, Parts: whole}},
			Start: epoch.Add(time.Duration(k) * time.Second), Least: 4, Leads: id == "h",
		})
	}
	for n, want := range map[int][]string{1: {"g"}, 4: {"d", "e", "f", "g"}} {
		got, _, ok := b.Victims(&quota.Claim{Workload: gangOf("new", "blue", n, n), Now: epoch.Add(time.Hour)}, nil)
		if slices.Sort(got); !ok || !slices.Equal(got, want) {
			t.Errorf("for %d GPUs go %v, %v, want %v", n, got, ok, want)
		}
	}
}
