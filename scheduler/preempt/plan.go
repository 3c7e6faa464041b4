package preempt

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/scheduler/nodeindex"
	"berth.dev/berth/scheduler/preempt/candidates"
	"berth.dev/berth/scheduler/queue"
	"berth.dev/berth/scheduler/state"
)

// mostPlans is how many nodes that the framework's filters then refuse are tried
// before a search is given up.
const mostPlans = 8

// makeRoom looks for the cheapest way to place w. If there is one, each pod placed
// has a hold when it returns, and those in the way are being evicted. It must not
// be called inside plan.
func (x *Preemption) makeRoom(ctx context.Context, w *preemptor) (*outcome, error) {
	began := time.Now()
	out, err := x.tryRoom(ctx, w)
	switch {
	case err != nil:
		nodeindex.Searched(nodeindex.SearchError, 0, began)
	case out.room == nil:
		result := nodeindex.SearchRefused
		if out.known {
			result = nodeindex.SearchKnown
		}
		nodeindex.Searched(result, 0, began)
		x.refused.Note(w.lead(), out.against)
		if x.p.Cluster.Behind() { // what was seen to be bound is not in the nodes yet
			queue.Activate(x.p.Handle, klog.FromContext(ctx), w.lead())
		}
	default:
		nodeindex.Searched(nodeindex.SearchMade, len(out.evicted), began)
		for _, pod := range w.pods {
			x.refused.Drop(pod.UID)
		}
	}
	return out, err
}

// roomFor is makeRoom, for a w that evicts no pods too: it may have a place that is reserved
// for one that comes after it, or that needs it later.
func (x *Preemption) roomFor(ctx context.Context, w *preemptor) (*outcome, error) {
	switch {
	case !w.never:
		return x.makeRoom(ctx, w)
	case len(x.reservations.OpenTo(w.lead(), w.pods).Pods) == 0:
		return &outcome{}, nil
	}
	return x.tryRoom(ctx, w)
}

// tryRoom is makeRoom, uncounted.
func (x *Preemption) tryRoom(ctx context.Context, w *preemptor) (*outcome, error) {
	barred := map[string]bool{} // nodes that the filters refuse
	for _, node := range w.avoid {
		barred[node] = true
	}
	w.open = x.reservations.OpenTo(w.lead(), w.pods)
	for range mostPlans {
		var s *candidates.List
		var out *outcome
		err := x.p.Plan(ctx, func(pl *nodeindex.Planner) (err error) {
			s, out, err = x.find(pl, w, barred)
			return err
		})
		if err != nil {
			return nil, err
		}
		// Those that a guest takes places from look for others when it has started: their reservations then wait for its end.
		hosts := x.reservations.Hosts(&w.open, w.lead(), out.broken)
		if len(hosts) == 0 || out.room == nil {
			x.lookAgain(x.p.Handle, klog.FromContext(ctx), out.broken)
		}
		switch {
		case out.bars != "":
			barred[out.bars] = true
			continue
		case out.room == nil:
			out.against.Others = out.against.Others || len(barred) > len(w.avoid)
			return out, nil
		}
		refused, again, err := x.confirm(ctx, w, s, out, barred)
		if len(hosts) > 0 && (refused != nil || again || err != nil) {
			x.holdAgain(ctx, out.given) // else the hosts try again, and wake this pod, without end
		}
		switch {
		case again:
			continue
		case refused != nil || err != nil:
			return refused, err
		}
		if len(hosts) > 0 {
			x.shutAll(out.broken)
			x.reservations.Enter(hosts, w.lead(), out.room.Pods, out.broken)
			x.holdAgain(ctx, out.given)
			x.reservations.Lend(hosts)
		}
		x.promise(out.room.Pods)
		x.carryOut(ctx, w, s, out)
		return out, nil
	}
	return &outcome{refusal: "other filters refuse every node that was tried", against: nodeindex.Obstacles{Kept: true, Others: true}}, nil
}

// holdAgain holds again what was given up, less what is held for others now. So the rest of a reservation is kept until its guests have
// started and their hosts have looked for places again.
func (x *Preemption) holdAgain(ctx context.Context, holds []*state.Hold) {
	if len(holds) == 0 {
		return
	}
	err := x.p.Plan(ctx, func(pl *nodeindex.Planner) error {
		for _, h := range holds {
			pl.HoldAgain(h)
		}
		return nil
	})
	if err != nil {
		klog.FromContext(ctx).Error(err, "The rest of a reservation is not kept while a pod starts that uses it")
	}
}

// confirm checks a plan that has its holds once more. If it does not stand they are withdrawn, and refused is the answer, or again is that another
// plan is to be made, without the nodes that barred then has.
func (x *Preemption) confirm(ctx context.Context, w *preemptor, s *candidates.List, out *outcome, barred map[string]bool) (refused *outcome, again bool, err error) {
	if gone := slices.ContainsFunc(out.room.Pods, func(pod *v1.Pod) bool { return x.p.Cluster.HoldOf(pod.UID) == nil }); gone {
		for _, pod := range out.room.Pods {
			x.p.Cluster.Release(pod.UID)
		}
		return &outcome{refusal: "a pod that room is made for was deleted"}, false, nil
	}
	if w.check != nil {
		if st := x.checked(w, s, out); !st.IsSuccess() {
			klog.FromContext(ctx).V(3).Info("A node with room would be refused", "node", out.nodes[0], "reason", st.Message())
			x.p.Cluster.Withdraw(w.pods[0].UID)
			barred[out.nodes[0]] = true
			return nil, true, nil
		}
	}
	if again, err := x.verified(w, s, out, barred); again || err != nil {
		return nil, again && err == nil, err
	}
	if w.awaits && w.verify != nil && out.room.Empty() { // what keeps the gang off is not the end of pods
		for _, pod := range out.room.Pods {
			x.p.Cluster.Withdraw(pod.UID)
		}
		return &outcome{refusal: "no pod is in the way"}, false, nil
	}
	return nil, false, nil
}

// verified asks the other filters about the plan for a gang. Where they refuse it, again
// is true: its holds are withdrawn, and the next plan asks the filters first or, if this
// one has, leaves the node out.
func (x *Preemption) verified(w *preemptor, s *candidates.List, out *outcome, barred map[string]bool) (again bool, err error) {
	if w.verify == nil {
		return false, nil
	}
	bad, err := w.verify(s, out)
	if err == nil && bad == "" {
		return false, nil
	}
	for _, pod := range out.room.Pods {
		x.p.Cluster.Withdraw(pod.UID)
	}
	if err != nil {
		return false, err
	}
	if w.filtered || w.movable == nil {
		barred[bad] = true
	}
	w.filtered = true
	return true, nil
}

// checked asks the other filters about the plan for one pod. Where they want
// those gone too who leave by themselves, the room waits for them.
func (x *Preemption) checked(w *preemptor, s *candidates.List, out *outcome) *fwk.Status {
	at := out.plan.Placements[0].Node
	going, leaving := s.Going(&out.plan, at)
	st := w.check(out.nodes[0], going)
	if st.IsSuccess() || len(leaving) == 0 {
		return st
	}
	if st = w.check(out.nodes[0], append(going, leaving...)); st.IsSuccess() {
		for _, pod := range leaving {
			out.room.Wait(out.nodes[0], pod)
		}
	}
	return st
}
