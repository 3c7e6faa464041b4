package devices

import (
	"maps"
	"math"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api"
	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/preemption"
	"berth.dev/berth/kube/request"
)

// scene is the cluster as plans for room see it: who holds what on each node,
// pods without GPUs too, and what is promised to whom.
type scene struct {
	c    *preemption.Cluster
	pods [][]*v1.Pod // whose the holders are, as in c.Holders
	// lowest is the lowest priority of them all: no pod that is not above it can
	// make room.
	lowest int32
}

// pod gives the pod of a holder.
func (s *scene) pod(id preemption.ID) *v1.Pod { return s.pods[id.Node][id.Holder] }

// sight is what was read of the nodes last time. Only nodes that have changed are
// read again. The world's lock guards it.
type sight struct {
	world    *world
	budgets  int64             // budgets.who, as of which holders name their budgets
	snapshot *cluster.Snapshot // as the world's, with what is there and nothing that is held for others
	nodes    []seen
	minCount map[string]int
}

// seen is one node in a sight.
type seen struct {
	generation int64
	from       *node
	version    int
	holders    []preemption.Holder
	pods       []*v1.Pod
	lowest     int32 // priority
}

// see reads the scene for pods, whose own holds do not stand in their way.
func (x *Preemption) see(pl *planner, pods []*v1.Pod, now time.Time) (*scene, error) {
	allowed, err := x.budgets.read(x.evictor)
	if err != nil {
		return nil, err
	}
	v := &x.making.sight
	if v.world != pl.w || v.budgets != x.budgets.was || !x.look(pl) {
		v.reset(pl, x.budgets.was)
		x.look(pl)
	}
	s := &scene{
		c:    &preemption.Cluster{Snapshot: v.snapshot, Holders: make([][]preemption.Holder, len(v.nodes)), MinCount: v.minCount, Budgets: allowed},
		pods: make([][]*v1.Pod, len(v.nodes)), lowest: math.MaxInt32,
	}
	for i := range v.nodes {
		s.lowest = min(s.lowest, v.nodes[i].lowest)
		s.c.Holders[i], s.pods[i] = slices.Clip(v.nodes[i].holders), slices.Clip(v.nodes[i].pods)
	}
	going, kept := x.known(now)
	s.mark(pl, going, func(h *preemption.Holder) { h.Leaving = true })
	s.mark(pl, kept, func(h *preemption.Holder) { h.Fixed = true })
	x.promises(pl, s, pods)
	return s, nil
}

// mark changes the holders that pods, named with their nodes, are.
func (s *scene) mark(pl *planner, pods map[types.UID]string, change func(*preemption.Holder)) {
	for uid, node := range pods {
		at := pl.w.byName[node]
		if at == nil {
			continue
		}
		k := slices.IndexFunc(s.pods[at.index], func(p *v1.Pod) bool { return p.UID == uid })
		if k >= 0 {
			s.c.Holders[at.index] = slices.Clip(slices.Clone(s.c.Holders[at.index]))
			change(&s.c.Holders[at.index][k])
		}
	}
}

// reset makes v a sight in which nothing has been read.
func (v *sight) reset(pl *planner, budgets int64) {
	*v = sight{
		world: pl.w, budgets: budgets, snapshot: pl.placer().Snapshot().Emptied(1),
		nodes: make([]seen, len(pl.w.sites)), minCount: map[string]int{},
	}
}

// look reads the nodes that have changed. It says no where one has become another
// than the Snapshot can tell.
func (x *Preemption) look(pl *planner) bool {
	v := &x.making.sight
	for i, at := range pl.w.sites {
		n := &v.nodes[i]
		if n.generation == at.generation && n.from == at.from && n.version == at.version && n.pods != nil {
			continue
		}
		if n.pods != nil && v.snapshot.Replace(i, &at.spec) != nil {
			return false
		}
		*n = seen{generation: at.generation, from: at.from, version: at.version, pods: []*v1.Pod{}, lowest: math.MaxInt32}
		x.read(pl, i)
	}
	return true
}

// read reads node i, which has nothing on it yet.
func (x *Preemption) read(pl *planner, i int) {
	at := pl.w.sites[i]
	for key, o := range at.held {
		if o.pod != nil && o.pod.UID != key {
			x.enter(i, o, true) // a binding that may have arrived: nobody knows whom to evict
		}
	}
	info, err := pl.all.Get(pl.nodeName(i))
	if err != nil {
		return
	}
	dealt := int64(0)
	for _, pi := range info.GetPods() {
		pod := pi.GetPod()
		o := at.held[pod.UID]
		if o == nil {
			o = &occupant{pod: pod, placement: cluster.Placement{Node: i, Request: bare(pod)}}
			if at.foreign {
				dealt = deal(x.making.sight.snapshot, o, dealt)
			}
		}
		x.enter(i, o, false)
	}
}

