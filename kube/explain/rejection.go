package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"berth.dev/berth/core/placement"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/request"
)

// Rejection is what keeps a pod off some nodes now: of each node the first thing, in
// the order of what it offers, what the pod wants of nodes, what is wrong with the
// node, and what others hold.
type Rejection struct {
	Why   string   `json:"why"`          // of each of these nodes, such as "cordoned"
	Do    string   `json:"do,omitempty"` // what would help; "" is that others must leave
	Nodes []string `json:"nodes"`        // by name

	rank int // in the order above
}

// The ranks of obstacles, farthest from a place first.
const (
	rankOther    = iota // it offers nothing of what is asked for
	rankSelector        // the pod does not want it
	rankTaint           // it does not want the pod
	rankVolume          // a volume is elsewhere
	rankClosed          // cordoned, not ready, its device plugin down
	rankSmall           // too small even when it is empty
	rankFull            // held by others
	rankNone            // it has room
)

// Never says whether waiting does not help with an obstacle: the pod or the node must
// be changed.
func (o *Rejection) Never() bool { return o.rank < rankClosed || o.rank == rankSmall }

// Rejections tells for each node that pod, which has no node, would not fit on now
// why not, equal reasons together: first those that are nearest to having room, of
// these the one of most nodes. Nodes with room are not among them.
func (t *Cluster) Rejections(pod *v1.Pod) []Rejection {
	var out []Rejection
	for _, n := range t.all {
		o := t.rejection(pod, n)
		if o.rank == rankNone {
			continue
		}
		i := slices.IndexFunc(out, func(b Rejection) bool { return b.Why == o.Why && b.Do == o.Do })
		if i < 0 {
			out = append(out, o)
			i = len(out) - 1
		}
		out[i].Nodes = append(out[i].Nodes, n.Name)
	}
	slices.SortStableFunc(out, func(a, b Rejection) int {
		return cmp.Or(cmp.Compare(b.rank, a.rank), cmp.Compare(len(b.Nodes), len(a.Nodes)))
	})
	return out
}

// rejection is what keeps pod off one node.
func (t *Cluster) rejection(pod *v1.Pod, n *v1.Node) Rejection {
	i, _ := slices.BinarySearchFunc(t.view.Nodes, n.Name, func(v devices.Node, name string) int { return cmp.Compare(v.Name, name) })
	view := &t.view.Nodes[i]
	if name := unoffered(n, n.Status.Capacity, slices.Sorted(maps.Keys(request.Of(pod)))); name != "" {
		switch has := gpuResources(n); {
		case len(has) > 0:
			return Rejection{Why: fmt.Sprintf("offers %s, and no %s", strings.Join(has, ", "), name), rank: rankOther}
		case view.Physical == 0:
			return Rejection{Why: "offers no " + name, rank: rankOther}
		}
	}
	if !selects(pod, n) {
		why, do := unselected(pod, n)
		return Rejection{Why: why, Do: do, rank: rankSelector}
	}
	if taint := tolerates(pod, n); taint != nil && !comesAndGoes(taint) {
		return Rejection{Why: "has the taint " + taint.ToString() + ", which the pod does not tolerate", Do: "add the toleration " + TolerationOf(taint), rank: rankTaint}
	}
	for _, tie := range t.ties {
		if !tie.Reaches(n) {
			return Rejection{
				Why: fmt.Sprintf("out of reach of volume claim %s, whose volume %s is on nodes with %s", tie.Claim, tie.Volume, tie.Where),
				Do:  "use another claim, or copy what is on it to a volume that is made there", rank: rankVolume,
			}
		}
	}
	if o := closed(view); o.rank != rankNone {
		return o
	}
	if o := small(pod, n, view); o.rank != rankNone {
		return o
	}
	return t.full(pod, n, view)
}

// gpuResources are the GPU resources that a node has any of, sorted.
func gpuResources(n *v1.Node) []string {
	var out []string
	for name, q := range n.Status.Capacity {
		if request.IsGPU(string(name)) && !q.IsZero() {
			out = append(out, string(name))
		}
	}
	slices.Sort(out)
	return out
}

