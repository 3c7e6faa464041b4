package devices

import (
	"cmp"
	"fmt"
	"maps"
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
)

// sweepEvery is how long the world may be behind the NodeInfos of nodes that
// this scheduler has not changed itself. Nothing depends on it: what is chosen is
// checked on the NodeInfo of the node.
const sweepEvery = 20 * time.Millisecond

// scorer keeps the world. Its mu is taken before desk.mu.
type scorer struct {
	mu    sync.Mutex
	world *world
}

// world is all nodes as package placement wants them, in the order of their
// names, so that equal clusters give equal decisions.
type world struct {
	snapshot *cluster.Snapshot
	policy   *placement.Berth
	index    *placement.Index
	sites    []*site // by position in snapshot
	byName   map[string]*site
	listed   []*site // in the order of the scheduler's list
	classes  classes
	images   map[string]int // by name: nodes that have the image
	swept    time.Time
}

// occupant is one pod that holds devices of a node, or that they are held for.
type occupant struct {
	pod       *v1.Pod
	placement cluster.Placement // may be released from the Snapshot, inside a Mark
	held      bool              // not there yet: a hold
}

// newWorld makes the world of nodes, with nothing held. What old has learned and
// read goes on; old may be nil.
func newWorld(nodes []fwk.NodeInfo, old *world) (*world, error) {
	w := &world{byName: make(map[string]*site, len(nodes)), classes: newClasses(), sites: make([]*site, 0, len(nodes)), images: map[string]int{}}
	for _, info := range nodes {
		n := info.Node()
		at := newSiteLike(n, old)
		w.sites, w.byName[n.Name] = append(w.sites, at), at
		w.listed = append(w.listed, at)
		w.countImages(n, 1)
	}
	slices.SortFunc(w.sites, func(a, b *site) int { return strings.Compare(a.object.Name, b.object.Name) })
	specs := make([]cluster.Spec, len(w.sites))
	for i, at := range w.sites {
		at.index, specs[i] = i, at.spec
	}
	var err error
	if w.snapshot, err = cluster.New(specs); err != nil {
		return nil, fmt.Errorf("look at the nodes: %w", err)
	}
	w.policy = placement.NewBerth(placement.Setup{Cluster: w.snapshot}, placement.DefaultParams())
	if old != nil {
		w.classes.last = old.classes.last
		w.policy.Learn(translate(old, w))
	}
	w.index = placement.NewIndex(w.snapshot, w.policy, nil, nil)
	return w, nil
}

// newSiteLike is newSite, which it spares where old has read the same.
func newSiteLike(n *v1.Node, old *world) *site {
	if old != nil {
		if was := old.byName[n.Name]; was != nil && was.same(n) {
			at := *was
			at.object, at.generation, at.held, at.from = n, -1, map[types.UID]*occupant{}, nil
			return &at
		}
	}
	return newSite(n)
}

