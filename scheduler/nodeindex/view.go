package nodeindex

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/scheduler/state"
)

// sweepEvery is how long the view may be behind the NodeInfos of nodes that
// this scheduler has not changed itself. Nothing depends on it: what is chosen is
// checked on the NodeInfo of the node.
const sweepEvery = 20 * time.Millisecond

// index keeps the view. Its mu is taken before State.Mu.
type index struct {
	Mu   sync.Mutex
	View *View
}

// View is all nodes as package placement wants them, in the order of their
// names, so that equal clusters give equal decisions.
type View struct {
	Snapshot *cluster.Snapshot
	Policy   *placement.Berth
	Index    *placement.Index
	Nodes    []*node // by position in snapshot
	ByName   map[string]*node
	listed   []*node // in the order of the scheduler's list
	Classes  classes
	images   map[string]int // by name: nodes that have the image
	swept    time.Time
}

// Occupant is one pod that holds devices of a node, or that they are held for.
type Occupant struct {
	Pod       *v1.Pod
	Placement cluster.Placement // may be released from the Snapshot, inside a Mark
	held      bool              // not there yet: a hold
}

// newView makes the view of nodes, with nothing held. What old has learned and
// read goes on; old may be nil.
func newView(nodes []fwk.NodeInfo, old *View) (*View, error) {
	w := &View{ByName: make(map[string]*node, len(nodes)), Classes: newClasses(), Nodes: make([]*node, 0, len(nodes)), images: map[string]int{}}
	for _, info := range nodes {
		n := info.Node()
		at := newNodeLike(n, old)
		w.Nodes, w.ByName[n.Name] = append(w.Nodes, at), at
		w.listed = append(w.listed, at)
		w.countImages(n, 1)
	}
	slices.SortFunc(w.Nodes, func(a, b *node) int { return strings.Compare(a.Object.Name, b.Object.Name) })
	specs := make([]cluster.Spec, len(w.Nodes))
	for i, at := range w.Nodes {
		at.Index, specs[i] = i, at.Spec
	}
	var err error
	if w.Snapshot, err = cluster.New(specs); err != nil {
		return nil, fmt.Errorf("look at the nodes: %w", err)
	}
	w.Policy = placement.NewBerth(placement.Setup{Cluster: w.Snapshot}, placement.DefaultParams())
	if old != nil {
		w.Classes.last = old.Classes.last
		w.Policy.Learn(translate(old, w))
	}
	w.Index = placement.NewIndex(w.Snapshot, w.Policy, nil, nil)
	return w, nil
}

