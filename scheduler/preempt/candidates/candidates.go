// Package candidates is the cluster as preemption sees it: which pods hold what on
// each node, pods without GPUs too, and what is held for pods that are not bound
// yet. It chooses nothing: core/preemption and core/quota do.
package candidates

import (
	"maps"
	"math"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/preemption"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/kube/runs"
	"berth.dev/berth/scheduler/evict"
	"berth.dev/berth/scheduler/nodeindex"
	"berth.dev/berth/scheduler/runtimes"
)

// List is the cluster as one search for victims sees it.
type List struct {
	Cluster *preemption.Cluster
	Pods    [][]*v1.Pod // whose the holders are, as in Cluster.Holders
	// Lowest is the lowest priority of them all: no pod that is not above it can
	// make room. It is math.MaxInt32 where there are none.
	Lowest int32
}

// Pod returns the pod of a holder.
func (s *List) Pod(id preemption.ID) *v1.Pod { return s.Pods[id.Node][id.Holder] }

// Preemptor is who needs room, as far as the candidates depend on it.
type Preemptor struct {
	Pods []*v1.Pod            // what is held for these does not stand in their way
	Ends map[types.UID]string // pods whose ends they wait for already, with their nodes
	Open map[types.UID]bool   // pods with reserved places that are not kept from them
	// Awaits is that they evict no pods, and wait for the ends of others: these are needed.
	Awaits bool
	Never  bool // they evict no pods: at most they get a place of one of Open
}

// List reads the candidates for w, as they are now. It is an error where the disruption
// budgets cannot be listed.
func (v *Cache) List(pl *nodeindex.Planner, budgets *evict.Budgets, w *Preemptor, now time.Time) (*List, error) {
	allowed, err := budgets.Read(v.evictor)
	if err != nil {
		return nil, err
	}
	if v.view != pl.W || v.budgets != budgets.Was || !v.look(pl, budgets) {
		v.reset(pl, budgets.Was)
		v.look(pl, budgets)
	}
	s := &List{
		Cluster: &preemption.Cluster{Snapshot: v.snapshot, Holders: make([][]preemption.Holder, len(v.list)), MinCount: v.minCount, Budgets: allowed},
		Pods:    make([][]*v1.Pod, len(v.list)), Lowest: math.MaxInt32,
	}
	for i := range v.list {
		s.Lowest = min(s.Lowest, v.list[i].lowest)
		s.Cluster.Holders[i], s.Pods[i] = slices.Clip(v.list[i].holders), slices.Clip(v.list[i].pods)
	}
	for key := range v.minCount {
		if n := v.least(key); n > 0 { // what counts the gang's members knows it, and its pods need not
			v.minCount[key] = n
		}
	}
	going, kept := v.evictor.Known(now)
	s.mark(pl, going, func(h *preemption.Holder) { h.Leaving = true })
	s.mark(pl, kept, func(h *preemption.Holder) { h.Fixed = true })
	s.mark(pl, w.Ends, func(h *preemption.Holder) { h.Awaited = true })
	if w.Never {
		s.fixLowest(v)
	}
	if w.Awaits {
		s.expect(v, now)
	}
	s.promise(pl, w)
	return s, nil
}

// fixLowest makes pods stay that have the lowest priority there is, as promises have that
// may go.
func (s *List) fixLowest(v *Cache) {
	for i := range v.list {
		if v.list[i].lowest > preemption.Yielding {
			continue
		}
		s.Cluster.Holders[i] = slices.Clip(slices.Clone(s.Cluster.Holders[i]))
		for k := range s.Cluster.Holders[i] {
			s.Cluster.Holders[i][k].Fixed = true
		}
	}
}

// expect notes when pods are expected to end that do not declare it, and have started.
func (s *List) expect(v *Cache, now time.Time) {
	for i := range v.list {
		n := &v.list[i]
		if n.like == nil {
			n.like = make([]queue.Template, len(n.pods))
			for k, pod := range n.pods {
				n.like[k] = runs.TemplateOf(pod)
			}
		}
		var own []preemption.Holder
		for k := range n.holders {
			h := s.Cluster.Holders[i][k]
			if !h.Ends.IsZero() || h.Start.IsZero() {
				continue
			}
			if h.Ends = v.times.EndOf(n.like[k], now.Sub(h.Start), runtimes.EndOfOthers, now); h.Ends.IsZero() {
				continue
			}
			if own == nil {
				own = slices.Clip(slices.Clone(s.Cluster.Holders[i]))
			}
			own[k] = h
		}
		if own != nil {
			s.Cluster.Holders[i] = own
		}
	}
}

// mark changes the holders that pods, named with their nodes, are.
func (s *List) mark(pl *nodeindex.Planner, pods map[types.UID]string, change func(*preemption.Holder)) {
	for uid, node := range pods {
		at := pl.W.ByName[node]
		if at == nil {
			continue
		}
		k := slices.IndexFunc(s.Pods[at.Index], func(p *v1.Pod) bool { return p.UID == uid })
		if k >= 0 {
			s.Cluster.Holders[at.Index] = slices.Clip(slices.Clone(s.Cluster.Holders[at.Index]))
			change(&s.Cluster.Holders[at.Index][k])
		}
	}
}

// promise adds what is held for pods that are not there yet, but for those of w. What is
// reserved, and not kept from w, may go for it, whatever the priorities.
func (s *List) promise(pl *nodeindex.Planner, w *Preemptor) {
	d := pl.P.Cluster
	d.Mu.Lock()
	defer d.Mu.Unlock()
	for _, uid := range slices.Sorted(maps.Keys(d.Holds)) {
		h := d.Holds[uid]
		at := pl.W.ByName[h.Node]
		if at == nil || slices.ContainsFunc(w.Pods, func(pod *v1.Pod) bool { return pod.UID == uid }) {
			continue
		}
		p := preemption.Holder{
			Placement: cluster.Placement{Node: at.Index, Request: h.Request, Devices: h.At}, Priority: request.Priority(h.Pod), Promise: true,
		}
		if w.Open[uid] {
			p.Priority = preemption.Yielding
		}
		s.Lowest = min(s.Lowest, p.Priority)
		if g, _ := request.GangOf(h.Pod); g != nil {
			p.Gang = "held for " + g.Key // a gang's plan stands or falls as a whole
		}
		s.Cluster.Holders[at.Index], s.Pods[at.Index] = append(s.Cluster.Holders[at.Index], p), append(s.Pods[at.Index], h.Pod)
	}
}