// translate gives what old has learned, with the numbers that products have in
// w.
func translate(old, w *world) *placement.Mix {
	names := old.snapshot.ProductNames()
	mix := placement.NewMix()
	for _, c := range old.policy.Mix().Classes() {
		if c.Request.Products&^cluster.NoProduct != 0 {
			var set cluster.Products
			for number, name := range names {
				if now, err := w.snapshot.Products(name); c.Request.Products&(1<<number) != 0 && err == nil {
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

// update brings the world to the state of the scheduler's nodes, with mu held:
// if force is set, if something is known to have changed, or if the last time is
// long ago. The world is made anew where nodes have come or gone.
func (s *scorer) update(log klog.Logger, d *desk, all []fwk.NodeInfo, force bool) error {
	touched, now := d.takeTouched(), time.Now()
	if s.world != nil && !force && len(touched) == 0 && len(all) == len(s.world.listed) && now.Sub(s.world.swept) < sweepEvery {
		return nil
	}
	first := s.world == nil
	for again := false; ; again = true {
		if s.world == nil || again || !s.world.lists(all) {
			w, err := newWorld(all, s.world)
			if err != nil {
				s.world = nil
				return err
			}
			s.world = w
			d.prune(w.byName)
		}
		if s.world.sweep(log, d, all, touched) || again {
			if s.world.swept = now; first {
				s.world.learn(all)
			}
			return nil
		}
	}
}

// sweep refreshes the nodes of all, listed in this order, that have changed or
// were touched. It says no where the world must be made anew.
func (w *world) sweep(log klog.Logger, d *desk, all []fwk.NodeInfo, touched map[string]bool) bool {
	for i, info := range all {
		at := w.listed[i]
		if at.generation == info.GetGeneration() && (touched == nil || !touched[at.object.Name]) {
			continue
		}
		if !w.refresh(log, d, at, info) {
			return false
		}
	}
	return true
}

// prune forgets nodes that are no more.
func (d *desk) prune(known map[string]*site) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.nodes, func(name string, _ *node) bool { return known[name] == nil })
}

// takeTouched gives the nodes touched since the last time.
func (d *desk) takeTouched() map[string]bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.touched) == 0 {
		return nil
	}
	out := d.touched
	d.touched = map[string]bool{}
	return out
}

// lists brings listed to the order of all, and says whether w has just these
// nodes.
func (w *world) lists(all []fwk.NodeInfo) bool {
	if len(all) != len(w.sites) {
		return false
	}
	for i, info := range all {
		name := info.Node().Name
		if w.listed[i].object.Name == name {
			continue
		}
		at := w.byName[name]
		if at == nil {
			return false
		}
		w.listed[i] = at
	}
	return true
}

// refresh brings one node to what info shows. It says no where the node has
// become another, so that the world must be made anew.
func (w *world) refresh(log klog.Logger, d *desk, at *site, info fwk.NodeInfo) bool {
	same := at.same(info.Node())
	if !same {
		next := newSite(info.Node())
		for uid := range at.held {
			w.leave(at, uid)
		}
		w.snapshot.SetBase(at.index, 0, 0, 0)
		if w.snapshot.Replace(at.index, &next.spec) != nil {
			return false
		}
		at.spec, at.foreign, at.odd, at.mig, at.from = next.spec, next.foreign, next.odd, next.mig, nil
	}
	if !same || !at.judgedSame(info.Node()) {
		w.countImages(at.object, -1)
		w.countImages(info.Node(), 1)
		at.object = info.Node()
		w.rejudge(at)
	}
	at.object, at.generation = info.Node(), info.GetGeneration()
	n := d.node(log, info)
	n.mu.Lock()
	defer n.mu.Unlock()
	if at.from != n || at.version != n.version || n.ledger == nil {
		w.occupy(at, n, info)
		at.from, at.version = n, n.version
	}
	cpu, memory, pods := info.GetRequested().GetMilliCPU(), info.GetRequested().GetMemory(), len(info.GetPods())
	for _, o := range at.held {
		if !o.held {
			cpu, memory, pods = cpu-o.placement.Request.CPUMilli, memory-o.placement.Request.MemoryBytes, pods-1
		}
	}
	w.snapshot.SetBase(at.index, cpu, memory, int32(min(max(pods, 0), 1<<20)))
	return true
}

// occupy makes at.held what n has counted. What is taken beside is set after it.
func (w *world) occupy(at *site, n *node, info fwk.NodeInfo) {
	w.snapshot.SetBase(at.index, 0, 0, 0)
	for uid, o := range at.held {
		if c := n.pods[uid]; at.from != n || c == nil || len(c.devices) != len(o.placement.Devices) || o.held {
			w.leave(at, uid)
		}
	}
	if n.ledger == nil && at.foreign {
		w.occupyForeign(at, foreignUnits(info))
	}
	for uid, c := range n.pods {
		if len(c.devices) > 0 && at.held[uid] == nil { // new, or not all could be counted before
			w.enter(at, uid, c.pod, c.devices, nil)
		}
	}
	for _, r := range n.holds {
		switch {
		case n.ledger == nil:
			w.assume(at, r.pod.UID, &occupant{pod: r.pod, held: true, placement: cluster.Placement{Node: at.index, Request: r.request, Devices: r.at}})
		case r.doubt:
			w.enter(at, types.UID(r.owner(0)), r.pod, r.devices, &r.request)
		default:
			w.enter(at, r.pod.UID, r.pod, r.devices, &r.request)
		}
	}
}

// enter counts devices as held by a pod, or for it where r is its request, under
// a key of its own.
func (w *world) enter(at *site, key types.UID, pod *v1.Pod, devices []sharing.Device, r *cluster.Request) {
	o := &occupant{pod: pod, held: r != nil}
	p := &o.placement
	if p.Node = at.index; r != nil {
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
func (w *world) assume(at *site, key types.UID, o *occupant) {
	p := &o.placement
	n := w.snapshot.Node(at.index)
	p.Request.CPUMilli, p.Request.MemoryBytes = min(p.Request.CPUMilli, n.FreeCPUMilli), min(p.Request.MemoryBytes, n.FreeMemoryBytes)
	p.Request.Class = 0
	for {
		p.Request.GPUs = int32(len(p.Devices))
		if w.snapshot.Assume(p) == nil {
			at.held[key] = o
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
func (w *world) possible(at *site, devices []cluster.Device) []cluster.Device {
	for i := range devices {
		one := cluster.Placement{Node: at.index, Request: cluster.Request{GPUs: 1}, Devices: devices[i : i+1]}
		m := w.snapshot.Mark()
		err := w.snapshot.Assume(&one)
		w.snapshot.RollBack(m)
		if err != nil {
			return slices.Delete(slices.Clone(devices), i, i+1)
		}
	}
	return devices[:len(devices)-1]
}

// leave gives back what a pod holds on a node.
func (w *world) leave(at *site, uid types.UID) {
	if o := at.held[uid]; o != nil {
		delete(at.held, uid)
		if err := w.snapshot.Release(&o.placement); err != nil {
			panic("scheduler/devices: what was assumed cannot be released: " + err.Error())
		}
	}
}

// occupyForeign counts units of a node whose devices nobody knows one by one on
// its GPUs, in order.
func (w *world) occupyForeign(at *site, units int64) {
	o := &occupant{}
	o.placement.Node = at.index
	shares := int64(w.snapshot.Node(at.index).Shares)
	for j, c := range w.snapshot.Cards(at.index) {
		if n := min(units, shares); n > 0 && w.snapshot.GPUs(at.index)[j].Healthy {
			units -= n
			milli := int32(min(cluster.Whole, n*(cluster.Whole/shares)))
			if n == shares {
				milli = cluster.Whole
			}
			o.placement.Devices = append(o.placement.Devices, cluster.Device{GPU: int32(j), MilliGPU: milli, MemoryBytes: cluster.ShareBytes(milli, c.MemoryBytes)})
		}
	}
	if len(o.placement.Devices) > 0 {
		w.assume(at, "", o)
	}
}

// request is what a pod asks of one node of w, its class included.
func (w *world) request(pod *v1.Pod, want *wanted) (cluster.Request, *class, error) {
	c, err := w.class(pod, want)
	if err != nil {
		return cluster.Request{}, nil, err
	}
	r := want.demand(pod, w.snapshot)
	r.Class = c.number
	return r, c, nil
}
