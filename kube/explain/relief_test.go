package explain_test

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/explain"
)

// plainFit is the slow twin of the judge for what TestEveryHelpHelps makes: it adds up
// what pods ask for, and compares labels and taints by hand.
func plainFit(n *v1.Node, pods []*v1.Pod, pod *v1.Pod) bool {
	if n.Spec.Unschedulable {
		return false
	}
	for k, v := range pod.Spec.NodeSelector {
		if n.Labels[k] != v {
			return false
		}
	}
	for _, taint := range n.Spec.Taints {
		tolerated := false
		for _, t := range pod.Spec.Tolerations {
			tolerated = tolerated || t.Key == taint.Key && t.Value == taint.Value && t.Effect == taint.Effect
		}
		if !tolerated {
			return false
		}
	}
	for _, name := range []v1.ResourceName{"cpu", "memory", api.ResourceGPU} {
		has := n.Status.Allocatable[name]
		left := has.Value()
		for _, p := range append([]*v1.Pod{pod}, pods...) {
			if p == pod || p.Spec.NodeName == n.Name {
				q := p.Spec.Containers[0].Resources.Requests[name]
				left -= q.Value()
			}
		}
		if left < 0 {
			return false
		}
	}
	for _, p := range pods {
		for _, a := range p.Spec.Containers[0].Ports {
			for _, b := range pod.Spec.Containers[0].Ports {
				if p.Spec.NodeName == n.Name && b.HostPort > 0 && a.HostPort == b.HostPort {
					return false
				}
			}
		}
	}
	return true
}

// patch is a pod with the patch that makes it another, as the API server applies it.
func patch(t *testing.T, before, after *v1.Pod) *v1.Pod {
	t.Helper()
	text, err := explain.PatchOf(before, after)
	if err != nil || text == "" {
		t.Fatalf("patch %q, error %v", text, err)
	}
	was, err := json.Marshal(before)
	if err != nil {
		t.Fatal(err)
	}
	is, err := strategicpatch.StrategicMergePatch(was, []byte(`{"spec":`+text+`}`), v1.Pod{})
	if err != nil {
		t.Fatalf("apply %s: %v", text, err)
	}
	var out v1.Pod
	if err := json.Unmarshal(is, &out); err != nil {
		t.Fatal(err)
	}
	return &out
}

// TestEveryHelpHelps: on random clusters the judge says of a pod that it fits where the
// slow twin does, and a pod with any change that is offered fits on the node that is
// named.
func TestEveryHelpHelps(t *testing.T) {
	helps, pairs := 0, 0
	for seed := range int64(400) {
		r := rand.New(rand.NewSource(seed))
		var nodes []*v1.Node
		var pods []*v1.Pod
		for i := range 1 + r.Intn(4) {
			n := big(fmt.Sprint("n-", i), func(n *v1.Node) {
				n.Spec.Unschedulable = r.Intn(6) == 0
				n.Labels["pool"] = string(rune('a' + r.Intn(3)))
				if r.Intn(3) == 0 {
					n.Spec.Taints = []v1.Taint{{Key: "team", Value: string(rune('x' + r.Intn(2))), Effect: v1.TaintEffectNoSchedule}}
				}
			})
			nodes = append(nodes, n)
			pods = append(pods, holds("h-"+n.Name, n.Name, r.Intn(5), 1+r.Intn(47), func(p *v1.Pod) {
				if r.Intn(4) == 0 {
					portOf(8080)(p)
				}
			}))
		}
		pod := refused([]any{"cpu", 1 + r.Intn(60), "memory", (1 + r.Intn(220)) << 30, api.ResourceGPU, 1 + r.Intn(6)}, func(p *v1.Pod) {
			if r.Intn(3) == 0 {
				selectorOf("pool", string(rune('a'+r.Intn(4))))(p)
			}
			if r.Intn(3) == 0 {
				portOf(8080)(p)
			}
		})
		on := trial(t, nodes, pods...)
		for i, gaps := range on.Judge(pod).Nodes {
			if got, want := len(gaps.Gaps) == 0, plainFit(nodes[i], pods, pod); got != want {
				t.Fatalf("seed %d: %s fits: %v, and the slow twin says %v; gaps %+v", seed, gaps.Node, got, want, gaps.Gaps)
			}
		}
		if _, fits := on.Fits(pod); fits {
			continue
		}
		for _, h := range on.Helps(pod) {
			helps++
			if len(h.Change) > 60 {
				pairs++
			}
			at := -1
			for i := range nodes {
				if nodes[i].Name == h.Node {
					at = i
				}
			}
			if at < 0 || !plainFit(nodes[at], pods, h.Pod) {
				t.Fatalf("seed %d: %q is said to help on %s, and does not", seed, h.Change, h.Node)
			}
			if patched := patch(t, pod, h.Pod); !plainFit(nodes[at], pods, patched) {
				t.Fatalf("seed %d: %q is said to help on %s, and its patch does not: %+v", seed, h.Change, h.Node, patched.Spec)
			}
		}
	}
	if helps < 100 {
		t.Errorf("only %d helps were offered", helps)
	}
	t.Logf("%d helps, of them about %d double ones", helps, pairs)
}
