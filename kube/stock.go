package kube

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gpu"
)

// Stock is a cluster in core's values: what package cluster makes a Snapshot
// of, what is placed on it, and what its pods ask for.
type Stock struct {
	Nodes []cluster.Spec      // by name
	Held  []cluster.Placement // of Nodes: one for each pod that is bound there; a Snapshot of Nodes takes them all
	// HeldBy are the pods of Held, in its order.
	HeldBy []*v1.Pod
	Asks   []Ask // by name
	// Closed are nodes left out, and why: "n1 (cordoned)".
	Closed []string
}

// Ask is what one pod asks of one node.
type Ask struct {
	Name     string          // namespace/name
	Bound    bool            // it has a node already
	Request  cluster.Request // Products is empty; see Products
	Products []string        // of Stock.Nodes' GPUs that its node selector allows; nil is any
}

// StockOf reads nodes and pods into a Stock. Nodes that take no pods are left
// out, with what is held there. Taints and affinity are not read; of node selectors only
// the GPU product is. Asks has the pods that have not ended, save for those that
// a DaemonSet or a kubelet's own folder brings with each node.
//
// A holder whose device is not known counts on a GPU of its node with room. A
// device that is shared by MIG and by time counts as wholly held.
func StockOf(nodes []*v1.Node, pods []*v1.Pod) (Stock, error) {
	v := Cluster(nodes, pods)
	byName := map[string]*v1.Node{}
	for _, n := range nodes {
		byName[n.Name] = n
	}
	var out Stock
	counted := map[string]*Node{}
	for i := range v.Nodes {
		n := &v.Nodes[i]
		if n.Remark != "" {
			out.Closed = append(out.Closed, fmt.Sprintf("%s (%s)", n.Name, n.Remark))
			continue
		}
		counted[n.Name] = n
		out.Nodes = append(out.Nodes, specOf(n, byName[n.Name]))
	}
	s, err := cluster.New(out.Nodes)
	if err != nil {
		return Stock{}, fmt.Errorf("count the cluster: %w", err)
	}
	sorted := slices.SortedFunc(slices.Values(pods), func(a, b *v1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, pod := range sorted {
		if pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
			continue
		}
		var held []Holder
		if n := counted[pod.Spec.NodeName]; n != nil {
			i, _ := s.Find(n.Name)
			p := placementOf(s, i, n, pod)
			if err := s.Assume(&p); err != nil {
				return Stock{}, fmt.Errorf("count pod %s/%s: %w", pod.Namespace, pod.Name, err)
			}
			out.Held, out.HeldBy = append(out.Held, p), append(out.HeldBy, pod)
			held = holdersOf(n, pod)
		}
		if !everyNode(pod) {
			out.Asks = append(out.Asks, askOf(pod, held, v))
		}
	}
	return out, nil
}

// everyNode says whether a pod is one that comes with each node.
func everyNode(pod *v1.Pod) bool {
	ref := metav1.GetControllerOfNoCopy(pod)
	return ref != nil && (ref.Kind == "DaemonSet" || ref.Kind == "Node")
}

// specOf describes a node by its allocatable CPU and memory and its GPUs. A
// GPU with MIG devices that its product is not known to have takes nothing.
func specOf(n *Node, object *v1.Node) cluster.Spec {
	spec := cluster.Spec{
		Name:     n.Name,
		CPUMilli: max(0, MilliAmount(object.Status.Allocatable.Cpu(), MostMilli)), MemoryBytes: max(0, Amount(object.Status.Allocatable.Memory(), MostBytes)),
		SharesDo: saysSharesDo(object.Annotations),
	}
	for _, g := range n.GPUs[:min(len(n.GPUs), 127)] {
		p, known := gpu.Find(g.Product)
		card := gpu.GPU{
			Index: g.Index, UUID: g.UUID, Product: productOf(g.Product), MemoryBytes: g.MemoryBytes, NUMANode: -1,
			Healthy: g.Healthy, MIGEnabled: len(g.MIG) > 0,
		}
		for _, d := range g.MIG {
			f, ok := p.Profile(d.Profile)
			if !known || !ok || !slices.Contains(f.Placements, d.Start) {
				card.Healthy, card.MIGEnabled, card.MIG = false, false, nil
				break
			}
			card.MIG = append(card.MIG, gpu.MIGDevice{UUID: d.UUID, Profile: f.Name, Start: d.Start, Slices: d.Slices, MemoryBytes: d.MemoryBytes})
		}
		spec.GPUs = append(spec.GPUs, card)
	}
	return spec
}

// productOf gives NVML's name of a product in label form, where it is known.
func productOf(label string) string {
	if p, ok := gpu.Find(label); ok {
		return p.Name
	}
	return label
}

// holdersOf gives what a pod holds on its node.
func holdersOf(n *Node, pod *v1.Pod) []Holder {
	var out []Holder
	n.EachHolder(func(h Holder) {
		if h.Pod == pod.Name && h.Namespace == pod.Namespace {
			out = append(out, h)
		}
	})
	return out
}

// askOf makes the request of a pod. What it holds tells how large its shares
// are; of a pod that holds nothing, the shares that the cluster offers.
func askOf(pod *v1.Pod, held []Holder, v View) Ask {
	a := Ask{Name: pod.Namespace + "/" + pod.Name, Bound: pod.Spec.NodeName != "", Request: nodeRequest(pod)}
	want := Request(pod)
	r := &a.Request
	switch {
	case want == nil:
		return a
	case want[api.ResourceGPUMemory] == 0 && want[api.ResourceGPU] == 0 && demandShares(r, pod):
		return a.products(pod)
	case want[api.ResourceGPUMemory] > 0:
		r.GPUs, r.GPUMemoryBytes = int32(max(1, min(want[api.ResourceGPU], 127))), min(want[api.ResourceGPUMemory], 1<<20)*gib
	case want[api.ResourceGPU] > 0:
		r.GPUs, r.MilliGPU = int32(min(want[api.ResourceGPU], 127)), cluster.Whole
	case want[api.ResourceGPUShared] > 0:
		r.GPUs, r.MilliGPU = int32(min(want[api.ResourceGPUShared], 127)), shareOf(v)
	default:
		for _, name := range sortedKeys(want) {
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
		name, _, _ := strings.Cut(selected, "-MIG-")
		a.Products = []string{productOf(strings.TrimSuffix(name, "-SHARED"))}
	}
	return a
}

// shareOf is the milli-GPUs of a share that is asked for by name: as the first
// shared GPU has them, else a whole GPU.
func shareOf(v View) int32 {
	for _, n := range v.Nodes {
		for _, g := range n.GPUs {
			if g.Shares > 1 {
				return int32(max(1, cluster.Whole/g.Shares))
			}
		}
	}
	return cluster.Whole
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// nodeRequest is the CPU and memory that the scheduler counts for a pod: the
// sum over its containers and sidecars, or the greatest init container with the
// sidecars before it, and the overhead.
func nodeRequest(pod *v1.Pod) cluster.Request {
	var sum, most [2]int64
	amounts := func(list v1.ResourceList) [2]int64 {
		return [2]int64{MilliAmount(list.Cpu(), MostMilli), Amount(list.Memory(), MostBytes)}
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		for k, n := range amounts(c.Resources.Requests) {
			if sidecar(c) {
				sum[k] += n
			}
			if extra := n; !sidecar(c) {
				most[k] = max(most[k], sum[k]+extra)
			}
		}
	}
	for i := range pod.Spec.Containers {
		for k, n := range amounts(pod.Spec.Containers[i].Resources.Requests) {
			sum[k] += n
		}
	}
	over := amounts(pod.Spec.Overhead)
	return cluster.Request{CPUMilli: max(0, max(sum[0], most[0])+over[0]), MemoryBytes: max(0, max(sum[1], most[1])+over[1])}
}