// enter adds a holder to node i of the sight.
func (x *Preemption) enter(i int, o *occupant, fixed bool) {
	v := &x.making.sight
	h := preemption.Holder{
		Placement: o.placement, Priority: priorityOf(o.pod), Leaving: o.pod.DeletionTimestamp != nil, Fixed: fixed, Budgets: x.budgets.of(o.pod),
	}
	if !seat(v.snapshot, &h.Placement) {
		return // more than there is of a node: what cannot be counted cannot be freed
	}
	if t := o.pod.Status.StartTime; t != nil {
		h.Start = t.Time
	}
	if g, _ := request.GangOf(o.pod); g != nil {
		h.Gang, v.minCount[g.Key] = g.Key, g.MinCount
	}
	v.nodes[i].lowest = min(v.nodes[i].lowest, h.Priority)
	v.nodes[i].holders, v.nodes[i].pods = append(v.nodes[i].holders, h), append(v.nodes[i].pods, o.pod)
}

// promises adds what is held for pods that are not there yet, but for those of
// own.
func (x *Preemption) promises(pl *planner, s *scene, own []*v1.Pod) {
	d := x.p.desk
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, uid := range slices.Sorted(maps.Keys(d.holds)) {
		h := d.holds[uid]
		at := pl.w.byName[h.node]
		if at == nil || slices.ContainsFunc(own, func(pod *v1.Pod) bool { return pod.UID == uid }) {
			continue
		}
		p := preemption.Holder{
			Placement: cluster.Placement{Node: at.index, Request: h.request, Devices: h.at}, Priority: priorityOf(h.pod), Promise: true,
		}
		s.lowest = min(s.lowest, p.Priority)
		if g, _ := request.GangOf(h.pod); g != nil {
			p.Gang = "held for " + g.Key // a gang's plan stands or falls as a whole
		}
		s.c.Holders[at.index], s.pods[at.index] = append(s.c.Holders[at.index], p), append(s.pods[at.index], h.pod)
	}
}

// deal counts a pod on the GPUs of a node whose devices nobody knows one by one:
// from is how many units of them are dealt already. It gives how many are then.
func deal(s *cluster.Snapshot, o *occupant, from int64) int64 {
	want := request.Of(o.pod)
	i, shares := o.placement.Node, int64(s.Node(o.placement.Node).Shares)
	for left := want[api.ResourceGPU] + want[api.ResourceGPUShared]; left > 0 && from/shares < int64(len(s.Cards(i))); {
		j := from / shares
		n := min(left, shares-from%shares)
		milli := int32(n * (cluster.Whole / shares))
		if n == shares {
			milli = cluster.Whole
		}
		o.placement.Devices = append(o.placement.Devices, cluster.Device{GPU: int32(j), MilliGPU: milli, MemoryBytes: cluster.ShareBytes(milli, s.Cards(i)[j].MemoryBytes)})
		from, left = from+n, left-n
	}
	o.placement.Request.GPUs = int32(len(o.placement.Devices))
	return from
}

// classify lets requests of several classes go to the nodes that each allows.
func (s *scene) classify(pl *planner, members []cluster.Request) {
	s.c.Snapshot = s.c.Snapshot.Clone()
	done := map[uint32]bool{0: true}
	for k := range members {
		class := members[k].Class
		if done[class] {
			continue
		}
		done[class] = true
		verdicts := make([]cluster.Verdict, s.c.Snapshot.Len())
		for i := range verdicts {
			verdicts[i] = pl.placer().Snapshot().Verdict(class, i)
		}
		s.c.Snapshot.SetClass(class, verdicts)
	}
}

// bare is what a pod takes of its node beside devices.
func bare(pod *v1.Pod) cluster.Request {
	r := request.Demand(pod, gpu.Sharing{})
	return cluster.Request{CPUMilli: r.CPUMilli, MemoryBytes: r.MemoryBytes}
}

// seat assumes p, on GPUs that have failed too, and says whether there is room.
func seat(s *cluster.Snapshot, p *cluster.Placement) bool {
	for _, d := range p.Devices {
		if j := int(d.GPU); !s.GPUs(p.Node)[j].Healthy {
			s.SetHealthy(p.Node, j, true)
			defer s.SetHealthy(p.Node, j, false)
		}
	}
	return s.Assume(p) == nil
}

// priorityOf is a pod's priority; 0 where none is set.
func priorityOf(pod *v1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}