// newNodeLike is newSite, which it spares where old has read the same.
func newNodeLike(n *v1.Node, old *View) *node {
	if old != nil {
		if was := old.ByName[n.Name]; was != nil && was.same(n) {
			at := *was
			at.Object, at.Generation, at.Held, at.From = n, -1, map[types.UID]*Occupant{}, nil
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

// Update brings the view to the state of the scheduler's nodes, with mu held:
// if force is set, if something is known to have changed, or if the last time is
// long ago. The view is made again where nodes have come or gone.
func (s *index) Update(log klog.Logger, d *state.State, all []fwk.NodeInfo, force bool) error {
	touched, now := d.TakeStale(), time.Now()
	if s.View != nil && !force && len(touched) == 0 && len(all) == len(s.View.listed) && now.Sub(s.View.swept) < sweepEvery {
		return nil
	}
	first := s.View == nil
	for again := false; ; again = true {
		if s.View == nil || again || !s.View.lists(all) {
			w, err := newView(all, s.View)
			if err != nil {
				s.View = nil
				return err
			}
			s.View = w
			d.Prune(func(name string) bool { return w.ByName[name] != nil })
		}
		if s.View.sweep(log, d, all, touched) || again {
			if s.View.swept = now; first {
				s.View.learn(all)
			}
			return nil
		}
	}
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
	same := at.same(info.Node())
	if !same {
		next := newNode(info.Node())
		for uid := range at.Held {
			w.Leave(at, uid)
		}
		w.Snapshot.SetBase(at.Index, 0, 0, 0)
		if w.Snapshot.Replace(at.Index, &next.Spec) != nil {
			return false
		}
		at.Spec, at.Foreign, at.Odd, at.mig, at.From = next.Spec, next.Foreign, next.Odd, next.mig, nil
	}
	if !same || !at.judgedSame(info.Node()) {
		w.countImages(at.Object, -1)
		w.countImages(info.Node(), 1)
		at.Object = info.Node()
		w.rejudge(at)
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
		if !o.held {
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
		if c := n.Pods[uid]; at.From != n || c == nil || len(c.Devices) != len(o.Placement.Devices) || o.held {
			w.Leave(at, uid)
		}
	}
	if n.Ledger == nil && at.Foreign {
		w.occupyForeign(at, foreignUnits(info))
	}
	for uid, c := range n.Pods {
		if len(c.Devices) > 0 && at.Held[uid] == nil { // new, or not all could be counted before
			w.Enter(at, uid, c.Pod, c.Devices, nil)
		}
	}
	for _, r := range n.Holds {
		switch {
		case n.Ledger == nil:
			w.assume(at, r.Pod.UID, &Occupant{Pod: r.Pod, held: true, Placement: cluster.Placement{Node: at.Index, Request: r.Request, Devices: r.At}})
		case r.Doubt:
			w.Enter(at, types.UID(r.Owner(0)), r.Pod, r.Devices, &r.Request)
		default:
			w.Enter(at, r.Pod.UID, r.Pod, r.Devices, &r.Request)
		}
	}
}

// Enter counts devices as held by a pod, or for it where r is its request, under
// a key of its own.
func (w *View) Enter(at *node, key types.UID, pod *v1.Pod, devices []sharing.Device, r *cluster.Request) {
	o := &Occupant{Pod: pod, held: r != nil}
	p := &o.Placement
	if p.Node = at.Index; r != nil {
		p.Request = *r
	} else {
		p.Request = request.Demand(pod, gpu.Sharing{})
	}
	for i := range devices {
		if d, ok := w.deviceOf(at, &devices[i]); ok {
			p.Devices = append(p.Devices, d)
		}
	}
	slices.SortFunc(p.Devices, func(a, b cluster.Device) int { return cmp.Or(cmp.Compare(a.GPU, b.GPU), cmp.Compare(a.Start, b.Start)) })
	w.assume(at, key, o)
}

// assume counts o on a node, as far as there is room: of CPU and memory what is
// free, and of devices those on GPUs that are healthy. Nobody gets the others.
func (w *View) assume(at *node, key types.UID, o *Occupant) {
	p := &o.Placement
	n := w.Snapshot.Node(at.Index)
	p.Request.CPUMilli, p.Request.MemoryBytes = min(p.Request.CPUMilli, n.FreeCPUMilli), min(p.Request.MemoryBytes, n.FreeMemoryBytes)
	p.Request.Class = 0
	for {
		p.Request.GPUs = int32(len(p.Devices))
		if w.Snapshot.Assume(p) == nil {
			at.Held[key] = o
			return
		}
		if len(p.Devices) == 0 {
			return
		}
		p.Devices = w.possible(at, p.Devices)
	}
}

// possible is devices without the first that cannot be taken, or without the
// last.
func (w *View) possible(at *node, devices []cluster.Device) []cluster.Device {
	for i := range devices {
		one := cluster.Placement{Node: at.Index, Request: cluster.Request{GPUs: 1}, Devices: devices[i : i+1]}
		m := w.Snapshot.Mark()
		err := w.Snapshot.Assume(&one)
		w.Snapshot.RollBack(m)
		if err != nil {
			return slices.Delete(slices.Clone(devices), i, i+1)
		}
	}
	return devices[:len(devices)-1]
}

// Leave gives back what a pod holds on a node.
func (w *View) Leave(at *node, uid types.UID) {
	if o := at.Held[uid]; o != nil {
		delete(at.Held, uid)
		if err := w.Snapshot.Release(&o.Placement); err != nil {
			panic("scheduler/devices: what was assumed cannot be released: " + err.Error())
		}
	}
}

// occupyForeign counts units of a node whose devices nobody knows one by one on
// its GPUs, in order.
func (w *View) occupyForeign(at *node, units int64) {
	o := &Occupant{}
	o.Placement.Node = at.Index
	shares := int64(w.Snapshot.Node(at.Index).Shares)
	for j, c := range w.Snapshot.Cards(at.Index) {
		if n := min(units, shares); n > 0 && w.Snapshot.GPUs(at.Index)[j].Healthy {
			units -= n
			milli := int32(min(cluster.Whole, n*(cluster.Whole/shares)))
			if n == shares {
				milli = cluster.Whole
			}
			o.Placement.Devices = append(o.Placement.Devices, cluster.Device{GPU: int32(j), MilliGPU: milli, MemoryBytes: cluster.ShareBytes(milli, c.MemoryBytes)})
		}
	}
	if len(o.Placement.Devices) > 0 {
		w.assume(at, "", o)
	}
}

// Request is what a pod asks of one node of w, its class included.
func (w *View) Request(pod *v1.Pod, want *state.Request) (cluster.Request, *Class, error) {
	c, err := w.class(pod, want)
	if err != nil {
		return cluster.Request{}, nil, err
	}
	r := want.Demand(pod, w.Snapshot)
	r.Class = c.number
	return r, c, nil
}
