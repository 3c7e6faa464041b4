package snapshot

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api"
	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/request"
)

// Node is one node of a Builder: what its object offers, and what is held there.
type Node struct {
	Index  int // position in the Snapshot
	Object *v1.Node
	Spec   cluster.Spec
	// Foreign says that the node publishes no devices: they are counted, not chosen.
	Foreign bool
	// Odd says that the node offers its GPUs in a way that package placement cannot
	// describe: MIG devices as nvidia.com/gpu, whole GPUs in MIG mode, shares of MIG
	// devices, or shares of some GPUs beside others that are whole. Pods are tried
	// on such nodes one by one.
	Odd  bool
	Held map[types.UID]*Occupant // by pod, or by another key that the caller chose

	mig map[string]migPlace // by UUID
}

// migPlace is where a MIG device is: a GPU by position, profile and start.
type migPlace struct {
	gpu     int
	profile string
	start   int
}

// Occupant is one pod that holds devices of a node, or that they are held for.
type Occupant struct {
	Pod       *v1.Pod
	Placement cluster.Placement // may be released from the Snapshot, inside a Mark
	Hold      bool              // the pod is not there yet
}

// ReadNode reads what a node offers, with nothing held there.
func ReadNode(n *v1.Node) *Node {
	counted := devices.CountNode(n, nil, nil)
	return readNode(n, &counted)
}

// readNode is ReadNode for a node that was counted.
func readNode(n *v1.Node, counted *devices.Node) *Node {
	at := &Node{Object: n, Held: map[types.UID]*Occupant{}}
	var s gpu.Sharing
	var err error
	if counted.Published {
		s, err = devices.Sharing(n)
	}
	at.Foreign = !counted.Published && counted.Unreadable == nil
	at.Odd = counted.Unreadable != nil || err != nil || counted.Published && odd(counted.GPUs, s)
	at.Spec = specOf(counted, n)
	at.Spec.Shares = sharesOf(at, counted, s)
	for j := range at.Spec.GPUs {
		for _, m := range at.Spec.GPUs[j].MIG {
			if at.mig == nil {
				at.mig = map[string]migPlace{}
			}
			at.mig[m.UUID] = migPlace{j, m.Profile, m.Start}
		}
	}
	return at
}

// sharesOf is how many devices a node makes of each GPU: as its device plugin's
// configuration says, or, where it publishes no devices, as its labels say.
func sharesOf(at *Node, counted *devices.Node, s gpu.Sharing) int32 {
	switch {
	case at.Foreign && len(counted.GPUs) > 0:
		return int32(max(1, counted.GPUs[0].Shares))
	case s.Strategy == "" || s.Strategy == gpu.SharingNone:
		return 1
	}
	return int32(max(1, s.Replicas[api.ResourceGPU]))
}

// odd reports whether Node.Odd is to be set for GPUs that are divided as s says.
func odd(gpus []devices.GPU, s gpu.Sharing) bool {
	if len(s.Devices) > 0 {
		return true
	}
	for name, replicas := range s.Replicas {
		if name != api.ResourceGPU && replicas > 1 {
			return true
		}
	}
	return s.MIGStrategy != gpu.MIGMixed && slices.ContainsFunc(gpus, func(g devices.GPU) bool { return g.ComputeSlices > 0 })
}

// Offers reports whether n offers what the object that was read does. Then
// there is nothing to read again.
func (at *Node) Offers(n *v1.Node) bool {
	o := at.Object
	return o == n || devices.SameAnnotations(o, n) && sameAmounts(o.Status.Allocatable, n.Status.Allocatable) &&
		sameAmounts(o.Status.Capacity, n.Status.Capacity) && request.SharesAccepted(o.Annotations) == request.SharesAccepted(n.Annotations) &&
		(!at.Foreign || maps.Equal(o.Labels, n.Labels))
}

func sameAmounts(a, b v1.ResourceList) bool {
	if len(a) != len(b) {
		return false
	}
	for name, q := range a {
		if other, ok := b[name]; !ok || q.Cmp(other) != 0 {
			return false
		}
	}
	return true
}