// comesAndGoes says whether a taint is one that Kubernetes puts on nodes that are
// not well, or cordoned: what is wrong is told instead.
func comesAndGoes(taint *v1.Taint) bool { return strings.HasPrefix(taint.Key, "node.kubernetes.io/") }

// TolerationOf is the toleration of a taint to write into a pod's spec:
// "{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}".
func TolerationOf(taint *v1.Taint) string {
	if taint.Value == "" {
		return fmt.Sprintf("{key: %s, operator: Exists, effect: %s}", taint.Key, taint.Effect)
	}
	return fmt.Sprintf("{key: %s, operator: Equal, value: %q, effect: %s}", taint.Key, taint.Value, taint.Effect)
}

// unselected says what of a node the selector or the required affinity of pod does
// not want.
func unselected(pod *v1.Pod, n *v1.Node) (why, do string) {
	for _, key := range slices.Sorted(maps.Keys(pod.Spec.NodeSelector)) {
		want := pod.Spec.NodeSelector[key]
		switch has, ok := n.Labels[key]; {
		case !ok:
			return fmt.Sprintf("has no label %s; its node selector wants %s=%s", key, key, want), "change nodeSelector, or label the node"
		case has != want:
			return fmt.Sprintf("has %s=%s; its node selector wants %s", key, has, want), "change nodeSelector, if this will do"
		}
	}
	required := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	return "is not as its required node affinity wants: " + termsText(required.NodeSelectorTerms), "change the affinity, if these will do"
}

// closed says why a node takes no pods for its GPUs.
func closed(view *devices.Node) Rejection {
	do := map[string]string{
		"cordoned":           "kubectl uncordon NODE, if its work is done",
		"not ready":          "kubectl describe node NODE tells what its kubelet lacks",
		"device plugin down": "see why the device plugin does not run there: kubectl get pods -A -o wide | grep device-plugin",
	}
	if view.Remark == "" {
		return Rejection{rank: rankNone}
	}
	first, _, _ := strings.Cut(view.Remark, ", ")
	return Rejection{Why: view.Remark, Do: do[first], rank: rankClosed}
}

// small says what an empty node would have too little of.
func small(pod *v1.Pod, n *v1.Node, view *devices.Node) Rejection {
	want := request.Of(pod)
	for _, name := range slices.Sorted(maps.Keys(want)) {
		q, listed := n.Status.Allocatable[v1.ResourceName(name)]
		if !listed || request.Amount(&q, request.MostAsked) >= want[name] {
			continue
		}
		if most := n.Status.Capacity[v1.ResourceName(name)]; request.Amount(&most, request.MostAsked) >= want[name] {
			return Rejection{
				Why: fmt.Sprintf("can give out %d of its %d %s%s", q.Value(), most.Value(), name, unhealthyText(view)),
				Do:  "kubectl describe node NODE, or the node agent's log, tells what is wrong with the rest", rank: rankClosed,
			}
		}
		return Rejection{Why: fmt.Sprintf("has %d %s in all, fewer than %d", q.Value(), name, want[name]), Do: "ask for less, or use more pods", rank: rankSmall}
	}
	return Rejection{rank: rankNone}
}

// unhealthyText names the unhealthy GPUs of a node: "; unhealthy: GPU 1 (Xid 79)".
func unhealthyText(view *devices.Node) string {
	var out []string
	for i := range view.GPUs {
		switch g := &view.GPUs[i]; {
		case g.Healthy:
		case g.Xid > 0:
			out = append(out, fmt.Sprintf("GPU %d (Xid %d)", g.Index, g.Xid))
		default:
			out = append(out, fmt.Sprintf("GPU %d", g.Index))
		}
	}
	if len(out) == 0 {
		return ""
	}
	return "; unhealthy: " + strings.Join(out, ", ")
}

