package devices_test

import (
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/core/gpu"
)

// TestARefusedBindingLeavesItsGPUsToOthers: a pod is chosen for, an admission
// webhook refuses its binding, and it is forgotten before any other pod is looked
// at, so that no NodeInfo ever shows it. Its GPUs are the next pod's.
//
// KAI-Scheduler issue 2074 reports pods that are refused like this for ever, and
// starve all others; see TestPeersFailingCases.
func TestARefusedBindingLeavesItsGPUsToOthers(t *testing.T) {
	h := &handle{nodes: []*info{{node: sized(t4Node(t, "n", 2, gpu.Sharing{})), generation: 1}}}
	h.client = client(func(b *v1.Binding) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, b.Name, errors.New("a webhook says no"))
	}, func(string) *v1.Pod { return nil })
	plugin := newPlugin(t, h)
	schedule := func(pod *v1.Pod) (*state, *fwk.Status) {
		s := &state{data: map[fwk.StateKey]fwk.StateData{}}
		if _, status := plugin.PreFilter(t.Context(), s, pod, []fwk.NodeInfo{h.nodes[0]}); !status.IsSuccess() {
			return s, status
		}
		if status := plugin.Filter(t.Context(), s, pod, h.nodes[0]); !status.IsSuccess() {
			return s, status
		}
		return s, plugin.Reserve(t.Context(), s, pod, "n")
	}
	for range 3 {
		doomed := asking("doomed", "", "gpu=2")
		s, status := schedule(doomed)
		if !status.IsSuccess() {
			t.Fatalf("the pod that is to be refused: %v", status)
		}
		if status := plugin.Bind(t.Context(), s, doomed, "n"); status.IsSuccess() {
			t.Fatal("it was bound")
		}
		plugin.Unreserve(t.Context(), s, doomed, "n")
		h.nodes[0].generation += 2 // the pod came into the cache, and left it
	}
	if _, status := schedule(asking("other", "", "gpu=1")); !status.IsSuccess() {
		t.Errorf("another pod: %v", status)
	}
}
