package devices_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/api"
	core "berth.dev/berth/core/cluster"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/kube/commit"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/sim"
)

// TestPodsGoWhereTheSimulationPutsThem schedules pods of the openb trace one by
// one, until the nodes are full and beyond, and compares the node and the GPUs
// of each with those that the placement core gives for the same order.
func TestPodsGoWhereTheSimulationPutsThem(t *testing.T) {
	for _, file := range []string{"pods_default.csv", "pods_gpuspec20.csv", "pods_multigpu30.csv"} {
		t.Run(file, func(t *testing.T) {
			specs, pods := readTrace(t, file)
			s, err := core.New(specs)
			if err != nil {
				t.Fatal(err)
			}
			x := placement.NewIndex(s, placement.NewBerth(placement.Setup{Cluster: s}, placement.DefaultParams()), nil, nil)
			h := &handle{}
			for i := range specs {
				h.nodes = append(h.nodes, &info{node: nodeOf(t, &specs[i]), generation: int64(i + 1)})
			}
			plugin, placed := newPlugin(t, h), 0
			for i, r := range sim.Requests(s, pods) {
				if r.GPUs == 0 {
					continue
				}
				x.Arrive(&r)
				p, ok, err := placement.Place(x, &r)
				if err != nil {
					t.Fatal(err)
				}
				want := ""
				if ok {
					placed++
					want = s.Node(p.Node).Name
					for _, d := range p.Devices {
						want += fmt.Sprint(" ", d.GPU)
					}
				} else {
					x.Refuse(&r)
				}
				if got := h.schedule(t, plugin, podOf(&pods[i])); got != want {
					t.Fatalf("pod %d, %+v: scheduled to %q, simulated to %q", i, pods[i], got, want)
				}
			}
			t.Logf("%d placed", placed)
			if placed < 200 {
				t.Errorf("%d pods were placed: too few to show anything", placed)
			}
		})
	}
}

// chooser is a plugin that chooses node and devices.
type chooser interface {
	fwk.PreFilterPlugin
	fwk.ReservePlugin
}

// schedule runs one scheduling cycle of a pod, as far as Reserve, and gives its
// node and the indexes of its GPUs, or "".
func (h *handle) schedule(t *testing.T, plugin chooser, pod *v1.Pod) string {
	t.Helper()
	s := &state{data: map[fwk.StateKey]fwk.StateData{}}
	left, status := plugin.PreFilter(t.Context(), s, pod, h.list())
	if !status.IsSuccess() {
		return ""
	}
	if left.AllNodes() || len(left.NodeNames) != 1 {
		t.Fatalf("pod %s is not narrowed to one node", pod.Name)
	}
	name := left.NodeNames.UnsortedList()[0]
	if status := plugin.Reserve(t.Context(), s, pod, name); !status.IsSuccess() {
		t.Fatalf("reserve pod %s on node %s: %v", pod.Name, name, status)
	}
	at := slices.IndexFunc(h.nodes, func(n *info) bool { return n.node.Name == name })
	was := h.nodes[at]
	h.clock++
	h.nodes[at] = &info{node: was.node, pods: append(slices.Clone(was.pods), pod), generation: 1<<20 + h.clock}
	out := name
	for _, uuid := range chosen(t, plugin, h, s, pod, name) {
		out += " " + uuid[strings.LastIndex(uuid, "-")+1:]
	}
	return out
}

// chosen gives the UUIDs that Bind would write for a pod.
func chosen(t *testing.T, plugin any, h *handle, s *state, pod *v1.Pod, node string) []string {
	t.Helper()
	var written string
	h.client = client(func(b *v1.Binding) error { written = b.Annotations[api.AnnotationDevices]; return nil }, func(string) *v1.Pod { return nil })
	if status := plugin.(fwk.BindPlugin).Bind(t.Context(), s, pod, node); !status.IsSuccess() {
		t.Fatalf("bind pod %s: %v", pod.Name, status)
	}
	named, err := commit.ParseCommitment(written)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, d := range named["main"] {
		out = append(out, d.UUID)
	}
	return out
}

func readTrace(t testing.TB, file string) ([]core.Spec, []sim.Pod) {
	t.Helper()
	open := func(name string) *os.File {
		f, err := os.Open(filepath.Join("..", "..", "sim", "testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	specs, err := sim.ReadNodes("nodes.csv", open("nodes.csv"))
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(specs, func(a, b core.Spec) int { return strings.Compare(a.Name, b.Name) })
	pods, err := sim.ReadPods(file, open(file), specs)
	if err != nil {
		t.Fatal(err)
	}
	return specs, pods
}

// nodeOf makes a node that publishes the GPUs of spec.
func nodeOf(t testing.TB, spec *core.Spec) *v1.Node {
	t.Helper()
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: spec.Name, Annotations: map[string]string{}, Labels: map[string]string{}}}
	var list []devices.InventoryGPU
	for _, g := range spec.GPUs {
		n.Labels[api.LabelProduct] = strings.ReplaceAll(g.Product, " ", "-")
		list = append(list, devices.InventoryGPU{
			Index: g.Index, UUID: fmt.Sprintf("GPU-%s-%d", spec.Name, g.Index), Product: g.Product, MemoryBytes: g.MemoryBytes, Healthy: g.Healthy, Clique: g.Clique, NUMANode: &g.NUMANode,
		})
	}
	raw, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) > 0 {
		n.Annotations[api.AnnotationInventory] = string(raw)
	}
	gib := int64(0)
	for _, g := range spec.GPUs {
		gib += g.MemoryBytes >> 30
	}
	n.Status.Allocatable = v1.ResourceList{
		"cpu": *resource.NewMilliQuantity(spec.CPUMilli, resource.DecimalSI), "memory": *resource.NewQuantity(spec.MemoryBytes, resource.BinarySI),
		"pods": resource.MustParse("110"), api.ResourceGPU: *resource.NewQuantity(int64(len(spec.GPUs)), resource.DecimalSI),
		api.ResourceGPUMemory: *resource.NewQuantity(gib, resource.DecimalSI),
	}
	n.Status.Capacity = n.Status.Allocatable
	return n
}

// podOf makes the pod of a trace's row: parts of a GPU are asked for as KAI's
// users do.
func podOf(p *sim.Pod) *v1.Pod {
	want := v1.ResourceList{
		"cpu": *resource.NewMilliQuantity(p.CPUMilli, resource.DecimalSI), "memory": *resource.NewQuantity(p.MemoryBytes, resource.BinarySI),
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: "d", UID: types.UID(p.Name), Annotations: map[string]string{}}}
	switch {
	case p.MilliGPU < core.Whole:
		pod.Annotations[api.AnnotationKAIFraction] = strconv.FormatFloat(float64(p.MilliGPU)/core.Whole, 'f', -1, 64)
	case p.GPUs > 0:
		want[api.ResourceGPU] = *resource.NewQuantity(int64(p.GPUs), resource.DecimalSI)
	}
	pod.Spec.Containers = []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{Limits: want, Requests: want}}}
	if len(p.Models) > 0 {
		pod.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{{
				Key: api.LabelProduct, Operator: v1.NodeSelectorOpIn, Values: p.Models,
			}}}},
		}}}
	}
	return pod
}
