package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"berth.dev/berth/core/cluster"
	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/kube/snapshot"
	"berth.dev/berth/kube/view"
)

// Cluster is a cluster at one moment on which requests are tried: whether a pod
// would fit on a node now, and with which change of it. Nothing is placed. It
// looks at GPUs, CPU, memory, node selectors, required node affinity and taints, at
// volumes as far as Tied was called, and not at ports or other pods.
type Cluster struct {
	nodes    []*v1.Node // those that take pods, by name
	all      []*v1.Node // by name
	snapshot *cluster.Snapshot
	view     view.View
	ties     []VolumeTopology
	held     []cluster.Placement
	heldBy   []*v1.Pod // of held, in its order
}

// NewCluster reads nodes and the pods on them.
func NewCluster(nodes []*v1.Node, pods []*v1.Pod) (*Cluster, error) {
	read, err := snapshot.Read(nodes, pods)
	if err != nil {
		return nil, err
	}
	t := &Cluster{snapshot: read.Snapshot, view: view.Cluster(nodes, pods), held: read.Held, heldBy: read.HeldBy}
	t.all = slices.SortedFunc(slices.Values(nodes), func(a, b *v1.Node) int { return cmp.Compare(a.Name, b.Name) })
	for _, n := range t.all {
		if _, open := t.snapshot.Find(n.Name); open {
			t.nodes = append(t.nodes, n)
		}
	}
	return t, nil
}

// SetVolumes has a Trial count as out of reach the nodes that volumes of the pods that are
// tried are not on.
func (t *Cluster) SetVolumes(ties []VolumeTopology) { t.ties = ties }

// reached says whether a node reaches all volumes.
func reached(n *v1.Node, ties []VolumeTopology) bool {
	return !slices.ContainsFunc(ties, func(tie VolumeTopology) bool { return !tie.Reaches(n) })
}

// Fits gives the first node by name that pod would fit on now.
func (t *Cluster) Fits(pod *v1.Pod) (node string, ok bool) {
	for _, n := range t.nodes {
		if t.fits(pod, n) && selects(pod, n) && tolerates(pod, n) == nil {
			return n.Name, true
		}
	}
	return "", false
}

func (t *Cluster) fits(pod *v1.Pod, n *v1.Node) bool {
	i, ok := t.snapshot.Find(n.Name)
	if !ok || !reached(n, t.ties) {
		return false
	}
	_, sharing, err := devices.GPUs(n)
	if err != nil {
		return false
	}
	r := request.Demand(pod, sharing)
	return placement.Fit(t.snapshot, i, &r) == placement.Fits
}

// selects says whether the node selector and the required affinity of pod allow n.
func selects(pod *v1.Pod, n *v1.Node) bool {
	ok, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(n)
	return ok && err == nil
}

// tolerates gives a taint of n that keeps pod away, or nil.
func tolerates(pod *v1.Pod, n *v1.Node) *v1.Taint {
	keepsAway := func(t *v1.Taint) bool {
		return t.Effect == v1.TaintEffectNoSchedule || t.Effect == v1.TaintEffectNoExecute
	}
	taint, found := corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), n.Spec.Taints, pod.Spec.Tolerations, keepsAway, false)
	if !found {
		return nil
	}
	return &taint
}

// Held is what one owner holds of one node.
type Held struct {
	Node     string
	Oldest   devices.Holder // the part held longest: it has the owner, the user and since when
	MilliGPU int64          // of all its parts
}

