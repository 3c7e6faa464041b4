package devices_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/scheduler/devices"
)

// both makes the plugin and the one that keeps back who waits, on one desk.
func both(t *testing.T, h *handle) (*devices.Plugin, *devices.Waiting) {
	t.Helper()
	made := devices.Plugins()
	p, err := made[devices.Name](t.Context(), nil, h)
	if err != nil {
		t.Fatal(err)
	}
	w, err := made[devices.WaitingName](t.Context(), nil, h)
	if err != nil {
		t.Fatal(err)
	}
	return p.(*devices.Plugin), w.(*devices.Waiting)
}

// TestOfPodsThatAskForTheSameOneIsTried fills a node, lets four pods wait of
// which one has a higher priority, and frees two GPUs.
func TestOfPodsThatAskForTheSameOneIsTried(t *testing.T) {
	n := t4Node(t, "n", 2, gpu.Sharing{})
	h := &handle{nodes: []*info{{node: n, generation: 1, pods: []*v1.Pod{onNode(asking("x", "", "gpu=1"), "n"), onNode(asking("y", "", "gpu=1"), "n")}}}}
	plugin, waiting := both(t, h)
	var pods []*v1.Pod
	try := func(p *v1.Pod) *fwk.Status {
		_, status := plugin.PreFilter(t.Context(), &state{data: map[fwk.StateKey]fwk.StateData{}}, p, h.list())
		return status
	}
	for i := range 4 {
		p := asking(fmt.Sprint("p", i), "", "gpu=1")
		if i == 2 {
			p.Spec.Priority = new(int32(5))
		}
		pods = append(pods, p)
		if got, want := try(p).Message(), "1 Insufficient nvidia.com/gpu"; got != want {
			t.Fatalf("pod %d: %q, want %q", i, got, want)
		}
	}
	let := func() []string {
		var out []string
		for _, p := range pods {
			if waiting.PreEnqueue(t.Context(), p).IsSuccess() {
				out = append(out, p.Name)
			}
		}
		return out
	}
	if diff := cmp.Diff([]string{"p2"}, let()); diff != "" {
		t.Errorf("of a full node, let through: -want +got\n%s", diff)
	}
	h.nodes[0] = &info{node: n, generation: 2}
	for _, want := range []string{"p2", "p0"} {
		p := pods[slices.IndexFunc(pods, func(p *v1.Pod) bool { return p.Name == want })]
		if late := asking("late", "", "gpu=1"); want == "p2" {
			late.CreationTimestamp = metav1.Unix(1, 0)
			if got := try(late).Message(); got != "pod d/p2 asks for the same and comes first" || !h.activated["p2"] {
				t.Errorf("a pod that comes late: %q, called %v", got, h.activated)
			}
		}
		if got := h.schedule(t, plugin, p); got == "" {
			t.Fatalf("pod %s fits nowhere", want)
		}
	}
	if !h.activated["p1"] {
		t.Errorf("called %v, want p1 as well", h.activated)
	}
	if got := try(pods[1]).Message(); got != "1 Insufficient nvidia.com/gpu" {
		t.Errorf("with both GPUs taken: %q", got)
	}
	h.deletes(pods[1])
	if diff := cmp.Diff([]string{"p0", "p1", "p2", "p3"}, let()); diff != "" { // p3 is first now, and the others wait no more
		t.Errorf("after the first is deleted, let through: -want +got\n%s", diff)
	}
}

// TestWhoChangesLinesLetsTheNextBeTried has the first of two that wait tolerate a taint,
// and be tried before the watch tells the lines of it: the other is first now.
func TestWhoChangesLinesLetsTheNextBeTried(t *testing.T) {
	n := t4Node(t, "n", 1, gpu.Sharing{})
	h := &handle{nodes: []*info{{node: n, generation: 1, pods: []*v1.Pod{onNode(asking("x", "", "gpu=1"), "n")}}}}
	plugin, waiting := both(t, h)
	first, second := asking("p0", "", "gpu=1"), asking("p1", "", "gpu=1")
	changed := first.DeepCopy()
	changed.Spec.Tolerations = []v1.Toleration{{Key: "spot", Operator: v1.TolerationOpExists}}
	for _, p := range []*v1.Pod{first, second, changed} {
		if _, status := plugin.PreFilter(t.Context(), &state{data: map[fwk.StateKey]fwk.StateData{}}, p, h.list()); status.Message() != "1 Insufficient nvidia.com/gpu" {
			t.Fatalf("pod %s: %v", p.Name, status)
		}
	}
	if !h.activated["p1"] || !waiting.PreEnqueue(t.Context(), second).IsSuccess() {
		t.Errorf("called %v, want the pod that is first now", h.activated)
	}
}

func onNode(p *v1.Pod, node string) *v1.Pod {
	p.Spec.NodeName = node
	return p
}

// TestAPodThatYieldsWaitsForItsTurn lets a pod come for which there is room while
// an older one that asks for the same has been called: it is not tried on other
// nodes, as one is that a filter has refused.
func TestAPodThatYieldsWaitsForItsTurn(t *testing.T) {
	n := t4Node(t, "n", 1, gpu.Sharing{})
	h := &handle{nodes: []*info{{node: n, generation: 1, pods: []*v1.Pod{onNode(asking("x", "", "gpu=1"), "n")}}}}
	plugin, _ := both(t, h)
	first, next := asking("p0", "", "gpu=1"), asking("p1", "", "gpu=1")
	if _, status := plugin.PreFilter(t.Context(), &state{data: map[fwk.StateKey]fwk.StateData{}}, first, h.list()); status.IsSuccess() {
		t.Fatal("a pod gets a GPU that another holds")
	}
	h.nodes[0] = &info{node: n, generation: 2}
	s := &state{data: map[fwk.StateKey]fwk.StateData{}}
	if _, status := plugin.PreFilter(t.Context(), s, next, h.list()); status.IsSuccess() {
		t.Fatal("the later pod does not yield")
	}
	_, status := plugin.PostFilter(t.Context(), s, next, nil)
	if wait := devices.WaitOf(plugin, next); status.Code() != fwk.UnschedulableAndUnresolvable || h.activated[next.UID] || wait != queue.Turn {
		t.Errorf("PostFilter: %v; tried again: %v; it waits for %q", status, h.activated[next.UID], wait.Code())
	}
}
