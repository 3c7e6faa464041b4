package filters

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/kube/request"
	"berth.dev/berth/scheduler/nodeindex"
)

// New makes Filters of pods in the scheduling cycle of one of them, before other
// plugins have written to it. It is nil where the framework cannot be asked, as in
// tests of plugins alone. The error is of a plugin that failed.
//
// The pods of gone are bound, and count as gone from their nodes: they are to be
// evicted.
func New(ctx context.Context, pl *nodeindex.Planner, cycle fwk.CycleState, pods, gone []*v1.Pod) (*Filters, error) {
	return create(ctx, pl, cycle, pods, gone, false)
}

// create is New. live is that pods may leave later on: see Leave.
func create(ctx context.Context, pl *nodeindex.Planner, cycle fwk.CycleState, pods, gone []*v1.Pod, live bool) (*Filters, error) {
	runner, ok := pl.P.Handle.(preFilters)
	if !ok || pl.P.Cluster.NewPodInfo == nil {
		return nil, nil
	}
	t := &Filters{ctx: ctx, pl: pl, runner: runner, base: onBehalf(cycle), pods: pods, copies: map[string]fwk.NodeInfo{}, changed: map[string]int{}}
	t.without(gone)
	t.live = t.live || live
	known := map[string]int{}
	differ := t.telling()
	for _, pod := range pods {
		info, err := pl.P.Cluster.NewPodInfo(pod)
		if err != nil {
			t.Close()
			return nil, fmt.Errorf("read pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		key := kindKey(pod, differ)
		k, had := known[key]
		if !had {
			k = len(t.kinds)
			known[key] = k
			t.kinds = append(t.kinds, &kind{pod: pod, forbids: map[domain]int{}, keys: map[string]int{}})
		}
		t.infos, t.of = append(t.infos, info), append(t.of, k)
	}
	for _, k := range t.kinds {
		if err := t.ask(k); err != nil {
			t.Close()
			return nil, err
		}
		t.live = t.live || k.spreads
	}
	t.addOthers()
	return t, nil
}

// without takes pods off their nodes, tentatively.
func (t *Filters) without(gone []*v1.Pod) {
	t.live = len(gone) > 0
	for _, pod := range gone {
		if s, ok := t.takeOff(pod); ok {
			t.gone = append(t.gone, s)
		}
	}
}

// ask has PreFilter look at a kind of pod.
func (t *Filters) ask(k *kind) error {
	k.state, k.stale, k.answers = t.base.Clone(), false, map[string]answer{}
	only, status := preFilter(t.ctx, t.runner, k.state, k.pod)
	if k.only, k.refused = only, nil; !status.IsSuccess() {
		if !status.IsRejected() {
			return fmt.Errorf("ask the filters about pod %s/%s: %w", k.pod.Namespace, k.pod.Name, status.AsError())
		}
		k.refused = status
	}
	skip := k.state.GetSkipFilterPlugins()
	k.spreads = k.refused == nil && !skip.Has(spreadPlugin)
	k.far = k.spreads || !skip.Has(affinityPlugin)
	return nil
}

// addOthers places pods that something is held for, and those that were nominated
// with at least the priority of this plan.
func (t *Filters) addOthers() {
	own, done := map[types.UID]bool{}, map[types.UID]bool{}
	for _, pod := range t.pods {
		own[pod.UID] = true
	}
	d := t.pl.P.Cluster
	d.Mu.Lock()
	var holds []placedPod
	for uid, h := range d.Holds {
		if own[uid] {
			continue
		}
		if info, err := d.NewPodInfo(h.Pod); err == nil {
			holds, done[uid] = append(holds, placedPod{info, h.Node}), true
		}
	}
	d.Mu.Unlock()
	for _, at := range t.pl.W.Nodes {
		for _, info := range t.pl.P.Handle.NominatedPodsForNode(at.Object.Name) {
			if pod := info.GetPod(); !own[pod.UID] && !done[pod.UID] && request.Priority(pod) >= request.Priority(t.pods[0]) {
				holds = append(holds, placedPod{info, at.Object.Name})
			}
		}
	}
	for _, s := range holds {
		t.enter(s)
	}
	t.others = len(t.placed)
}

// Close takes back all that was placed. It may be called on nil, and more than once.
func (t *Filters) Close() {
	if t == nil {
		return
	}
	for len(t.placed) > 0 {
		t.leave()
	}
	t.others = 0
	t.Leave(nil)
	for _, s := range t.gone {
		if info, err := t.pl.All.Get(s.node); err == nil {
			info.AddPodInfo(s.info)
		}
	}
	t.gone = nil
}

// NewMovable is New for a search for victims: pods leave their nodes, tentatively, by Leave.
func NewMovable(ctx context.Context, pl *nodeindex.Planner, cycle fwk.CycleState, pods []*v1.Pod) (*Filters, error) {
	return create(ctx, pl, cycle, pods, nil, true)
}
