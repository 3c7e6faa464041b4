package snapshot_test

import (
	"math/rand"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/cluster"
	"berth.dev/berth/kube/kubetest"
	"berth.dev/berth/kube/snapshot"
)

// freeOf is the milli-GPUs free on each GPU of a stock once what is held is
// placed.
func freeOf(t *testing.T, stock snapshot.Cluster) map[string][]int32 {
	t.Helper()
	s, err := cluster.New(stock.Nodes)
	if err != nil {
		t.Fatal(err)
	}
	for i := range stock.Held {
		if err := s.Assume(&stock.Held[i]); err != nil {
			t.Fatal(err)
		}
	}
	out := map[string][]int32{}
	for i := range s.Len() {
		for _, g := range s.GPUs(i) {
			out[s.Node(i).Name] = append(out[s.Node(i).Name], g.FreeMilli)
		}
	}
	return out
}

func TestStockCountsWhatIsHeld(t *testing.T) {
	cordoned := kubetest.Inventory("off", kubetest.A100s("off", 8), api.ResourceGPU, 8)
	cordoned.Spec.Unschedulable = true
	sick := kubetest.A100s("sick", 2)
	sick[0].Healthy = false
	nodes := []*v1.Node{
		kubetest.Inventory("whole", kubetest.A100s("whole", 4), "cpu", 8, api.ResourceGPU, 4),
		kubetest.Inventory("mig", kubetest.Cut("mig", kubetest.A100s("mig", 2)), api.ResourceMIGPrefix+"1g.5gb", 14),
		kubetest.Inventory("shared", kubetest.Share(kubetest.A100s("shared", 2), 4), api.ResourceGPU, 8),
		kubetest.Foreign("foreign", kubetest.Product("NVIDIA-L4", 2, 23034), api.ResourceGPU, 2),
		kubetest.Inventory("sick", sick, api.ResourceGPU, 1), cordoned,
	}
	nodes[2].Labels[api.LabelReplicas] = "4"
	daemon := kubetest.Controlled(kubetest.Pod("agent", "whole", "cpu", 1), "DaemonSet", "agent")
	selecting := kubetest.Pod("waits", "", api.ResourceGPU, 8)
	selecting.Spec.NodeSelector = map[string]string{api.LabelProduct: "NVIDIA-A100-SXM4-40GB"}
	stock, err := snapshot.Read(nodes, []*v1.Pod{
		kubetest.Observed(kubetest.Pod("two", "whole", "cpu", 3, api.ResourceGPU, 2), api.ResourceGPU, "GPU-whole-1", "GPU-whole-3"),
		kubetest.Observed(kubetest.Pod("slice", "mig", api.ResourceMIGPrefix+"1g.5gb", 1), api.ResourceMIGPrefix+"1g.5gb", "MIG-mig-1-2"),
		kubetest.Observed(kubetest.Pod("quarter", "shared", api.ResourceGPU, 1), api.ResourceGPU, "GPU-shared-0::2"),
		kubetest.Pod("somewhere", "foreign", api.ResourceGPU, 1),
		kubetest.Observed(kubetest.Pod("broken", "sick", api.ResourceGPU, 1), api.ResourceGPU, "GPU-sick-0"),
		kubetest.Pod("gone", "off", api.ResourceGPU, 1), kubetest.Phase(kubetest.Pod("done", "whole", api.ResourceGPU, 1), v1.PodSucceeded),
		daemon, selecting,
	})
	if err != nil {
		t.Fatal(err)
	}
	// A slice is 1/7, which is 142 milli-GPUs.
	want := map[string][]int32{
		"whole": {1000, 0, 1000, 0}, "mig": {1000, 858}, "shared": {750, 1000}, "foreign": {0, 1000}, "sick": {1000, 1000},
	}
	if diff := cmp.Diff(want, freeOf(t, stock)); diff != "" {
		t.Errorf("free milli-GPUs differ (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"off (cordoned)"}, stock.Closed); diff != "" {
		t.Errorf("closed nodes differ (-want +got):\n%s", diff)
	}
	asks := map[string]snapshot.Ask{}
	for _, a := range stock.Asks {
		asks[a.Name] = a
	}
	for name, want := range map[string]cluster.Request{
		"ns/two":     {CPUMilli: 3000, GPUs: 2, MilliGPU: 1000},
		"ns/slice":   {GPUs: 1, Profile: "1g.5gb"},
		"ns/quarter": {GPUs: 1, MilliGPU: 250},
		"ns/waits":   {GPUs: 8, MilliGPU: 1000},
	} {
		if got := asks[name].Request; got != want {
			t.Errorf("%s asks for %+v, want %+v", name, got, want)
		}
	}
	if got := asks["ns/waits"].Products; !slices.Equal(got, []string{"NVIDIA A100-SXM4-40GB"}) || asks["ns/waits"].Bound {
		t.Errorf("ns/waits may use %v and is bound: %v; want A100s, and not bound", got, asks["ns/waits"].Bound)
	}
	if _, ok := asks["ns/agent"]; ok || len(asks) != 7 {
		t.Errorf("%d pods ask, want 7 without the DaemonSet's and the one that has ended: %v", len(asks), asks)
	}
}

func TestStockCountsSharesByMemoryAndInitContainers(t *testing.T) {
	n := kubetest.Inventory("n", kubetest.A100s("n", 1), "cpu", 16, api.ResourceGPU, 1, api.ResourceGPUMemory, 40)
	p := kubetest.Observed(kubetest.Pod("p", "n", "cpu", 2, api.ResourceGPUMemory, 10), api.ResourceGPUMemory, "GPU-n-0::mem-10-0")
	always := v1.ContainerRestartPolicyAlways
	p.Spec.InitContainers = []v1.Container{
		{Name: "side", RestartPolicy: &always, Resources: v1.ResourceRequirements{Requests: kubetest.Amounts("cpu", 1)}},
		{Name: "init", Resources: v1.ResourceRequirements{Requests: kubetest.Amounts("cpu", 5)}},
	}
	p.Spec.Overhead = kubetest.Amounts("cpu", 1)
	stock, err := snapshot.Read([]*v1.Node{n}, []*v1.Pod{p})
	if err != nil {
		t.Fatal(err)
	}
	// Init containers: 1 + 5, more than 2 + 1; and 1 of overhead. 10 of 40 GiB are a quarter.
	want := cluster.Request{CPUMilli: 7000, GPUs: 1, GPUMemoryBytes: 10 << 30}
	if got := stock.Asks[0].Request; got != want {
		t.Errorf("request is %+v, want %+v", got, want)
	}
	if got := freeOf(t, stock)["n"]; !slices.Equal(got, []int32{750}) {
		t.Errorf("free milli-GPUs are %v, want 750", got)
	}
}

// TestStockIsNeverOvercommitted throws pods at nodes as no scheduler would.
func TestStockIsNeverOvercommitted(t *testing.T) {
	for seed := range int64(200) {
		rng := rand.New(rand.NewSource(seed))
		nodes := []*v1.Node{
			kubetest.Inventory("a", kubetest.A100s("a", 2), "cpu", 4, api.ResourceGPU, 2),
			kubetest.Inventory("b", kubetest.Cut("b", kubetest.A100s("b", 1)), "cpu", 4, api.ResourceMIGPrefix+"1g.5gb", 7),
			kubetest.Foreign("c", kubetest.Product("NVIDIA-L4", 1, 23034), "cpu", 4, api.ResourceGPU, 4),
		}
		var pods []*v1.Pod
		for i := range rng.Intn(12) {
			node := []string{"a", "b", "c", "none", ""}[rng.Intn(5)]
			resource := []string{api.ResourceGPU, api.ResourceGPUShared, api.ResourceGPUMemory, api.ResourceMIGPrefix + "1g.5gb", "cpu"}[rng.Intn(5)]
			p := kubetest.Pod("p"+string(rune('a'+i)), node, resource, rng.Intn(5))
			if rng.Intn(2) == 0 {
				ids := []string{"GPU-a-0", "GPU-a-1::3", "MIG-b-0-2", "GPU-a-0::mem-9-0", "GPU-x", ""}
				p = kubetest.Observed(p, resource, ids[rng.Intn(len(ids))], ids[rng.Intn(len(ids))])
			}
			pods = append(pods, p)
		}
		stock, err := snapshot.Read(nodes, pods)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		freeOf(t, stock)
	}
}

func TestStockLeavesStaticPodsOut(t *testing.T) {
	p := kubetest.Pod("kube-proxy", "n")
	yes := true
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "Node", Name: "n", Controller: &yes}}
	stock, err := snapshot.Read([]*v1.Node{kubetest.Inventory("n", kubetest.A100s("n", 1), api.ResourceGPU, 1)}, []*v1.Pod{p})
	if err != nil || len(stock.Asks) != 0 || len(stock.Held) != 1 {
		t.Errorf("asks %v, held %v, error %v; want none, one, none", stock.Asks, stock.Held, err)
	}
}

// TestANodeSaysThatItsSharesDo reads the annotation by which several shares of a node
// serve pods that ask for several GPUs.
func TestANodeSaysThatItsSharesDo(t *testing.T) {
	for note, want := range map[string]bool{"true": true, "yes": false, "": false} {
		n := kubetest.Inventory("n", kubetest.Share(kubetest.A100s("n", 2), 4), api.ResourceGPU, 8)
		n.Annotations[api.AnnotationSharesDo] = note
		read, err := snapshot.Read([]*v1.Node{n}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := read.Nodes[0].SharesDo; got != want {
			t.Errorf("%s=%q: %v", api.AnnotationSharesDo, note, got)
		}
	}
}
