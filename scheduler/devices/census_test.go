package devices_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics/legacyregistry"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/scheduler/devices"
)

// gpusByState reads berth_cluster_gpus as a scrape does: "" where it is not there.
func gpusByState(t *testing.T) string {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range families {
		if f.GetName() != "berth_cluster_gpus" {
			continue
		}
		for _, m := range f.GetMetric() {
			out = append(out, fmt.Sprint(m.GetLabel()[0].GetValue(), " ", m.GetGauge().GetValue()))
		}
	}
	return strings.Join(out, ", ")
}

// holding makes a pod that is bound to a node and holds a device of it.
func holding(name, node, uuid, resourceName string, amount, milli, bytes int64) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name), Annotations: map[string]string{
			api.AnnotationDevices: fmt.Sprintf(`{"main":[{"uuid":%q,"milliGPU":%d,"memoryBytes":%d}]}`, uuid, milli, bytes),
		}},
		Spec: v1.PodSpec{NodeName: node, Containers: []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{
			Limits: v1.ResourceList{v1.ResourceName(resourceName): *resource.NewQuantity(amount, resource.DecimalSI)},
		}}}},
	}
}

// TestGPUsAreCountedAsTheyAre changes nodes without a scheduling cycle between.
func TestGPUsAreCountedAsTheyAre(t *testing.T) {
	h := &handle{nodes: []*info{
		{node: t4Node(t, "a", 3, gpu.Sharing{}), generation: 1},
		{node: t4Node(t, "b", 1, gpu.Sharing{}), generation: 1},
	}}
	newPlugin(t, h) // registers the metrics, if no test has
	var broken error
	devices.NodesFrom(func() ([]fwk.NodeInfo, error) { return h.list(), broken })
	t.Cleanup(func() { devices.NodesFrom(func() ([]fwk.NodeInfo, error) { return nil, nil }) })
	expect := func(when, want string) {
		t.Helper()
		if got := gpusByState(t); got != want {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	p, _ := gpu.Find("Tesla T4")
	cards := gpu.New("a", p, 3)
	a, b := h.nodes[0], h.nodes[1]
	expect("nothing is held", "allocated 0, free 4, shared 0, unhealthy 0")
	a.pods = []*v1.Pod{
		holding("whole", "a", cards[0].UUID, api.ResourceGPU, 1, 1000, cards[0].MemoryBytes),
		holding("share", "a", cards[1].UUID, api.ResourceGPUMemory, 6, 6*1000/15, 6<<30),
	}
	a.generation++
	expect("a GPU and a share are held", "allocated 1, free 2, shared 1, unhealthy 0")
	broken = errors.New("not now")
	expect("nodes that cannot be listed are not counted", "")
	broken = nil
	b.node = b.node.DeepCopy()
	b.node.Annotations[api.AnnotationInventory] = strings.ReplaceAll(b.node.Annotations[api.AnnotationInventory], `"healthy":true`, `"healthy":false`)
	b.generation++
	expect("a GPU fails", "allocated 1, free 1, shared 1, unhealthy 1")
	a.pods = a.pods[1:]
	a.generation++
	expect("a pod is gone", "allocated 0, free 2, shared 1, unhealthy 1")
	h.nodes = h.nodes[:1]
	expect("a node is gone", "allocated 0, free 2, shared 1, unhealthy 0")
}
