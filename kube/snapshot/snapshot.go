package snapshot

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api"
	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/request"
)

// Cluster is a cluster in core's values: what package cluster makes a Snapshot
// of, what is placed on it, and what its pods ask for.
type Cluster struct {
	Nodes []cluster.Spec // by name
	// Snapshot is of Nodes, with Held assumed.
	Snapshot *cluster.Snapshot
	Held     []cluster.Placement // of Nodes: one for each pod that is bound there, less pods beyond the most that its node runs; a Snapshot of Nodes takes them all
	// HeldBy are the pods of Held, in its order.
	HeldBy []*v1.Pod
	Asks   []Ask // by name
	// Closed are nodes left out, and why: "n1 (cordoned)".
	Closed []string

	builder Builder
	open    map[string]*countedNode // by name
}

// countedNode is a node of a Builder, with the pods that were counted on it.
type countedNode struct {
	at      *Node
	counted *devices.Node
}

// Ask is what one pod asks of one node.
type Ask struct {
	Name     string          // namespace/name
	Bound    bool            // it has a node already
	Request  cluster.Request // Products is empty; see Products
	Products []string        // of Cluster.Nodes' GPUs that its node selector allows; nil is any
}

// Read reads nodes and pods into a Cluster. Nodes that take no pods are left
// out, with what is held there. Taints and affinity are not read; of node selectors only
// the GPU product is. Asks has the pods that have not ended, except those that
// a DaemonSet or a kubelet's own folder brings with each node.
//
// A holder whose device is not known counts on a GPU of its node with room. A
// device that is shared by MIG and by time counts as wholly held.
func Read(nodes []*v1.Node, pods []*v1.Pod) (Cluster, error) {
	counts, _ := devices.CountNodes(nodes, pods)
	objects := map[string]*v1.Node{}
	for _, n := range nodes {
		objects[n.Name] = n
	}
	var out Cluster
	var read []*Node
	open := map[string]*countedNode{}
	out.open = open
	for i := range counts {
		n := &counts[i]
		if n.Remark != "" {
			out.Closed = append(out.Closed, fmt.Sprintf("%s (%s)", n.Name, n.Remark))
			continue
		}
		at := readNode(objects[n.Name], n)
		open[n.Name] = &countedNode{at, n}
		read, out.Nodes = append(read, at), append(out.Nodes, at.Spec)
	}
	b, err := NewBuilder(read)
	if err != nil {
		return Cluster{}, err
	}
	out.Snapshot, out.builder = b.Snapshot, b
	for _, pod := range slices.SortedFunc(slices.Values(pods), byName) {
		if request.Ended(pod) {
			continue
		}
		var held []devices.Holder
		if n := open[pod.Spec.NodeName]; n != nil {
			o := &Occupant{Pod: pod, Placement: b.placementOf(n, pod)}
			if b.Assume(n.at, pod.UID, o) {
				out.Held, out.HeldBy = append(out.Held, o.Placement), append(out.HeldBy, pod)
			}
			held = holdersOf(n.counted, pod)
		}
		if !request.OnEveryNode(pod) {
			out.Asks = append(out.Asks, askOf(pod, held, counts))
		}
	}
	return out, nil
}

// Refresh reads a node of the Snapshot again, with the pods that are on it now. It
// reports false if the Snapshot has no such node, or cannot hold what it has become. Nodes,
// Held and Asks stay as they were read first.
func (c *Cluster) Refresh(n *v1.Node, pods []*v1.Pod) bool {
	at := c.open[n.Name]
	if at == nil {
		return false
	}
	var asking []*v1.Pod
	for _, p := range pods {
		if request.Of(p) != nil {
			asking = append(asking, p)
		}
	}
	counted := devices.CountNode(n, asking, nil)
	if at.counted = &counted; counted.Remark != "" || !c.builder.Replace(at.at, n) {
		return false
	}
	for _, pod := range slices.SortedFunc(slices.Values(pods), byName) {
		c.builder.Assume(at.at, pod.UID, &Occupant{Pod: pod, Placement: c.builder.placementOf(at, pod)})
	}
	return true
}

// Occupants are the pods that are counted on a node now, by UID; nil is that the node is
// not in the Snapshot. They are the Cluster's own: read them, do not change them.
func (c *Cluster) Occupants(node string) map[types.UID]*Occupant {
	if n := c.open[node]; n != nil {
		return n.at.Held
	}
	return nil
}

func byName(a, b *v1.Pod) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// holdersOf returns what a pod holds on its node.
func holdersOf(n *devices.Node, pod *v1.Pod) []devices.Holder {
	var out []devices.Holder
	n.EachHolder(func(h devices.Holder) {
		if h.Pod == pod.Name && h.Namespace == pod.Namespace {
			out = append(out, h)
		}
	})
	return out
}

// askOf makes the request of a pod. What it holds tells how large its shares
// are; of a pod that holds nothing, the shares that the cluster offers.
func askOf(pod *v1.Pod, held []devices.Holder, nodes []devices.Node) Ask {
	a := Ask{Name: pod.Namespace + "/" + pod.Name, Bound: pod.Spec.NodeName != "", Request: request.NodeResources(pod)}
	want := request.Of(pod)
	r := &a.Request
	switch {
	case want == nil:
		return a
	case want[api.ResourceGPUMemory] == 0 && want[api.ResourceGPU] == 0 && request.DemandShares(r, pod):
		return a.products(pod)
	case want[api.ResourceGPUMemory] > 0:
		r.GPUs, r.GPUMemoryBytes = int32(max(1, min(want[api.ResourceGPU], 127))), min(want[api.ResourceGPUMemory], 1<<20)<<30
	case want[api.ResourceGPU] > 0:
		r.GPUs, r.MilliGPU = int32(min(want[api.ResourceGPU], 127)), cluster.Whole
	case want[api.ResourceGPUShared] > 0:
		r.GPUs, r.MilliGPU = int32(min(want[api.ResourceGPUShared], 127)), shareOf(nodes)
	default:
		for _, name := range slices.Sorted(maps.Keys(want)) {
			if profile, ok := strings.CutPrefix(strings.TrimSuffix(name, ".shared"), api.ResourceMIGPrefix); ok {
				r.GPUs, r.Profile = int32(min(want[name], 127)), gpu.CanonicalProfile(profile)
				break
			}
		}
	}
	if r.MilliGPU > 0 && len(held) > 0 && held[0].MilliGPU > 0 && held[0].MilliGPU < cluster.Whole {
		r.MilliGPU = int32(held[0].MilliGPU)
	}
	return a.products(pod)
}

// products notes the GPU product that a pod's node selector names.
func (a Ask) products(pod *v1.Pod) Ask {
	if selected := pod.Spec.NodeSelector[api.LabelProduct]; selected != "" {
		a.Products = []string{productOf(gpu.BareLabel(selected))}
	}
	return a
}

// shareOf is the milli-GPUs of a share that is asked for by name: as the first
// shared GPU has them, else a whole GPU.
func shareOf(nodes []devices.Node) int32 {
	for _, n := range nodes {
		for _, g := range n.GPUs {
			if g.Shares > 1 {
				return int32(max(1, cluster.Whole/g.Shares))
			}
		}
	}
	return cluster.Whole
}

// ByCount reports whether devices of a node are counted and not chosen, because it publishes
// no inventory (foreign), or because package placement cannot describe how it offers its
// GPUs (odd): see Node.
func (c *Cluster) ByCount(node string) (foreign, odd bool) {
	n := c.open[node]
	return n != nil && n.at.Foreign, n != nil && n.at.Odd
}
