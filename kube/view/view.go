package view

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/core/cost"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/request"
)

// View is the GPUs of a cluster at one moment, and who holds them.
type View struct {
	Nodes   []devices.Node // by name; nodes without GPUs too
	Total   devices.Count
	Waiting []Waiting // by owner; those that have a pod without a node
}

// Holds reports whether pods hold GPUs of a node, or parts of them; also of one that the view does not have.
func (v *View) Holds(node string) bool {
	i, there := slices.BinarySearchFunc(v.Nodes, node, func(n devices.Node, name string) int { return strings.Compare(n.Name, name) })
	return !there || v.Nodes[i].Held > 0
}

// Waiting is an owner some of whose pods ask for GPUs and are bound to no node.
type Waiting struct {
	request.Owner
	Pods int
}

// Cluster reads nodes and pods into a View. It is a pure function; of the
// objects it keeps the nodes' label maps. The order of its arguments does not
// matter.
//
// Which device a pod holds is told by what Berth's scheduler committed
// (annotation berth.dev/devices), else by what the kubelet reports
// (allocatedResourcesStatus), else not at all: then the pod counts on its node
// without an index. A pod holds from the time it is bound until its phase is
// Succeeded or Failed, also while it is being deleted.
//
// A node without the annotation berth.dev/inventory, as on a cluster that
// Berth is not installed in, is read from NVIDIA's labels and its capacity.
func Cluster(nodes []*v1.Node, pods []*v1.Pod) View {
	var v View
	var waiting map[request.Owner]int
	v.Nodes, waiting = devices.CountNodes(nodes, pods)
	for owner, n := range waiting {
		v.Waiting = append(v.Waiting, Waiting{owner, n})
	}
	slices.SortFunc(v.Waiting, func(a, b Waiting) int { return request.CompareOwners(a.Owner, b.Owner) })
	v.sum()
	return v
}

// SetDRA notes the devices that a DRA driver alone offers on the nodes of the view, which
// are among nodes. GPUs that labels tell of there are closed, not free: no pod gets them
// as a resource.
func (v *View) SetDRA(d *devices.DRA, nodes []*v1.Node) {
	only := map[string]int{}
	for _, n := range nodes {
		only[n.Name] = d.Only(n)
	}
	for i := range v.Nodes {
		n := &v.Nodes[i]
		if n.ClaimOnly = only[n.Name]; n.ClaimOnly > 0 {
			n.Closed, n.Free = n.Closed+n.Free, 0
		}
	}
	v.Total = devices.Count{Busy: v.Total.Busy, BusyKnown: v.Total.BusyKnown}
	v.sum()
}

func (v *View) sum() {
	for _, n := range v.Nodes {
		v.Total.Physical += n.Physical
		v.Total.Unhealthy += n.Unhealthy
		v.Total.Held += n.Held
		v.Total.Free += n.Free
		v.Total.Broken += n.Broken
		v.Total.Closed += n.Closed
		v.Total.Prices = cost.AddAmounts(v.Total.Prices, n.Prices...)
	}
}
