package preempt

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/preemption"
	"berth.dev/berth/scheduler/filters"
	"berth.dev/berth/scheduler/nodeindex"
)

// mostPlans is how many nodes that the framework's filters then refuse are tried
// before a search is given up.
const mostPlans = 8

// mostDomains is how many domains are searched for a gang that must stay in one.
const mostDomains = 64

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
			x.p.Handle.Activate(klog.FromContext(ctx), named([]*v1.Pod{w.lead()}))
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
// for one that comes after it.
func (x *Preemption) roomFor(ctx context.Context, w *preemptor) (*outcome, error) {
	switch {
	case !w.never:
		return x.makeRoom(ctx, w)
	case len(x.reservations.After(w.lead())) == 0:
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
	w.after = x.reservations.After(w.lead())
	for range mostPlans {
		var s *candidates
		var out *outcome
		err := x.p.Plan(ctx, func(pl *nodeindex.Planner) (err error) {
			s, out, err = x.find(pl, w, barred)
			return err
		})
		if err != nil {
			return nil, err
		}
		x.tellBroken(ctx, out.broken)
		switch {
		case out.bars != "":
			barred[out.bars] = true
			continue
		case out.room == nil:
			out.against.Others = out.against.Others || len(barred) > len(w.avoid)
			return out, nil
		}
		if gone := slices.ContainsFunc(out.room.Pods, func(pod *v1.Pod) bool { return x.p.Cluster.HoldOf(pod.UID) == nil }); gone {
			for _, pod := range out.room.Pods {
				x.p.Cluster.Release(pod.UID)
			}
			return &outcome{refusal: "a pod that room is made for was deleted"}, nil
		}
		if w.check != nil {
			if st := x.checked(w, s, out); !st.IsSuccess() {
				klog.FromContext(ctx).V(3).Info("A node with room would be refused", "node", out.nodes[0], "reason", st.Message())
				x.p.Cluster.Withdraw(w.pods[0].UID)
				barred[out.nodes[0]] = true
				continue
			}
		}
		if again, err := x.verified(w, s, out, barred); again || err != nil {
			if err != nil {
				return nil, err
			}
			continue
		}
		if w.awaits && w.verify != nil && out.room.Empty() { // what keeps the gang off is not the end of pods
			for _, pod := range out.room.Pods {
				x.p.Cluster.Withdraw(pod.UID)
			}
			return &outcome{refusal: "no pod is in the way"}, nil
		}
		x.promise(out.room.Pods)
		x.carryOut(ctx, w, s, out)
		return out, nil
	}
	return &outcome{refusal: "other filters refuse every node that was tried", against: nodeindex.Obstacles{Kept: true, Others: true}}, nil
}

// verified asks the other filters about the plan for a gang. Where they refuse it, again
// is true: its holds are withdrawn, and the next plan asks the filters first or, if this
// one has, leaves the node out.
func (x *Preemption) verified(w *preemptor, s *candidates, out *outcome, barred map[string]bool) (again bool, err error) {
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
func (x *Preemption) checked(w *preemptor, s *candidates, out *outcome) *fwk.Status {
	at := out.plan.Placements[0].Node
	going, leaving := s.going(out, at)
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

// find finds a plan for w, and takes holds.
func (x *Preemption) find(pl *nodeindex.Planner, w *preemptor, barred map[string]bool) (*candidates, *outcome, error) {
	now := time.Now()
	asked := w.ask(pl, barred)
	key, state := w.key(asked, x.queueOf(w.pods)), x.state(pl)
	if len(barred) == 0 && w.every && !w.awaits && !w.filtered {
		if was, ok := x.searches.Before(key, state, now); ok {
			return nil, &outcome{refusal: was.Text, short: was.Short, against: was.Against, known: true}, nil
		}
	}
	s, err := x.see(pl, w, now)
	if err != nil {
		return nil, nil, err
	}
	s.narrow(pl, asked)
	claim, later := x.claim(s, w)
	disallowed := false
	if w.allows != nil {
		asked.Allows = func(i int, gone []preemption.ID) bool {
			pods := make([]*v1.Pod, 0, len(gone))
			for _, id := range gone {
				pods = append(pods, s.pod(id))
			}
			ok := w.allows(pl.NodeName(i), pods)
			disallowed = disallowed || !ok
			return ok
		}
	}
	var checks *filters.Filters
	if w.filtered && w.movable != nil {
		if checks, err = w.movable(pl); err != nil {
			return nil, nil, err
		}
	}
	if checks != nil {
		asked.Filters = asker{checks, s}
	}
	plan, why, ok := w.search(pl, s, asked, now)
	if checks != nil {
		checks.Close() // before something is held
	}
	if !ok {
		_, kept := x.Known(now)
		out := &outcome{refusal: refusalText(&why), short: why.ShortMilli, against: nodeindex.ObstaclesTo(&why, len(kept), x.p.Cluster.InDoubt())}
		if until := protected(claim, later); until != "" && !w.awaits {
			out.refusal = until
		} else if len(barred) == 0 && w.every && !disallowed && !w.awaits && !w.filtered {
			x.searches.Note(key, nodeindex.Search{State: state, Text: out.refusal, Short: out.short, Against: out.against, At: now})
		}
		return s, out, nil
	}
	if why := s.payBack(pl, claim, &plan); why != "" {
		return s, &outcome{refusal: why, against: nodeindex.Obstacles{Kept: true, Others: true}}, nil
	}
	out := &outcome{plan: plan, claim: claim, nodes: make([]string, len(w.pods))}
	for _, id := range plan.Broken {
		pl.Release(s.pod(id).UID)
		out.broken = append(out.broken, s.pod(id))
	}
	if bars := hold(pl, w, out); bars != "" {
		return s, &outcome{bars: bars, broken: out.broken}, nil
	}
	out.room = s.room(pl, w, out)
	return s, out, nil
}

// narrow has the search pass over nodes that the members' classes exclude.
func (s *candidates) narrow(pl *nodeindex.Planner, asked *preemption.Preemptor) {
	class := asked.Members[0].Class
	if slices.ContainsFunc(asked.Members, func(r cluster.Request) bool { return r.Class != class }) {
		s.classify(pl, asked.Members)
		return
	}
	may, verdicts := asked.Node, pl.Placer().Snapshot()
	asked.Node = func(i int) bool { return verdicts.Verdict(class, i).Reason == 0 && may(i) }
	for k := range asked.Members {
		asked.Members[k].Class = 0
	}
}

// hold holds what a plan places. If a node cannot be held, nothing is, and that node is
// returned.
func hold(pl *nodeindex.Planner, w *preemptor, out *outcome) (bars string) {
	for k := range out.plan.Placements {
		at := &out.plan.Placements[k]
		if at.Node < 0 {
			continue
		}
		if err := pl.Hold(w.pods[k], *at, w.why); err != nil {
			for _, pod := range w.pods[:k] {
				pl.Release(pod.UID)
			}
			pl.Log.Error(err, "Room on a node is of no use", "node", pl.NodeName(at.Node))
			return pl.NodeName(at.Node)
		}
		out.nodes[k] = pl.NodeName(at.Node)
	}
	return ""
}

// ask says what w asks for.
func (w *preemptor) ask(pl *nodeindex.Planner, barred map[string]bool) *preemption.Preemptor {
	asked := &preemption.Preemptor{MinCount: w.minCount, Priority: w.priority(), Gang: w.gang}
	for _, pod := range w.pods {
		asked.Members = append(asked.Members, pl.Request(pod))
	}
	asked.Node = func(i int) bool {
		name := pl.NodeName(i)
		return !barred[name] && (w.may == nil || w.may(name))
	}
	return asked
}

// search looks for the cheapest plan, in each of w's domains if it has any.
func (w *preemptor) search(pl *nodeindex.Planner, s *candidates, asked *preemption.Preemptor, now time.Time) (best preemption.Plan, why preemption.Refusal, found bool) {
	look := preemption.Find
	if w.awaits {
		look = preemption.Await
	}
	switch {
	case s.lowest >= asked.Priority && !w.awaits: // the usual case of a long queue: no pod is below it
		why.Nodes = s.c.Snapshot.Len()
		for i := range why.Nodes {
			if !asked.Node(i) {
				why.Closed++
			}
		}
		why.NoVictims, why.ShortMilli = why.Nodes-why.Closed, math.MaxInt64 // no end of others makes victims
		return best, why, false
	case w.domains == nil:
		return look(s.c, asked, now)
	}
	all := make([]*v1.Node, s.c.Snapshot.Len())
	for i := range all {
		all[i] = pl.Object(i)
	}
	why.Nodes, why.Closed = len(all), len(all)
	may := asked.Node
	for n, in := range w.domains(all) {
		if n == mostDomains {
			break
		}
		asked.Node = func(i int) bool { return in[pl.NodeName(i)] && may(i) }
		plan, no, ok := look(s.c, asked, now)
		switch {
		case ok && (!found || plan.Cost.Compare(best.Cost) < 0):
			best, found = plan, true
		case !ok && no.Closed < why.Closed:
			why = no
		}
	}
	return best, why, found
}

// refusalText counts the causes, in the stock scheduler's words where it has any.
func refusalText(why *preemption.Refusal) string {
	var parts []string
	for _, c := range []struct {
		n    int
		text string
	}{
		{why.NoVictims, "No preemption victims found for incoming pod"},
		{why.TooSmall + why.Closed, "Preemption is not helpful for scheduling"},
		{why.Protected, "victims are kept by a disruption budget or a gang"},
	} {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.text))
		}
	}
	slices.Sort(parts)
	return fmt.Sprintf("0/%d nodes are available: %s.", why.Nodes, strings.Join(parts, ", "))
}
