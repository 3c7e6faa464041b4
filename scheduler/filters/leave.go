package filters

import (
	"context"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// Leave has bound pods leave their nodes, tentatively. Those that have left before and are not
// among them come back.
func (t *Filters) Leave(gone []*v1.Pod) {
	want := make(map[types.UID]bool, len(gone))
	for _, pod := range gone {
		want[pod.UID] = true
	}
	for _, uid := range slices.Sorted(maps.Keys(t.left)) {
		if want[uid] {
			continue
		}
		s := t.left[uid]
		delete(t.left, uid)
		if info, err := t.pl.All.Get(s.node); err == nil {
			info.AddPodInfo(s.info)
			t.moved(s, info, t.pl.P.Handle.RunPreFilterExtensionAddPod)
		}
	}
	for _, pod := range gone {
		if _, had := t.left[pod.UID]; had {
			continue
		}
		if s, ok := t.takeOff(pod); ok {
			if t.left == nil {
				t.left = map[types.UID]placedPod{}
			}
			t.left[pod.UID] = s
			if info, err := t.pl.All.Get(s.node); err == nil {
				t.moved(s, info, t.pl.P.Handle.RunPreFilterExtensionRemovePod)
			}
		}
	}
}

// takeOff takes a bound pod off its node, and reports whether it was there.
func (t *Filters) takeOff(pod *v1.Pod) (placedPod, bool) {
	info, err := t.pl.All.Get(pod.Spec.NodeName)
	if err != nil {
		return placedPod{}, false // the node is gone, and the pod with it
	}
	for _, there := range info.GetPods() {
		if there.GetPod().UID == pod.UID {
			return placedPod{there, pod.Spec.NodeName}, info.RemovePod(klog.FromContext(t.ctx), there.GetPod()) == nil
		}
	}
	return placedPod{}, false
}

// moved has every kind know of a bound pod that has left or come back.
func (t *Filters) moved(s placedPod, info fwk.NodeInfo, run func(context.Context, fwk.CycleState, *v1.Pod, fwk.PodInfo, fwk.NodeInfo) *fwk.Status) {
	t.changes++
	t.changed[s.node] = t.changes
	for _, k := range t.kinds {
		switch {
		case k.refused != nil:
		case k.spreads:
			k.stale = true
		default:
			k.stale = !run(t.ctx, k.state, k.pod, s.info, info).IsSuccess() || k.stale
		}
	}
}
