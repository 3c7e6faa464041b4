package explain_test

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/kubetest"
)

// onKind has a pod select nodes of a label kind.
func onKind(kind string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"kind": kind} }
}

// kinds are two nodes of four GPUs and one of eight.
func kinds() []*v1.Node {
	var out []*v1.Node
	for _, n := range []struct {
		name, kind string
		gpus       int
	}{{"t4-1", "t4", 4}, {"t4-2", "t4", 4}, {"h100", "h100", 8}} {
		node := kubetest.Inventory(n.name, kubetest.A100s(n.name, n.gpus), "cpu", 64, api.ResourceGPU, n.gpus)
		node.Labels["kind"] = n.kind
		out = append(out, node)
	}
	return out
}

// TestThePlaceInLineIsAmongThoseThatCompete: of pods that all ask for nvidia.com/gpu,
// only those that could go to the same node stand in one another's way.
func TestThePlaceInLineIsAmongThoseThatCompete(t *testing.T) {
	gang := func(p *v1.Pod) {
		p.Status.Conditions[0].Reason, p.Status.Conditions[0].Message = "SchedulingGated", "waiting for 1 more pod of gang g (1 of 2 exist) [WaitingForGang]"
	}
	gated := func(p *v1.Pod) {
		p.Status.Conditions[0].Reason, p.Status.Conditions[0].Message = "SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates"
		p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "example.com/gate"}}
	}
	turn := func(p *v1.Pod) {
		p.Status.Conditions[0].Reason, p.Status.Conditions[0].Message = "SchedulingGated", "pod ns/x asks for the same and comes first [WaitingForTurn]"
	}
	var pods []*v1.Pod
	for i, p := range []*v1.Pod{
		kubetest.Unplaced("h-1", 0, 8, onKind("h100")), kubetest.Unplaced("h-2", 0, 8), // eight GPUs are on one node alone
		kubetest.Unplaced("half", 0, 1, onKind("t4"), gang), kubetest.Unplaced("held", 0, 1, onKind("t4"), gated),
		kubetest.Unplaced("t-1", 0, 1, onKind("t4")), kubetest.Unplaced("any", 0, 1, turn), kubetest.Unplaced("t-2", 0, 1, onKind("t4")), kubetest.Unplaced("none", 0, 1, onKind("a100")),
	} {
		p.CreationTimestamp = metav1.Time{Time: kubetest.Started.Add(time.Duration(i) * time.Second)}
		pods = append(pods, p)
	}
	want := map[string]string{
		"h-1": "1st of 3 that wait for nvidia.com/gpu", "h-2": "2nd of 3 that wait for nvidia.com/gpu", // and any
		"half": "to be placed", "held": "to be placed",
		"t-1": "1st of 3 that wait for nvidia.com/gpu", "t-2": "3rd of 3 that wait for nvidia.com/gpu",
		"any":  "4th of 5 that wait for nvidia.com/gpu", // behind those of both kinds
		"none": "the only one that waits for nvidia.com/gpu",
	}
	for _, p := range pods {
		if got := explain.PlaceInLine(p, pods, kinds(), nil).String(); got != want[p.Name] {
			t.Errorf("%s is %s, want %s", p.Name, got, want[p.Name])
		}
	}
	if got := explain.PlaceInLine(pods[6], pods, nil, nil).String(); got != "5th of 6 that wait for nvidia.com/gpu" {
		t.Errorf("for whom nodes are hidden, t-2 is %s", got)
	}
}

func TestOvertaken(t *testing.T) {
	runs := func(name, node string, created, began time.Duration, gpus int) *v1.Pod {
		p := kubetest.Pod(name, node, api.ResourceGPU, gpus)
		p.CreationTimestamp = metav1.Time{Time: kubetest.Started.Add(created)}
		p.Status.StartTime = &metav1.Time{Time: kubetest.Started.Add(began)}
		return p
	}
	large := kubetest.Unplaced("large", 10*time.Second, 4, onKind("t4"))
	all := []*v1.Pod{
		large, runs("older", "t4-1", 0, 0, 1), runs("other", "h100", 20*time.Second, 21*time.Second, 1), runs("equal", "t4-2", 20*time.Second, 21*time.Second, 4),
	}
	if got := explain.Overtaken(large, all, kinds(), nil).String(); got != "" {
		t.Errorf("overtaken by no pod: %q", got)
	}
	all = append(all, runs("small", "t4-1", 30*time.Second, 31*time.Second, 1), runs("two", "t4-2", 30*time.Second, 41*time.Second, 2))
	want := "created later and started first, because smaller requests fit where this one (4 nvidia.com/gpu) does not: ns/two (2 nvidia.com/gpu on t4-2), ns/small (1 nvidia.com/gpu on t4-1)"
	if got := explain.Overtaken(large, all, kinds(), nil).String(); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	for range 3 {
		all = append(all, runs("more", "t4-1", 30*time.Second, 31*time.Second, 1))
	}
	if got := explain.Overtaken(large, all, kinds(), nil).String(); !strings.HasSuffix(got, ", 2 more") {
		t.Errorf("of five, the rest is not counted: %q", got)
	}
	if got := explain.Overtaken(large, all, nil, nil).String(); got != "" {
		t.Errorf("without nodes: %q", got)
	}
	if got := explain.Overtaken(all[1], all, kinds(), nil).String(); got != "" {
		t.Errorf("one that runs: %q", got)
	}
}
