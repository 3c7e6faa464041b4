package devices

import (
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/request"
)

// memoryLabels are labels in which people write the memory of a node's GPUs by hand, beside
// GPU Feature Discovery's.
var memoryLabels = []string{"gpu-memory", "gpu.memory", "gpu_memory", "gpu-mem"}

// MemoryLabel reports whether a label is one in which people write the memory of GPUs.
func MemoryLabel(key string) bool { return slices.Contains(memoryLabels, key) }

// MemoryOf reads the memory of a GPU as people write it in a label, in MiB: "40gb", "40Gi",
// "40960", "40". A number without a unit is MiB from 1024 on, as GPU Feature Discovery
// writes it, and GiB below; gb is GiB, as in the names of GPUs.
func MemoryOf(text string) (mib int64, ok bool) {
	text = strings.ToLower(text)
	digits := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyz")
	n, err := strconv.ParseInt(strings.TrimRight(digits, "-_ "), 10, 40)
	if err != nil || n <= 0 {
		return 0, false
	}
	switch unit := strings.TrimPrefix(text, digits); unit {
	case "":
		if n < 1024 {
			n <<= 10
		}
	case "g", "gb", "gi", "gib":
		n <<= 10
	case "m", "mb", "mi", "mib":
	default:
		return 0, false
	}
	return n, n <= request.MostBytes>>20
}

// memoryByHand is the memory of a node's GPUs as people have written it, in MiB; 0 is that
// they have not.
func memoryByHand(node *v1.Node) int64 {
	for _, key := range append([]string{api.LabelMemory}, memoryLabels...) {
		if mib, ok := MemoryOf(node.Labels[key]); ok {
			return mib
		}
	}
	return 0
}