// InTheWay lists who holds GPUs on the nodes that pod could use if nothing were
// held there: those that offer what it asks for, that it selects and tolerates.
// Who has held longest comes first.
func (t *Cluster) InTheWay(pod *v1.Pod) []Held {
	var out []Held
	for _, n := range t.nodes {
		if !offers(pod, n) || !selects(pod, n) || tolerates(pod, n) != nil || !reached(n, t.ties) {
			continue
		}
		i := slices.IndexFunc(t.view.Nodes, func(v devices.Node) bool { return v.Name == n.Name })
		sums := map[request.Owner]*Held{}
		t.view.Nodes[i].EachHolder(func(h devices.Holder) {
			s := sums[h.Owner]
			if s == nil {
				s = &Held{Node: n.Name, Oldest: h}
				sums[h.Owner] = s
			}
			if h.Since.Before(s.Oldest.Since) {
				s.Oldest = h
			}
			s.MilliGPU += h.MilliGPU
		})
		for _, s := range sums {
			out = append(out, *s)
		}
	}
	slices.SortFunc(out, func(a, b Held) int {
		return cmp.Or(a.Oldest.Since.Compare(b.Oldest.Since), cmp.Compare(a.Node, b.Node), request.CompareOwners(a.Oldest.Owner, b.Oldest.Owner))
	})
	return out
}

// offers says whether the capacity of n has all the GPU resources of pod.
func offers(pod *v1.Pod, n *v1.Node) bool {
	for name, want := range request.Of(pod) {
		q, ok := n.Status.Capacity[v1.ResourceName(name)]
		if ok = ok && request.Amount(&q, request.MostAsked) >= want; !ok && !request.IsForeignShare(name) {
			return false
		}
	}
	return true
}

// Reliefs lists the changes with which pod, which fits nowhere, would fit on a
// node now: fewer GPUs, no node selector, a toleration. Each was tried on the
// cluster as it is; what does not help is left out.
func (t *Cluster) Reliefs(pod *v1.Pod) []reasons.Relief {
	var out []reasons.Relief
	if r, ok := t.fewer(pod); ok {
		out = append(out, r)
	}
	if len(pod.Spec.NodeSelector) > 0 || pod.Spec.Affinity != nil && pod.Spec.Affinity.NodeAffinity != nil {
		free := pod.DeepCopy()
		free.Spec.NodeSelector, free.Spec.Affinity = nil, nil
		if node, ok := t.Fits(free); ok {
			out = append(out, reasons.Relief{Change: "leave the node selector and affinity out", Node: node})
		}
	}
	for _, n := range t.nodes {
		taint := tolerates(pod, n)
		if taint == nil || !selects(pod, n) || !t.fits(pod, n) {
			continue
		}
		tolerant := pod.DeepCopy()
		tolerant.Spec.Tolerations = append(tolerant.Spec.Tolerations, v1.Toleration{
			Key: taint.Key, Operator: v1.TolerationOpEqual, Value: taint.Value, Effect: taint.Effect,
		})
		if tolerates(tolerant, n) == nil {
			out = append(out, reasons.Relief{Change: "tolerate the taint " + taint.ToString(), Node: n.Name})
			break
		}
	}
	return out
}

// fewer finds the most GPUs below what pod asks for that fit now. Only the
// container that asks for the most is changed.
func (t *Cluster) fewer(pod *v1.Pod) (reasons.Relief, bool) {
	less := pod.DeepCopy()
	container, name := 0, v1.ResourceName("")
	most := int64(1)
	for i := range less.Spec.Containers {
		amounts := request.ContainerAmounts(&less.Spec.Containers[i])
		for _, key := range slices.Sorted(maps.Keys(amounts)) {
			if n := amounts[key]; n > most {
				container, name, most = i, v1.ResourceName(key), n
			}
		}
	}
	for n := min(most, 128) - 1; n >= 1; n-- {
		r := &less.Spec.Containers[container].Resources
		for _, list := range []v1.ResourceList{r.Limits, r.Requests} {
			if _, ok := list[name]; ok {
				list[name] = *resource.NewQuantity(n, resource.DecimalSI)
			}
		}
		if node, ok := t.Fits(less); ok {
			change := fmt.Sprintf("ask for %d %s instead of %d", n, name, most)
			return reasons.Relief{Change: change, Node: node}, true
		}
	}
	return reasons.Relief{}, false
}
