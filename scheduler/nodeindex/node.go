package nodeindex

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/snapshot"
	"berth.dev/berth/scheduler/state"
)

// node is one node of a view.
type node struct {
	snapshot.Node
	Generation int64         // of the NodeInfo that was read last
	From       *state.Ledger // that Held was made from, and its version then
	Version    int

	offers *devices.Offer // how Object offers its GPUs; nil is not read yet
	of     *v1.Node       // that offers was read from
}

// offer is how the node offers its GPUs.
func (at *node) offer() *devices.Offer {
	if at.of != at.Object {
		at.offers, at.of = devices.OfferOf(at.Object), at.Object
	}
	return at.offers
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
