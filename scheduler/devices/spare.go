package devices

import (
	"context"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/kube/request"
)

// beside is a pod without devices in its scheduling cycle: it takes CPU and
// memory that the GPUs of a node may need.
type beside struct{ request cluster.Request }

const besideKey fwk.StateKey = Name + "/beside"

// Clone implements fwk.StateData; beside never changes.
func (b *beside) Clone() fwk.StateData { return b }

// passing is PreFilter for a pod that asks for no GPU, where there are GPUs at
// all: the policy learns of it. One that nobody wants spread is given the node
// whose GPUs it strands least, as package placement says it; of others Score
// keeps to such nodes, among what the stock plugins like. It gives "" where they
// decide.
func (p *Plugin) passing(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) string {
	s := &p.desk.score
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.update(klog.FromContext(ctx), p.desk, nodes, false) != nil || s.world.snapshot.TotalGPUs() == 0 {
		return ""
	}
	b := &beside{request.Demand(pod, gpu.Sharing{})}
	if !tried(pod) {
		s.world.index.Arrive(&b.request)
	}
	if unspread(pod) && !p.desk.takeWide(pod.UID) {
		if w := newWanted(pod, nil); w.simple {
			if r, _, err := s.world.request(pod, w); err == nil {
				if i, ok := s.world.index.Best(&r); ok {
					w.request, w.node = r, s.world.sites[i].object.Name
					state.Write(wantedKey, w)
					return w.node
				}
			}
		}
	}
	state.Write(besideKey, b)
	return ""
}

// unspread says whether nobody wants a pod apart from others like it: it stands
// alone or belongs to a Job. Pods of replicated kinds are spread by default.
func unspread(pod *v1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner == nil || owner.Kind == "Job" && strings.HasPrefix(owner.APIVersion, "batch/")
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
