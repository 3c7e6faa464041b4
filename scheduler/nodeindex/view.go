package nodeindex

import (
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/placement"
	quotas "berth.dev/berth/core/quota"
	"berth.dev/berth/kube/snapshot"
	"berth.dev/berth/scheduler/quota"
	"berth.dev/berth/scheduler/state"
)

// View is all nodes as package placement wants them, in the order of their
// names, so that equal clusters give equal decisions.
type View struct {
	snapshot.Builder
	Policy  *placement.Berth
	Index   *placement.Index
	Nodes   []*node // by position in snapshot
	ByName  map[string]*node
	listed  []*node // in the order of the scheduler's list
	Classes classes
	images  imageCount
	swept   time.Time
	quota   *quota.Quota // which products pods may get, and in which ways they may use GPUs
}

// newView makes the view of nodes, with nothing held. What old has learned and
// read goes on; old may be nil.
func newView(nodes []fwk.NodeInfo, old *View) (*View, error) {
	w := &View{ByName: make(map[string]*node, len(nodes)), Nodes: make([]*node, 0, len(nodes)), images: imageCount{}}
	for _, info := range nodes {
		n := info.Node()
		at := newNodeLike(n, old)
		w.Nodes, w.ByName[n.Name] = append(w.Nodes, at), at
		w.listed = append(w.listed, at)
		w.images.count(n, 1)
	}
	slices.SortFunc(w.Nodes, func(a, b *node) int { return strings.Compare(a.Object.Name, b.Object.Name) })
	read := make([]*snapshot.Node, len(w.Nodes))
	for i, at := range w.Nodes {
		read[i] = &at.Node
	}
	var err error
	if w.Builder, err = snapshot.NewBuilder(read); err != nil {
		return nil, err
	}
	w.Classes = newClasses(w.Nodes, w.Snapshot)
	w.Policy = placement.NewBerth(placement.Setup{Cluster: w.Snapshot}, placement.DefaultParams())
	if old != nil {
		w.Classes.last = old.Classes.last
		w.Policy.Learn(translate(old, w))
	}
	w.Index = placement.NewIndex(w.Snapshot, w.Policy, nil, nil)
	return w, nil
}

// newNodeLike is newNode, which it spares where old has read the same.
func newNodeLike(n *v1.Node, old *View) *node {
	if old != nil {
		if was := old.ByName[n.Name]; was != nil && was.Offers(n) {
			at := *was
			at.Object, at.Generation, at.Held, at.From = n, -1, map[types.UID]*snapshot.Occupant{}, nil
			return &at
		}
	}
	return newNode(n)
}

// translate gives what old has learned, with the numbers that products have in
// w.
func translate(old, w *View) *placement.Mix {
	names := old.Snapshot.ProductNames()
	mix := placement.NewMix()
	for _, c := range old.Policy.Mix().Classes() {
		if c.Request.Products&^cluster.NoProduct != 0 {
			var set cluster.Products
			for number, name := range names {
				if now, err := w.Snapshot.Products(name); c.Request.Products&(1<<number) != 0 && err == nil {
					set |= now
				}
			}
			if c.Request.Products = set; set == 0 {
				c.Request.Products = cluster.NoProduct
			}
		}
		mix.Add(&c.Request, c.Weight)
	}
	return mix
}

// sweep refreshes the nodes of all, listed in this order, that have changed or
// were touched. It says no where the view must be made again.
func (w *View) sweep(log klog.Logger, d *state.State, all []fwk.NodeInfo, touched map[string]bool) bool {
	for i, info := range all {
		at := w.listed[i]
		if at.Generation == info.GetGeneration() && (touched == nil || !touched[at.Object.Name]) {
			continue
		}
		if !w.refresh(log, d, at, info) {
			return false
		}
	}
	return true
}

// lists brings listed to the order of all, and says whether w has just these
// nodes.
func (w *View) lists(all []fwk.NodeInfo) bool {
	if len(all) != len(w.Nodes) {
		return false
	}
	for i, info := range all {
		name := info.Node().Name
		if w.listed[i].Object.Name == name {
			continue
		}
		at := w.ByName[name]
		if at == nil {
			return false
		}
		w.listed[i] = at
	}
	return true
}

