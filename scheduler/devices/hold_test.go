package devices_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/core/gpu"
	"berth.dev/berth/scheduler/devices"
)

// twoNodes are a with two GPUs, of which on has some, and b with one.
func twoNodes(t *testing.T, on ...*v1.Pod) *handle {
	return &handle{nodes: []*info{
		{node: t4Node(t, "a", 2, gpu.Sharing{}), generation: 1, pods: on},
		{node: t4Node(t, "b", 1, gpu.Sharing{}), generation: 2},
	}}
}

// named is a pod on node a that holds the GPU at a position there.
func named(name string, gpus ...int) *v1.Pod {
	p, _ := gpu.Find("Tesla T4")
	var list []string
	for _, j := range gpus {
		list = append(list, `{"uuid":"`+gpu.New("a", p, 2)[j].UUID+`"}`)
	}
	return onNode(asking(name, `{"main":[`+strings.Join(list, ",")+`]}`, "gpu=1"), "a")
}

func TestWhatIsHeldIsForItsPodAlone(t *testing.T) {
	h := twoNodes(t)
	plugin := newPlugin(t, h)
	owner, other, third := asking("owner", "", "gpu=2"), asking("other", "", "gpu=1"), asking("third", "", "gpu=1")
	if err := devices.Hold(t.Context(), plugin, owner, "a", 0, 1); err != nil {
		t.Fatal(err)
	}
	if got := h.schedule(t, plugin, other); !strings.HasPrefix(got, "b ") {
		t.Errorf("another pod goes to %q, want b", got)
	}
	if got := h.schedule(t, plugin, third); got != "" {
		t.Errorf("a third pod goes to %q: all else is held", got)
	}
	s := &state{data: map[fwk.StateKey]fwk.StateData{}}
	plugin.PreFilter(t.Context(), s, third, h.list())
	if status := plugin.Filter(t.Context(), s, third, h.nodes[0]); status.Code() != fwk.Unschedulable {
		t.Errorf("Filter of the third pod on a: %v", status)
	}
	if drift := devices.Drift(plugin, h.list()); drift != "" {
		t.Error(drift)
	}
	if got := h.schedule(t, plugin, owner); !strings.HasPrefix(got, "a ") {
		t.Errorf("the owner goes to %q, want a", got)
	}
	if devices.LetGo(plugin, owner) {
		t.Error("the hold is still there when its pod has the devices")
	}
}

func TestWhatIsHeldAndNotFreeYetIsWaitedFor(t *testing.T) {
	h := twoNodes(t, leaving(named("v0", 0)), leaving(named("v1", 1)))
	plugin := newPlugin(t, h)
	owner, thief := asking("owner", "", "gpu=2"), asking("thief", "", "gpu=1")
	h.nodes[1].node.Spec.Unschedulable = true
	if err := devices.Hold(t.Context(), plugin, owner, "a", 0, 1); err != nil {
		t.Fatal(err)
	}
	filter := func(pod *v1.Pod) *fwk.Status {
		s := &state{data: map[fwk.StateKey]fwk.StateData{}}
		plugin.PreFilter(t.Context(), s, pod, h.list())
		return plugin.Filter(t.Context(), s, pod, h.nodes[0])
	}
	if got, want := filter(owner).Message(), "devices held for the pod are not free yet"; got != want {
		t.Errorf("with both GPUs taken: %q, want %q", got, want)
	}
	h.nodes[0] = &info{node: h.nodes[0].node, generation: 3, pods: h.nodes[0].pods[1:]}
	if status := filter(thief); status.IsSuccess() {
		t.Error("the first GPU that is freed goes to another pod")
	}
	if status := filter(owner); status.IsSuccess() {
		t.Error("the pod is let in with one GPU of two")
	}
	h.nodes[0] = &info{node: h.nodes[0].node, generation: 4}
	if status := filter(thief); status.IsSuccess() {
		t.Error("a GPU that is freed goes to another pod")
	}
	if status := filter(owner); !status.IsSuccess() {
		t.Errorf("with both GPUs free: %v", status)
	}
	if drift := devices.Drift(plugin, h.list()); drift != "" {
		t.Error(drift)
	}
	if !devices.LetGo(plugin, owner) || !filter(thief).IsSuccess() {
		t.Error("what is given up is not free")
	}
}

