package preempt

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
	"berth.dev/berth/kube/snapshot"
	"berth.dev/berth/scheduler/nodeindex"
	"berth.dev/berth/scheduler/state"
)

// candidates is the cluster as plans for room see it: who holds what on each node,
// pods without GPUs too, and what is promised to whom.
type candidates struct {
	c    *preemption.Cluster
	pods [][]*v1.Pod // whose the holders are, as in c.Holders
	// lowest is the lowest priority of them all: no pod that is not above it can
	// make room.
	lowest int32
}

// pod gives the pod of a holder.
func (s *candidates) pod(id preemption.ID) *v1.Pod { return s.pods[id.Node][id.Holder] }

// nodeCache is what was read of the nodes last time. Only nodes that have changed are
// read again. The view's lock guards it.
type nodeCache struct {
	view     *nodeindex.View
	budgets  int64             // budgets.who, as of which holders name their budgets
	snapshot *cluster.Snapshot // as the view's, with what is there and nothing that is held for others
	nodes    []cachedNode
	minCount map[string]int
}

// cachedNode is one node in a nodeCache.
type cachedNode struct {
	generation int64
	from       *state.Ledger
	version    int
	holders    []preemption.Holder
	pods       []*v1.Pod
	lowest     int32 // priority
}

// see reads the candidates for the pods of w, whose own holds do not stand in their way.
func (x *Preemption) see(pl *nodeindex.Planner, w *preemptor, now time.Time) (*candidates, error) {
	allowed, err := x.budgets.Read(x.Evictor)
	if err != nil {
		return nil, err
	}
	v := &x.preemptions.nodeCache
	if v.view != pl.W || v.budgets != x.budgets.Was || !x.look(pl) {
		v.reset(pl, x.budgets.Was)
		x.look(pl)
	}
	s := &candidates{
		c:    &preemption.Cluster{Snapshot: v.snapshot, Holders: make([][]preemption.Holder, len(v.nodes)), MinCount: v.minCount, Budgets: allowed},
		pods: make([][]*v1.Pod, len(v.nodes)), lowest: math.MaxInt32,
	}
	for i := range v.nodes {
		s.lowest = min(s.lowest, v.nodes[i].lowest)
		s.c.Holders[i], s.pods[i] = slices.Clip(v.nodes[i].holders), slices.Clip(v.nodes[i].pods)
	}
	for key := range v.minCount {
		if n := x.least(key); n > 0 { // what counts the gang's members knows it, and its pods need not
			v.minCount[key] = n
		}
	}
	going, kept := x.Known(now)
	s.mark(pl, going, func(h *preemption.Holder) { h.Leaving = true })
	s.mark(pl, kept, func(h *preemption.Holder) { h.Fixed = true })
	s.mark(pl, w.ends, func(h *preemption.Holder) { h.Awaited = true })
	if w.never {
		s.fixLowest(v)
	}
	x.promises(pl, s, w)
	return s, nil
}

// fixLowest makes pods stay that have the lowest priority there is, as promises have that
// may go.
func (s *candidates) fixLowest(v *nodeCache) {
	for i := range v.nodes {
		if v.nodes[i].lowest > preemption.Yielding {
			continue
		}
		s.c.Holders[i] = slices.Clip(slices.Clone(s.c.Holders[i]))
		for k := range s.c.Holders[i] {
			s.c.Holders[i][k].Fixed = true
		}
	}
}

// mark changes the holders that pods, named with their nodes, are.
func (s *candidates) mark(pl *nodeindex.Planner, pods map[types.UID]string, change func(*preemption.Holder)) {
	for uid, node := range pods {
		at := pl.W.ByName[node]
		if at == nil {
			continue
		}
		k := slices.IndexFunc(s.pods[at.Index], func(p *v1.Pod) bool { return p.UID == uid })
		if k >= 0 {
			s.c.Holders[at.Index] = slices.Clip(slices.Clone(s.c.Holders[at.Index]))
			change(&s.c.Holders[at.Index][k])
		}
	}
}

// reset makes v a nodeCache in which nothing has been read.
func (v *nodeCache) reset(pl *nodeindex.Planner, budgets int64) {
	*v = nodeCache{
		view: pl.W, budgets: budgets, snapshot: pl.Placer().Snapshot().Emptied(1),
		nodes: make([]cachedNode, len(pl.W.Nodes)), minCount: map[string]int{},
	}
}

// look reads the nodes that have changed. It says no where one has become another
// than the Snapshot can tell.
func (x *Preemption) look(pl *nodeindex.Planner) bool {
	v := &x.preemptions.nodeCache
	for i, at := range pl.W.Nodes {
		n := &v.nodes[i]
		if n.generation == at.Generation && n.from == at.From && n.version == at.Version && n.pods != nil {
			continue
		}
		if n.pods != nil && v.snapshot.Replace(i, &at.Spec) != nil {
			return false
		}
		*n = cachedNode{generation: at.Generation, from: at.From, version: at.Version, pods: []*v1.Pod{}, lowest: math.MaxInt32}
		x.read(pl, i)
	}
	return true
}

