package sharing

import (
	"fmt"
	"maps"
	"slices"

	"berth.dev/berth/core/gpu"
)

// MostReplicas is the most shares of one device: smaller ones would be less than a
// thousandth of a GPU, the smallest part that is counted.
const MostReplicas = 1000

// MostDevices is the most devices that one node offers. The kubelet accepts a list of
// 4 MiB from a device plugin, which is about three times as many.
const MostDevices = 16_384

// CheckReplicas reports the first resource, by name, of which s asks for more than
// MostReplicas shares or for fewer than 0, whatever the node has.
func CheckReplicas(s gpu.Sharing) error {
	for _, resource := range slices.Sorted(maps.Keys(s.Replicas)) {
		if n := s.Replicas[resource]; n < 0 || n > MostReplicas {
			return fmt.Errorf("%d replicas of %s: a device has at most %d; ask for fewer", n, resource, MostReplicas)
		}
	}
	return nil
}

// checkAmount reports a node that would offer more than MostDevices.
func checkAmount(gpus []gpu.GPU, s gpu.Sharing) error {
	most := 1
	for _, n := range s.Replicas {
		most = max(most, n)
	}
	devices := 0
	for _, g := range gpus {
		devices += max(1, len(g.MIG))
	}
	if devices > MostDevices/most { // the slower count is for those few that may be too many
		total := 0
		for _, g := range gpus {
			total += shares(g, s)
		}
		if total > MostDevices {
			return fmt.Errorf("the node would offer %d devices, and %d is the most; ask for fewer replicas", total, MostDevices)
		}
	}
	return nil
}
