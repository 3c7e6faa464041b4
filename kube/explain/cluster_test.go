package explain_test

import (
	"math/rand"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/kubetest"
	"berth.dev/berth/kube/request"
)

func trial(t testing.TB, nodes []*v1.Node, pods ...*v1.Pod) *explain.Cluster {
	t.Helper()
	out, err := explain.NewCluster(nodes, pods)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// waits is a pod without a node, changed by edits.
func waits(asks []any, edits ...func(*v1.Pod)) *v1.Pod {
	p := kubetest.Pod("waits", "", asks...)
	for _, edit := range edits {
		edit(p)
	}
	return p
}

func TestReliefs(t *testing.T) {
	selecting := func(key, value string) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{key: value} }
	}
	tainted := kubetest.Inventory("tainted", kubetest.A100s("tainted", 2), "cpu", 8, api.ResourceGPU, 2)
	tainted.Spec.Taints = []v1.Taint{{Key: "team", Value: "nlp", Effect: v1.TaintEffectNoSchedule}}
	cordoned := kubetest.Inventory("cordoned", kubetest.A100s("cordoned", 8), "cpu", 8, api.ResourceGPU, 8)
	cordoned.Spec.Unschedulable = true
	four := kubetest.Inventory("four", kubetest.A100s("four", 4), "cpu", 8, api.ResourceGPU, 4)
	four.Labels["size"] = "four"
	nodes := []*v1.Node{four, tainted, cordoned}
	held := kubetest.Observed(kubetest.Pod("held", "four", api.ResourceGPU, 2), api.ResourceGPU, "GPU-four-0", "GPU-four-1")
	tests := []struct {
		name string
		pod  *v1.Pod
		fits string // node; "" is none
		want []reasons.Relief
	}{
		{"two of four are free", waits([]any{api.ResourceGPU, 2}), "four", nil},
		{
			"fewer GPUs would do, as many as there are", waits([]any{api.ResourceGPU, 4}), "",
			[]reasons.Relief{{Change: "ask for 2 nvidia.com/gpu instead of 4", Node: "four"}},
		},
		{
			"of what it asks for in equal numbers, the first by name", waits([]any{api.ResourceGPU, 4, api.ResourceGPUMemory, 4}), "",
			[]reasons.Relief{{Change: "ask for 2 nvidia.com/gpu instead of 4", Node: "four"}},
		},
		{
			"its selector keeps it from the free ones", waits([]any{api.ResourceGPU, 2}, selecting("size", "five")), "",
			[]reasons.Relief{{Change: "leave the node selector and affinity out", Node: "four"}, {Change: "select size=four instead", Node: "four"}},
		},
		{
			"its selector names a label that nobody has", waits([]any{api.ResourceGPU, 1}, selecting("missing", "")), "", []reasons.Relief{
				{Change: "leave the node selector and affinity out", Node: "four"},
			},
		},
		{
			"CPU is what is short", waits([]any{api.ResourceGPU, 1, "cpu", 9}), "",
			[]reasons.Relief{{Change: "ask for 8 of CPU at most", Node: "four"}},
		},
		{"no node has the resource", waits([]any{api.ResourceMIGPrefix + "1g.5gb", 1}), "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			on := trial(t, nodes, held)
			node, ok := on.Fits(tt.pod)
			if node != tt.fits || ok != (tt.fits != "") {
				t.Errorf("Fits = %q, %v, want %q", node, ok, tt.fits)
			}
			if ok {
				return
			}
			if diff := cmp.Diff(tt.want, on.Reliefs(tt.pod), cmpopts.IgnoreFields(reasons.Relief{}, "Command")); diff != "" {
				t.Errorf("Reliefs differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReliefByToleration(t *testing.T) {
	tainted := kubetest.Inventory("tainted", kubetest.A100s("tainted", 2), "cpu", 8, api.ResourceGPU, 2)
	tainted.Spec.Taints = []v1.Taint{{Key: "team", Value: "nlp", Effect: v1.TaintEffectNoSchedule}}
	want := []reasons.Relief{{
		Change: "tolerate the taint team=nlp:NoSchedule", Node: "tainted",
		Command: `kubectl patch pod waits -n ns -p '{"spec":{"tolerations":[{"effect":"NoSchedule","key":"team","operator":"Equal","value":"nlp"}]}}'`,
	}}
	if diff := cmp.Diff(want, trial(t, []*v1.Node{tainted}).Reliefs(waits([]any{api.ResourceGPU, 2}))); diff != "" {
		t.Errorf("Reliefs differ (-want +got):\n%s", diff)
	}
}

func TestInTheWayIsWhoHoldsWhatThePodCouldUse(t *testing.T) {
	nodes := []*v1.Node{
		kubetest.Inventory("a", kubetest.A100s("a", 4), "cpu", 8, api.ResourceGPU, 4), kubetest.Inventory("b", kubetest.A100s("b", 2), "cpu", 8, api.ResourceGPU, 2),
	}
	book := kubetest.Observed(kubetest.Pod("nb-0", "a", api.ResourceGPU, 2), api.ResourceGPU, "GPU-a-0", "GPU-a-1")
	book.Labels[api.LabelNotebook] = "nb"
	small := kubetest.Observed(kubetest.Pod("small", "b", api.ResourceGPU, 1), api.ResourceGPU, "GPU-b-0")
	got := trial(t, nodes, book, small).InTheWay(waits([]any{api.ResourceGPU, 3}))
	if len(got) != 1 || got[0].Node != "a" || got[0].MilliGPU != 2000 || got[0].Oldest.Owner != (request.Owner{Kind: "Notebook", Namespace: "ns", Name: "nb"}) {
		t.Errorf("InTheWay = %+v, want notebook nb with 2 GPUs of a, and nobody of b, which is too small", got)
	}
}

// TestReliefsHold: on random clusters, whatever is said to help helps, and nothing is
// said of a pod that fits after its change made it ask for less than it could.
func TestReliefsHold(t *testing.T) {
	for seed := range int64(200) {
		r := rand.New(rand.NewSource(seed))
		var nodes []*v1.Node
		var pods []*v1.Pod
		for i := range 1 + r.Intn(4) {
			name, count := string(rune('a'+i)), 1+r.Intn(8)
			nodes = append(nodes, kubetest.Inventory(name, kubetest.A100s(name, count), "cpu", 8, api.ResourceGPU, count))
			if n := r.Intn(count + 1); n > 0 {
				var ids []string
				for k := range n {
					ids = append(ids, inventoryID(name, k))
				}
				pods = append(pods, kubetest.Observed(kubetest.Pod("held-"+name, name, api.ResourceGPU, n), api.ResourceGPU, ids...))
			}
		}
		on, want := trial(t, nodes, pods...), 1+r.Intn(8)
		free := mostFree(nodes, pods)
		_, fits := on.Fits(waits([]any{api.ResourceGPU, want}))
		if fits != (want <= free) {
			t.Fatalf("seed %d: %d of at most %d free fits: %v", seed, want, free, fits)
		}
		reliefs := on.Reliefs(waits([]any{api.ResourceGPU, want}))
		if !fits && (len(reliefs) == 1) != (free > 0) {
			t.Fatalf("seed %d: %d do not fit, at most %d are free, and helps are %v", seed, want, free, reliefs)
		}
	}
}

func inventoryID(node string, k int) string { return kubetest.A100s(node, k+1)[k].UUID }

// mostFree is the most GPUs free on one node, by counting.
func mostFree(nodes []*v1.Node, pods []*v1.Pod) int {
	most := 0
	for _, n := range nodes {
		q := n.Status.Capacity[api.ResourceGPU]
		free := int(q.Value())
		if i := slices.IndexFunc(pods, func(p *v1.Pod) bool { return p.Spec.NodeName == n.Name }); i >= 0 {
			free -= int(request.Of(pods[i])[api.ResourceGPU])
		}
		most = max(most, free)
	}
	return most
}
