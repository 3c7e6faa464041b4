package simulation

import (
	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/sim"
)

// Impossible returns the pods that fit no node of empty, in their order.
func Impossible(empty *cluster.Snapshot, pods []sim.Pod) []sim.Pod {
	never := map[cluster.Request]bool{}
	var out []sim.Pod
	for i, r := range sim.Requests(empty, pods) {
		known, ok := never[r]
		if !ok {
			known = true
			for n := range empty.Len() {
				if placement.Fit(empty, n, &r) == placement.Fits {
					known = false
					break
				}
			}
			never[r] = known
		}
		if known {
			out = append(out, pods[i])
		}
	}
	return out
}