// read reads node i, which has nothing on it yet.
func (x *Preemption) read(pl *nodeindex.Planner, i int) {
	at := pl.W.Nodes[i]
	for key, o := range at.Held {
		if o.Pod != nil && o.Pod.UID != key {
			x.enter(i, o.Pod, o.Placement, true) // a binding that may have arrived: which of the two to evict is not known
		}
	}
	info, err := pl.All.Get(pl.NodeName(i))
	if err != nil {
		return
	}
	counted := int64(0)
	for _, pi := range info.GetPods() {
		pod := pi.GetPod()
		o := at.Held[pod.UID]
		if o == nil {
			o = &snapshot.Occupant{Pod: pod, Placement: cluster.Placement{Node: i, Request: bare(pod)}}
			if at.Foreign {
				counted = countUnnamed(x.preemptions.nodeCache.snapshot, o, counted)
			}
		}
		x.enter(i, pod, o.Placement, false) // the index may have the pod as it was bound: not started, not deleted
	}
}

// enter adds a pod with what it holds to node i of the nodeCache.
func (x *Preemption) enter(i int, pod *v1.Pod, held cluster.Placement, fixed bool) {
	v := &x.preemptions.nodeCache
	h := preemption.Holder{
		Placement: held, Priority: request.Priority(pod), Leaving: pod.DeletionTimestamp != nil, Fixed: fixed, Budgets: x.budgets.Of(pod),
	}
	if !assumeUnhealthyToo(v.snapshot, &h.Placement) {
		return // more than there is of a node: what cannot be counted cannot be freed
	}
	if t := pod.Status.StartTime; t != nil {
		h.Start, h.Checkpoint = t.Time, request.Checkpoint(pod)
	}
	h.Ends = request.Ends(pod)
	if g, _ := request.GangOf(pod); g != nil {
		h.Gang, v.minCount[g.Key] = g.Key, g.MinCount
	}
	v.nodes[i].lowest = min(v.nodes[i].lowest, h.Priority)
	v.nodes[i].holders, v.nodes[i].pods = append(v.nodes[i].holders, h), append(v.nodes[i].pods, pod)
}

// promises adds what is held for pods that are not there yet, but for those of w. What is
// reserved for a pod that comes after w may go for it, whatever the priorities.
func (x *Preemption) promises(pl *nodeindex.Planner, s *candidates, w *preemptor) {
	d := x.p.Cluster
	d.Mu.Lock()
	defer d.Mu.Unlock()
	for _, uid := range slices.Sorted(maps.Keys(d.Holds)) {
		h := d.Holds[uid]
		at := pl.W.ByName[h.Node]
		if at == nil || slices.ContainsFunc(w.pods, func(pod *v1.Pod) bool { return pod.UID == uid }) {
			continue
		}
		p := preemption.Holder{
			Placement: cluster.Placement{Node: at.Index, Request: h.Request, Devices: h.At}, Priority: request.Priority(h.Pod), Promise: true,
		}
		if w.after[uid] {
			p.Priority = preemption.Yielding
		}
		s.lowest = min(s.lowest, p.Priority)
		if g, _ := request.GangOf(h.Pod); g != nil {
			p.Gang = "held for " + g.Key // a gang's plan stands or falls as a whole
		}
		s.c.Holders[at.Index], s.pods[at.Index] = append(s.c.Holders[at.Index], p), append(s.pods[at.Index], h.Pod)
	}
}

// countUnnamed counts a pod on the GPUs of a node that does not publish its devices:
// from is how many units of them are counted already. It returns how many are then.
func countUnnamed(s *cluster.Snapshot, o *snapshot.Occupant, from int64) int64 {
	want := request.Of(o.Pod)
	i, shares := o.Placement.Node, int64(s.Node(o.Placement.Node).Shares)
	for left := want[api.ResourceGPU] + want[api.ResourceGPUShared]; left > 0 && from/shares < int64(len(s.Cards(i))); {
		j := from / shares
		n := min(left, shares-from%shares)
		milli := int32(n * (cluster.Whole / shares))
		if n == shares {
			milli = cluster.Whole
		}
		o.Placement.Devices = append(o.Placement.Devices, cluster.Device{GPU: int32(j), MilliGPU: milli, MemoryBytes: cluster.ShareBytes(milli, s.Cards(i)[j].MemoryBytes)})
		from, left = from+n, left-n
	}
	o.Placement.Request.GPUs = int32(len(o.Placement.Devices))
	return from
}

// classify lets requests of several classes go to the nodes that each allows.
func (s *candidates) classify(pl *nodeindex.Planner, members []cluster.Request) {
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
			verdicts[i] = pl.Placer().Snapshot().Verdict(class, i)
		}
		s.c.Snapshot.SetClass(class, verdicts)
	}
}

// bare is what a pod takes of its node beside devices.
func bare(pod *v1.Pod) cluster.Request {
	r := request.Demand(pod, gpu.Sharing{})
	return cluster.Request{CPUMilli: r.CPUMilli, MemoryBytes: r.MemoryBytes}
}

// assumeUnhealthyToo assumes p, on GPUs that have failed too, and says whether there is room.
func assumeUnhealthyToo(s *cluster.Snapshot, p *cluster.Placement) bool {
	for _, d := range p.Devices {
		if j := int(d.GPU); !s.GPUs(p.Node)[j].Healthy {
			s.SetHealthy(p.Node, j, true)
			defer s.SetHealthy(p.Node, j, false)
		}
	}
	return s.Assume(p) == nil
}
