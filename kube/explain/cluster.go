package explain

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/kube/snapshot"
	"berth.dev/berth/kube/view"
)

// Cluster is a cluster at one moment on which requests are tried: whether a pod
// would fit on a node now, and with which change of it. Nothing is placed. It
// makes the checks of kube-scheduler's own plugins and of Berth's, of volumes as far as
// SetVolumes was called.
type Cluster struct {
	nodes     []*v1.Node           // those that take pods, by name
	all       []*v1.Node           // by name
	snapshot  *cluster.Snapshot    // of all, as if none were cordoned or not ready
	read      snapshot.Cluster     // that snapshot is of
	empty     *cluster.Snapshot    // the same with nothing held; nil until it is needed
	on        map[string][]*v1.Pod // that have not ended, by node
	going     map[string][]*v1.Pod // of on, those that are being deleted; by node
	antis     []*v1.Pod            // of on, those with a required pod anti-affinity
	sharing   map[string]divided
	view      view.View
	dra       devices.DRA
	private   bool               // names of other namespaces are withheld: see SetPrivate
	quotas    []v1.ResourceQuota // of the namespace of pods whose helps are tried
	ties      []VolumeTopology
	byDefault string // the PriorityClass of pods that name none; "" is none, or not known
	held      []cluster.Placement
	heldBy    []*v1.Pod               // of held, in its order
	queues    *queues.Count           // nil: there are none, or they are not known
	owners    request.Owners          // of pods; nil: none can be read
	kept      []kept                  // for pods that come before the one that is asked about
	reaches   map[string]*queue.Reach // of pods by what they ask for: see reachOf
}

// NewCluster reads nodes and the pods on them.
func NewCluster(nodes []*v1.Node, pods []*v1.Pod) (*Cluster, error) {
	t := &Cluster{view: view.Cluster(nodes, pods), on: map[string][]*v1.Pod{}, going: map[string][]*v1.Pod{}, sharing: map[string]divided{}}
	read, err := snapshot.Read(opened(nodes, t.view.Nodes), pods)
	if err != nil {
		return nil, err
	}
	t.read, t.snapshot, t.held, t.heldBy = read, read.Snapshot, read.Held, read.HeldBy
	for _, p := range pods {
		if p.Spec.NodeName == "" || request.Ended(p) {
			continue
		}
		t.on[p.Spec.NodeName] = append(t.on[p.Spec.NodeName], p)
		if p.DeletionTimestamp != nil {
			t.going[p.Spec.NodeName] = append(t.going[p.Spec.NodeName], p)
		}
		if keepsApart(p) {
			t.antis = append(t.antis, p)
		}
	}
	slices.SortFunc(t.antis, byPodName)
	t.all = slices.SortedFunc(slices.Values(nodes), func(a, b *v1.Node) int { return cmp.Compare(a.Name, b.Name) })
	t.openNodes()
	return t, nil
}

// openNodes lists the nodes that take pods.
func (t *Cluster) openNodes() {
	t.nodes, t.reaches = nil, nil
	for _, n := range t.all {
		if _, counted := t.snapshot.Find(n.Name); counted && t.viewOf(n.Name).Remark == "" {
			t.nodes = append(t.nodes, n)
		}
	}
}

func byPodName(a, b *v1.Pod) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// keepsApart reports whether a pod has a required anti-affinity to others.
func keepsApart(p *v1.Pod) bool {
	a := p.Spec.Affinity
	return a != nil && a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0
}

// opened are nodes as if none of them were cordoned or not ready, with which the GPUs of
// those are counted, too.
func opened(nodes []*v1.Node, views []devices.Node) []*v1.Node {
	remarks := map[string]string{}
	for i := range views {
		remarks[views[i].Name] = views[i].Remark
	}
	out := slices.Clone(nodes)
	for i, n := range out {
		if remarks[n.Name] == "" {
			continue
		}
		n = n.DeepCopy()
		n.Spec.Unschedulable = false
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t v1.Taint) bool { return comesAndGoes(&t) })
		for j := range n.Status.Conditions {
			if n.Status.Conditions[j].Type == v1.NodeReady {
				n.Status.Conditions[j].Status = v1.ConditionTrue
			}
		}
		out[i] = n
	}
	return out
}

// SetVolumes has a Trial count as out of reach the nodes that volumes of the pods that are
// tried are not on.
func (t *Cluster) SetVolumes(ties []VolumeTopology) { t.ties = ties }

// SetQueues has nodes count as out of reach on which a pod would use GPUs in a way that its queue does
// not allow; nil is that no queue is known.
func (t *Cluster) SetQueues(c *queues.Count) { t.queues = c }

// reached says whether a node reaches all volumes.
func reached(n *v1.Node, ties []VolumeTopology) bool {
	return !slices.ContainsFunc(ties, func(tie VolumeTopology) bool { return !tie.Reaches(n) })
}

// Fits gives the first node by name that pod would fit on now: one that passes every
// check.
func (t *Cluster) Fits(pod *v1.Pod) (node string, ok bool) {
	a := t.askOf(pod)
	for _, n := range t.nodes {
		if t.fits(a, n) {
			return n.Name, true
		}
	}
	return "", false
}

// divided is how a node divides its GPUs, or why that cannot be read.
type divided struct {
	gpu.Sharing
	err error
}

// dividedOf is how n divides its GPUs, read once.
func (t *Cluster) dividedOf(n *v1.Node) divided {
	d, known := t.sharing[n.Name]
	if !known {
		_, _, d.err = devices.GPUs(n)
		d.Sharing = sharingOf(n)
		t.sharing[n.Name] = d
	}
	return d
}

// fits reports whether n passes every check, the cheap ones first.
func (t *Cluster) fits(a *ask, n *v1.Node) bool {
	i, ok := t.snapshot.Find(n.Name)
	if !ok {
		return false
	}
	d := t.dividedOf(n)
	if d.err != nil {
		return false
	}
	r := a.demand(d.Sharing)
	return (t.counts(a, n) || placement.Fit(t.snapshot, i, &r) == placement.Fits) && len(t.gaps(a, n)) == 0
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
	asked, b := request.Of(pod), t.barsOf(pod)
	var out []Held
	for _, n := range t.nodes {
		if !offers(asked, n) || !selects(pod, n) || tolerates(pod, n) != nil || !reached(n, t.ties) || b.on(n) != 0 {
			continue
		}
		sums := map[request.Owner]*Held{}
		t.viewOf(n.Name).EachHolder(func(h devices.Holder) {
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

// offers says whether the capacity of n has all the GPU resources asked for.
func offers(asked map[string]int64, n *v1.Node) bool {
	for name, want := range asked {
		q, ok := n.Status.Capacity[v1.ResourceName(name)]
		if ok = ok && request.Amount(&q, request.MostAsked) >= want; !ok && !request.IsForeignShare(name) {
			return false
		}
	}
	return true
}
