package fit

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/scheduler/nodeindex"
	"berth.dev/berth/scheduler/state"
)

// others is a pod without devices in its scheduling cycle: it takes CPU and
// memory that the GPUs of a node may need.
type others struct{ request cluster.Request }

const besideKey fwk.StateKey = Name + "/beside"

// Clone implements fwk.StateData; beside never changes.
func (b *others) Clone() fwk.StateData { return b }

// passing is PreFilter for a pod that asks for no GPU, where there are GPUs at all. The policy learns of
// the pod, unless each node has one of its kind, as in View.learn. A pod that need not be spread is given
// the node whose GPUs it strands least, as package placement says it; of others Score keeps to such nodes,
// among what the stock plugins like. It gives "" where they decide.
func (p *Plugin) passing(ctx context.Context, cycle fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) string {
	s := &p.Cluster.Index
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.Update(klog.FromContext(ctx), p.Cluster.State, nodes, false) != nil || s.View.Snapshot.TotalGPUs() == 0 {
		return ""
	}
	b := &others{request.Demand(pod, gpu.Sharing{})}
	if !tried(pod) && !request.OnEveryNode(pod) {
		s.View.Index.Arrive(&b.request)
	}
	if unspread(pod) && !p.Cluster.TakeRetryAll(pod.UID) {
		if w := state.NewRequest(pod, nil); w.Simple {
			if r, _, err := s.View.Request(pod, w); err == nil {
				if i, ok := s.View.Index.Best(&r); ok {
					w.Request, w.Node = r, s.View.Nodes[i].Object.Name
					cycle.Write(state.RequestKey, w)
					return w.Node
				}
			}
		}
	}
	cycle.Write(besideKey, b)
	return ""
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

// othersOf gives what passing has noted, or nil.
func othersOf(cycle fwk.CycleState) *others {
	data, err := cycle.Read(besideKey)
	if err != nil {
		return nil
	}
	b, _ := data.(*others)
	return b
}

// score is how much less a node's GPUs are worth with the pod on it, in steps of
// the policy: 0 where it has none. Its order among equals is left out, as the
// stock plugins have their own.
func (b *others) score(w *nodeindex.View, node int) int64 {
	score, _ := placement.ScoreOn(w.Index, node, &b.request, placement.Stay{})
	return int64(score >> 16)
}