// refresh brings one node to what info shows. It says no where the node has
// become another, so that the view must be made again.
func (w *View) refresh(log klog.Logger, d *state.State, at *node, info fwk.NodeInfo) bool {
	was, same := at.Object, at.Offers(info.Node())
	if !same {
		if !w.Replace(&at.Node, info.Node()) {
			return false
		}
		at.From = nil
	}
	if !same || !at.judgedSame(info.Node()) {
		w.images.count(was, -1)
		w.images.count(info.Node(), 1)
		at.Object = info.Node()
		w.Classes.rejudge(at)
	}
	at.Object, at.Generation = info.Node(), info.GetGeneration()
	n := d.Node(log, info)
	n.Mu.Lock()
	defer n.Mu.Unlock()
	if at.From != n || at.Version != n.Version || n.Ledger == nil {
		w.occupy(at, n, info)
		at.From, at.Version = n, n.Version
	}
	cpu, memory, pods := info.GetRequested().GetMilliCPU(), info.GetRequested().GetMemory(), len(info.GetPods())
	for _, o := range at.Held {
		if !o.Hold {
			cpu, memory, pods = cpu-o.Placement.Request.CPUMilli, memory-o.Placement.Request.MemoryBytes, pods-1
		}
	}
	w.Snapshot.SetBase(at.Index, cpu, memory, int32(min(max(pods, 0), 1<<20)))
	return true
}

// occupy makes at.held what n has counted. What is taken beside is set after it.
func (w *View) occupy(at *node, n *state.Ledger, info fwk.NodeInfo) {
	w.Snapshot.SetBase(at.Index, 0, 0, 0)
	for uid, o := range at.Held {
		if c := n.Pods[uid]; at.From != n || c == nil || len(c.Devices) != len(o.Placement.Devices) || o.Hold {
			w.Leave(&at.Node, uid)
		}
	}
	if n.Ledger == nil && at.Foreign {
		w.EnterUnits(&at.Node, foreignUnits(info))
	}
	for uid, c := range n.Pods {
		if len(c.Devices) > 0 && at.Held[uid] == nil { // new, or not all could be counted before
			w.Enter(&at.Node, uid, c.Pod, c.Devices, nil)
		}
	}
	for _, r := range n.Holds {
		if !r.Doubt {
			w.Leave(&at.Node, r.Pod.UID) // a pod on its way back, whose place is held again: it is counted once
		}
		switch {
		case n.Ledger == nil:
			w.Assume(&at.Node, r.Pod.UID, &snapshot.Occupant{Pod: r.Pod, Hold: true, Placement: cluster.Placement{Node: at.Index, Request: r.Request, Devices: r.At}})
		case r.Doubt:
			w.Enter(&at.Node, types.UID(r.Owner(0)), r.Pod, r.Devices, &r.Request)
		default:
			w.Enter(&at.Node, r.Pod.UID, r.Pod, r.Devices, &r.Request)
		}
	}
}

// Request is what a pod asks of one node of w, its class included.
func (w *View) Request(pod *v1.Pod, want *state.Request) (cluster.Request, *Class, error) {
	only, barred := w.quota.Allowed(pod.UID), want.Barred
	if want.Queue == "" { // nothing has asked for its queue yet, or it is of none
		_, barred = w.quota.QueueOf(pod)
	}
	c, err := w.Classes.of(pod, want, barred, w.images.telling(pod, len(w.Nodes)), w.limit(only))
	if err != nil {
		return cluster.Request{}, nil, err
	}
	r := want.Demand(pod, w.Snapshot)
	r.Class = c.number
	if only.Kinds != nil && !only.Pools {
		r.Products = w.only(r.Products, only.Kinds)
	}
	return r, c, nil
}

// limit is the nodes that quotas leave by labels and products together; nil is all.
func (w *View) limit(only quotas.Allowed) *limit {
	key := only.Key()
	if key == "" {
		return nil
	}
	return &limit{key, only.Kinds, w.quota.KindOf}
}

// only returns those of some products that are among kinds. The empty set is all products.
func (w *View) only(of cluster.Products, kinds []quotas.Kind) cluster.Products {
	var set cluster.Products
	for number, name := range w.Snapshot.ProductNames() {
		label := gpu.Product{Name: name}.LabelName()
		if of.Has(uint8(number)) && slices.ContainsFunc(kinds, func(k quotas.Kind) bool { return k.Product == label }) {
			set |= 1 << number
		}
	}
	if set == 0 {
		return cluster.NoProduct
	}
	return set
}
