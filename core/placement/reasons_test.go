package placement_test

import (
	"testing"

	"berth.dev/berth/core/placement"
)

func TestForemost(t *testing.T) {
	for _, tt := range []struct {
		name   string
		counts []placement.Count
		want   placement.Reason
	}{
		{"nothing excludes a node", nil, placement.Excluded},
		{"classes alone do", []placement.Count{{Reason: placement.Excluded, Why: 1, Nodes: 5}}, placement.Excluded},
		{"a class excludes more, and comes last", []placement.Count{
			{Reason: placement.Excluded, Why: 1, Nodes: 9}, {Reason: placement.NotEnoughCPU, Nodes: 1},
		}, placement.NotEnoughCPU},
		{"the most nodes count", []placement.Count{
			{Reason: placement.NotEnoughCPU, Nodes: 1}, {Reason: placement.NotEnoughGPUs, Nodes: 2},
		}, placement.NotEnoughGPUs},
		{"of as many the first", []placement.Count{
			{Reason: placement.NotEnoughMemory, Nodes: 2}, {Reason: placement.NotEnoughGPUs, Nodes: 2},
		}, placement.NotEnoughMemory},
	} {
		if got := placement.Foremost(tt.counts); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
