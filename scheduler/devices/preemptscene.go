package devices

import (
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/preemption"
	"berth.dev/berth/kube"
)

// scene is the cluster as plans for room see it: who holds what on each node,
// pods without GPUs too, and what is promised to whom.
type scene struct {
	c    *preemption.Cluster
	pods [][]*v1.Pod // whose the holders are, as in c.Holders
}

// pod gives the pod of a holder.
func (s *scene) pod(id preemption.ID) *v1.Pod { return s.pods[id.Node][id.Holder] }

// see reads the scene for pods, whose own holds do not stand in their way.
func (x *Preemption) see(pl *planner, pods []*v1.Pod, now time.Time) (*scene, error) {
	allowed, err := x.budgets.read(x.evictor)
	if err != nil {
		return nil, err
	}
	empty := pl.placer().Snapshot().Emptied(1)
	n := empty.Len()
	s := &scene{
		c:    &preemption.Cluster{Snapshot: empty, Holders: make([][]preemption.Holder, n), MinCount: map[string]int{}, Budgets: allowed},
		pods: make([][]*v1.Pod, n),
	}
	going, kept := x.known(now)
	for i := range n {
		at := pl.w.sites[i]
		for key, o := range at.held {
			if o.pod != nil && o.pod.UID != key {
				x.enter(s, o, &fate{fixed: true}) // a binding that may have arrived: nobody knows whom to evict
			}
		}
		info, err := pl.all.Get(pl.nodeName(i))
		if err != nil {
			continue
		}
		dealt, there := int64(0), info.GetPods()
		s.c.Holders[i], s.pods[i] = make([]preemption.Holder, 0, len(there)), make([]*v1.Pod, 0, len(there))
		for _, pi := range there {
			pod := pi.GetPod()
			o := at.held[pod.UID]
			if o == nil {
				o = &occupant{pod: pod, placement: cluster.Placement{Node: i, Request: bare(pod)}}
				if at.foreign {
					dealt = deal(empty, o, dealt)
				}
			}
			x.enter(s, o, &fate{leaves: pod.DeletionTimestamp != nil || going[pod.UID], fixed: kept[pod.UID]})
		}
	}
	x.promises(pl, s, pods)
	return s, nil
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
		if g, _ := kube.GangOf(h.pod); g != nil {
			p.Gang = "held for " + g.Key // a gang's plan stands or falls as a whole
		}
		s.c.Holders[at.index], s.pods[at.index] = append(s.c.Holders[at.index], p), append(s.pods[at.index], h.pod)
	}
}

// deal counts a pod on the GPUs of a node whose devices nobody knows one by one:
// from is how many units of them are dealt already. It gives how many are then.
func deal(s *cluster.Snapshot, o *occupant, from int64) int64 {
	want := kube.Request(o.pod)
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

// classify lets requests of a class go to the nodes that it allows.
func (s *scene) classify(pl *planner, class uint32) {
	if class == 0 {
		return
	}
	verdicts := make([]cluster.Verdict, s.c.Snapshot.Len())
	for i := range verdicts {
		verdicts[i] = pl.placer().Snapshot().Verdict(class, i)
	}
	s.c.Snapshot.SetClass(class, verdicts)
}

// bare is what a pod takes of its node beside devices.
func bare(pod *v1.Pod) cluster.Request {
	r := kube.Demand(pod, gpu.Sharing{})
	return cluster.Request{CPUMilli: r.CPUMilli, MemoryBytes: r.MemoryBytes}
}

// fate is what is known of a holder's end.
type fate struct {
	leaves bool // goes by itself
	fixed  bool // must not be evicted
}

// enter adds a holder to s.
func (x *Preemption) enter(s *scene, o *occupant, f *fate) {
	h := preemption.Holder{Placement: o.placement, Priority: priorityOf(o.pod), Leaving: f.leaves, Fixed: f.fixed, Budgets: x.budgets.of(o.pod)}
	if !seat(s.c.Snapshot, &h.Placement) {
		return // more than there is of a node: what cannot be counted cannot be freed
	}
	if t := o.pod.Status.StartTime; t != nil {
		h.Start = t.Time
	}
	if g, _ := kube.GangOf(o.pod); g != nil {
		h.Gang, s.c.MinCount[g.Key] = g.Key, g.MinCount
	}
	i := h.Placement.Node
	s.c.Holders[i] = append(s.c.Holders[i], h)
	s.pods[i] = append(s.pods[i], o.pod)
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
