package devices

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

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
func (x *Preemption) see(pl *planner, nodes fwk.NodeInfoLister, pods []*v1.Pod, now time.Time) (*scene, error) {
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
	own := map[types.UID]bool{}
	for _, pod := range pods {
		own[pod.UID] = true
	}
	for i := range n {
		seen := map[types.UID]bool{}
		for _, o := range pl.occupants(i) {
			if seen[o.pod.UID] = true; !own[o.pod.UID] {
				x.enter(s, o, now)
			}
		}
		info, err := nodes.Get(pl.nodeName(i))
		if err != nil {
			continue
		}
		for _, pi := range info.GetPods() {
			if pod := pi.GetPod(); !seen[pod.UID] {
				x.enter(s, occupant{pod: pod, placement: cluster.Placement{Node: i, Request: bare(pod)}}, now)
			}
		}
	}
	return s, nil
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

// enter adds a holder to s.
func (x *Preemption) enter(s *scene, o occupant, now time.Time) {
	h := preemption.Holder{Placement: o.placement, Priority: priorityOf(o.pod), Promise: o.held}
	if !o.held {
		if !seat(s.c.Snapshot, &h.Placement) {
			return // more than there is of a node: what cannot be counted cannot be freed
		}
		h.Leaving = o.pod.DeletionTimestamp != nil || x.isGoing(o.pod.UID)
		h.Fixed = x.isKept(o.pod.UID, now)
		h.Budgets = x.budgets.of(o.pod)
		if t := o.pod.Status.StartTime; t != nil {
			h.Start = t.Time
		}
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
