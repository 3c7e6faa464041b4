package devices_test

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	core "berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/scheduler/devices"
)

// BenchmarkDecision is the plugin's part of scheduling cycles of pods with one
// GPU each: PreFilter, Filter of one node, Reserve. Every node has 8 GPUs; pods
// are bound as they come, and when the cluster is full it is emptied.
func BenchmarkDecision(b *testing.B) {
	for _, nodes := range []int{500, 5000} {
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			h, plugin := filled(b, nodes)
			list, at := h.list(), map[string]int{}
			for i, n := range h.nodes {
				at[n.node.Name] = i
			}
			b.ResetTimer()
			for n := range b.N {
				if n%(8*nodes) == 8*nodes-1 {
					b.StopTimer()
					h, plugin = filled(b, nodes)
					list = h.list()
					b.StartTimer()
				}
				pod, s := asking(fmt.Sprint("p", n), "", "gpu=1"), &state{data: map[fwk.StateKey]fwk.StateData{}}
				left, status := plugin.PreFilter(b.Context(), s, pod, list)
				if !status.IsSuccess() {
					b.Fatal(status)
				}
				name := left.NodeNames.UnsortedList()[0]
				i := at[name]
				if status := plugin.Filter(b.Context(), s, pod, list[i]); !status.IsSuccess() {
					b.Fatal(status)
				}
				if status := plugin.Reserve(b.Context(), s, pod, name); !status.IsSuccess() {
					b.Fatal(status)
				}
				was := h.nodes[i]
				h.clock++
				h.nodes[i] = &info{node: was.node, pods: append(slices.Clip(was.pods), pod), generation: 1<<20 + h.clock}
				h.byName[name], list[i] = h.nodes[i], h.nodes[i]
			}
		})
	}
}

// filled makes a plugin that has seen nodes with 8 GPUs and nothing held.
func filled(b *testing.B, nodes int) (*handle, *devices.Plugin) {
	b.Helper()
	h := &handle{byName: map[string]*info{}}
	p, _ := gpu.Find("NVIDIA H100 80GB HBM3")
	for i := range nodes {
		spec := core.Spec{Name: fmt.Sprintf("n%04d", i), CPUMilli: 96000, MemoryBytes: 1 << 40, GPUs: gpu.New(fmt.Sprint("n", i), p, 8)}
		n := &info{node: nodeOf(b, &spec), generation: int64(i + 1)}
		h.nodes, h.byName[spec.Name] = append(h.nodes, n), n
	}
	made, err := devices.Factory()(b.Context(), nil, h)
	if err != nil {
		b.Fatal(err)
	}
	plugin := made.(*devices.Plugin)
	s := &state{data: map[fwk.StateKey]fwk.StateData{}}
	plugin.PreFilter(b.Context(), s, &v1.Pod{Spec: asking("first", "", "gpu=1").Spec}, h.list())
	return h, plugin
}
