package request

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
)

// GPUsText is what a pod asks for of GPUs, short enough for a column: "2", "1x1g.5gb"
// of a MIG profile, "6GiB" of memory, "1 gpu.shared" of another resource, joined by
// "+"; "-" is none.
func GPUsText(pod *v1.Pod) string {
	want := Of(pod)
	var out []string
	memory := want[api.ResourceGPUMemory]
	for _, name := range slices.Sorted(maps.Keys(want)) {
		n := want[name]
		profile, mig := strings.CutPrefix(name, api.ResourceMIGPrefix)
		switch {
		case name == api.ResourceGPU && memory > 0:
			out = append(out, fmt.Sprintf("%d of %dGiB", n, memory))
		case name == api.ResourceGPU:
			out = append(out, fmt.Sprint(n))
		case name == api.ResourceGPUMemory && want[api.ResourceGPU] > 0:
		case name == api.ResourceGPUMemory:
			out = append(out, fmt.Sprintf("%dGiB", n))
		case mig:
			out = append(out, fmt.Sprintf("%dx%s", n, profile))
		default:
			_, short, _ := strings.Cut(name, "/")
			out = append(out, fmt.Sprintf("%d %s", n, cmp.Or(short, name)))
		}
	}
	return cmp.Or(strings.Join(out, "+"), "-")
}