// full says what others hold of a node that would do when it is empty.
func (t *Cluster) full(pod *v1.Pod, n *v1.Node, view *devices.Node) Rejection {
	i, ok := t.snapshot.Find(n.Name)
	if !ok {
		return Rejection{Why: "cannot be counted", rank: rankClosed}
	}
	r := request.Demand(pod, sharingOf(n))
	switch reason := placement.Fit(t.snapshot, i, &r); reason { //nolint:exhaustive // the rest is about GPUs
	case placement.Fits:
		return Rejection{rank: rankNone}
	case placement.NotEnoughCPU, placement.NotEnoughMemory, placement.TooManyPods:
		return Rejection{Why: "has " + roomWords(reason), Do: "ask for less of it, or wait", rank: rankFull}
	case placement.NotOneClique:
		return Rejection{Why: "has enough free GPUs, but not in one NVLink clique", rank: rankFull}
	}
	asks := "what it asks for"
	if list := AmountsOf(pod); len(list) > 0 {
		asks = fmt.Sprint(list[0].Count, " ", list[0].Resource)
	}
	return Rejection{Why: fmt.Sprintf("%s of %d GPUs free, too little for %s%s", gpusOf(view.Free), view.Physical, asks, unhealthyText(view)), rank: rankFull}
}

// gpusOf writes milli-GPUs as GPUs, down to hundredths.
func gpusOf(milli int64) string {
	return strings.TrimSuffix(fmt.Sprintf("%d.%02d", milli/1000, milli%1000/10), ".00")
}

// Fragmented says of a pod that there are enough free GPUs for it on the nodes that
// it may use, and not on one of them; "" is that it is not so.
func (t *Cluster) Fragmented(pod *v1.Pod) string {
	want := AmountsOf(pod)
	if len(want) != 1 || want[0].Count < 2 {
		return ""
	}
	var sum, most int64
	nodes := 0
	for _, n := range t.nodes {
		if o := t.rejection(pod, n); o.rank < rankSmall {
			continue
		}
		free := t.free(pod, n)
		sum += free
		most = max(most, free)
		if free > 0 {
			nodes++
		}
	}
	if sum < want[0].Count || most >= want[0].Count {
		return ""
	}
	return fmt.Sprintf("%d %s are free for it, but on %d nodes, at most %d on one; a pod's GPUs must be on one node", sum, want[0].Resource, nodes, most)
}

// free is the most GPUs of those that pod asks for that would fit on a node now.
func (t *Cluster) free(pod *v1.Pod, n *v1.Node) int64 {
	i, ok := t.snapshot.Find(n.Name)
	if !ok {
		return 0
	}
	r := request.Demand(pod, sharingOf(n))
	for ; r.GPUs > 0; r.GPUs-- {
		if placement.Fit(t.snapshot, i, &r) == placement.Fits {
			return int64(r.GPUs)
		}
	}
	return 0
}

// MetPreference says which of the preferences for nodes of a pod a node meets, by weight:
// "first choice of 3 (weight 100): nvidia.com/gpu.product=Tesla-T4"; "" is that the
// pod has none.
func MetPreference(pod *v1.Pod, n *v1.Node) string {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
		return ""
	}
	list := slices.Clone(pod.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	slices.SortStableFunc(list, func(a, b v1.PreferredSchedulingTerm) int { return cmp.Compare(b.Weight, a.Weight) })
	for i := range list {
		terms, err := nodeaffinity.NewPreferredSchedulingTerms(list[i : i+1])
		if err != nil || terms.Score(n) == 0 {
			continue
		}
		return fmt.Sprintf("%s choice of %d (weight %d): %s", nth(i+1), len(list), list[i].Weight, termsText([]v1.NodeSelectorTerm{list[i].Preference}))
	}
	if len(list) == 0 {
		return ""
	}
	return fmt.Sprintf("none of its %d choices", len(list))
}

func nth(n int) string {
	words := []string{"first", "second", "third", "fourth", "fifth"}
	if n <= len(words) {
		return words[n-1]
	}
	return fmt.Sprint(n, "th")
}
