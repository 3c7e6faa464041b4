package devices

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/kube"
)

// beside is a pod without devices in its scheduling cycle: it takes CPU and
// memory that the GPUs of a node may need.
type beside struct{ request cluster.Request }

const besideKey fwk.StateKey = Name + "/beside"

// Clone implements fwk.StateData; beside never changes.
func (b *beside) Clone() fwk.StateData { return b }

// passing takes note of a pod that asks for no GPU, where there are GPUs at all:
// the policy learns of it, and Score keeps it off nodes whose GPUs its CPU would
// strand. Where that makes no difference the stock plugins decide.
func (p *Plugin) passing(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) {
	s := &p.desk.score
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.update(klog.FromContext(ctx), p.desk, nodes, false) != nil || s.world.snapshot.TotalGPUs() == 0 {
		return
	}
	b := &beside{kube.Demand(pod, gpu.Sharing{})}
	if !tried(pod) {
		s.world.index.Arrive(&b.request)
	}
	state.Write(besideKey, b)
}

// tried says whether the scheduler has already told of a pod that it fits
// nowhere.
func tried(pod *v1.Pod) bool {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == v1.PodScheduled {
			return true
		}
	}
	return false
}

// besideOf gives what passing has noted, or nil.
func besideOf(state fwk.CycleState) *beside {
	data, err := state.Read(besideKey)
	if err != nil {
		return nil
	}
	b, _ := data.(*beside)
	return b
}

// score is how much less a node's GPUs are worth with the pod on it, in steps of
// the policy: 0 where it has none. Its order among equals is left out, as the
// stock plugins have their own.
func (b *beside) score(w *world, node int) int64 {
	score, _ := placement.ScoreOn(w.index, node, &b.request)
	return int64(score >> 16)
}