// TestWhoWaitsHearsThatAHoldIsOver deletes a pod that has a hold and was never bound, or
// has somebody else bind it elsewhere: of neither the NodeInfo tells.
func TestWhoWaitsHearsThatAHoldIsOver(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(h *handle, owner *v1.Pod)
	}{
		{"its pod is deleted", func(h *handle, owner *v1.Pod) { h.deletes(owner) }},
		{"its pod is bound elsewhere", func(h *handle, owner *v1.Pod) { h.handler.OnUpdate(owner, onNode(owner.DeepCopy(), "elsewhere")) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := twoNodes(t)
			plugin := newPlugin(t, h)
			h.nodes[1].node.Spec.Unschedulable = true
			owner, other := asking("owner", "", "gpu=2"), asking("other", "", "gpu=1")
			if err := devices.Hold(t.Context(), plugin, owner, "a", 0, 1); err != nil {
				t.Fatal(err)
			}
			if got := h.schedule(t, plugin, other); got != "" {
				t.Fatalf("another pod goes to %q: all is held", got)
			}
			tt.end(h, owner)
			if !h.activated["other"] {
				t.Error("nobody is called when the hold is over")
			}
			if got := h.schedule(t, plugin, other); !strings.HasPrefix(got, "a ") {
				t.Errorf("the pod that waited goes to %q, want a", got)
			}
		})
	}
}

func TestAHoldOfADeviceThatFailsIsNotGiven(t *testing.T) {
	h := twoNodes(t)
	plugin, owner := newPlugin(t, h), asking("owner", "", "gpu=1")
	if err := devices.Hold(t.Context(), plugin, owner, "a", 1); err != nil {
		t.Fatal(err)
	}
	sick := h.nodes[0].node.DeepCopy()
	for name, text := range sick.Annotations {
		at := strings.LastIndex(text, `"healthy":true`)
		if at >= 0 {
			sick.Annotations[name] = text[:at] + `"healthy":false` + text[at+len(`"healthy":true`):]
		}
	}
	h.nodes[0] = &info{node: sick, generation: 3}
	s := &state{data: map[fwk.StateKey]fwk.StateData{}}
	plugin.PreFilter(t.Context(), s, owner, h.list())
	if status := plugin.Filter(t.Context(), s, owner, h.nodes[0]); status.IsSuccess() {
		t.Error("a GPU that has failed is given")
	}
}

// TestNothingIsHeldForAPodThatIsGone has the watch see the end of a pod that a
// scheduling cycle is still deciding about: no event comes after what the cycle notes.
func TestNothingIsHeldForAPodThatIsGone(t *testing.T) {
	h := twoNodes(t)
	plugin := newPlugin(t, h)
	owner, other := asking("owner", "", "gpu=2"), asking("other", "", "gpu=2")
	h.deletes(owner)
	if err := devices.Hold(t.Context(), plugin, owner, "a", 0, 1); err != nil {
		t.Fatal(err)
	}
	if got := h.schedule(t, plugin, other); !strings.HasPrefix(got, "a ") {
		t.Errorf("another pod goes to %q, want a: what is held for a pod that is gone is never given up", got)
	}
	if drift := devices.Drift(plugin, h.list()); drift != "" {
		t.Error(drift)
	}
}

// TestAPodThatIsGoneIsFirstInNoLine has a pod deleted while a scheduling cycle finds that it
// fits nowhere: those that ask for the same must not wait for it.
func TestAPodThatIsGoneIsFirstInNoLine(t *testing.T) {
	h := twoNodes(t)
	plugin, waiting := both(t, h)
	ghost, next := asking("a-ghost", "", "gpu=4"), asking("b-next", "", "gpu=4")
	h.deletes(ghost)
	for _, p := range []*v1.Pod{ghost, next} {
		plugin.PreFilter(t.Context(), &state{data: map[fwk.StateKey]fwk.StateData{}}, p, h.list())
	}
	if status := waiting.PreEnqueue(t.Context(), next); !status.IsSuccess() {
		t.Errorf("the pod that is first now is not tried: %v", status)
	}
}
