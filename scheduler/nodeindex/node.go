package nodeindex

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/api"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/snapshot"
	"berth.dev/berth/scheduler/state"
)

// node is one node of a view.
type node struct {
	snapshot.Node
	Generation int64         // of the NodeInfo that was read last
	From       *state.Ledger // that Held was made from, and its version then
	Version    int
}

// newNode reads a node.
func newNode(n *v1.Node) *node { return &node{Node: *snapshot.ReadNode(n), Generation: -1} }

// judgedSame says whether classes judge a node as they did object.
func (at *node) judgedSame(n *v1.Node) bool {
	o := at.Object
	return o == n || o.Spec.Unschedulable == n.Spec.Unschedulable && slices.Equal(o.Spec.Taints, n.Spec.Taints) && maps.Equal(o.Labels, n.Labels) &&
		o.Annotations[api.AnnotationDatasets] == n.Annotations[api.AnnotationDatasets] && sameImages(o, n)
}

// foreignUnits is how many devices of a node without an inventory are asked for
// by the pods there.
func foreignUnits(info fwk.NodeInfo) int64 {
	asked := info.GetRequested().GetScalarResources()
	return asked[api.ResourceGPU] + asked[api.ResourceGPUShared]
}

// Prefer brings one node of the view to what info shows, with mu held, and
// names the devices there that the placement policy chooses for a pod. at is nil
// where there is no view, named where the policy has nothing to say.
func (s *index) Prefer(log klog.Logger, d *state.State, info fwk.NodeInfo, pod *v1.Pod, w *state.Request) (at *node, named map[string][]sharing.Named) {
	if s.View == nil {
		return nil, nil
	}
	if at = s.View.ByName[info.Node().Name]; at == nil {
		return nil, nil
	}
	if at.Generation != info.GetGeneration() && !s.View.refresh(log, d, at, info) {
		s.View = nil // made again for the next pod
		return nil, nil
	}
	if !w.Devices || w.Hold != nil || !state.OneKind(w.Parts) || at.Foreign || at.Odd {
		return at, nil
	}
	r, _, err := s.View.Request(pod, w)
	if r.Class = 0; err != nil || placement.Fit(s.View.Snapshot, at.Index, &r) != placement.Fits {
		return at, nil
	}
	devices, ok := s.View.Named(&at.Node, placement.On(s.View.Index, at.Index, &r).Devices)
	if !ok {
		return at, nil
	}
	if named, ok = state.NameDevices(w.Parts, devices); !ok {
		return at, nil
	}
	return at, named
}
