package preempt

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/core/preemption"
	"berth.dev/berth/scheduler/filters"
	"berth.dev/berth/scheduler/nodeindex"
	"berth.dev/berth/scheduler/preempt/candidates"
	"berth.dev/berth/scheduler/quota"
)

// mostDomains is how many domains are searched for a gang that must stay in one.
const mostDomains = 64

// find finds a plan for w, and takes holds.
func (x *Preemption) find(pl *nodeindex.Planner, w *preemptor, barred map[string]bool) (*candidates.List, *outcome, error) {
	now := time.Now()
	asked := w.ask(pl, barred)
	key, state := w.key(asked, x.queueOf(w.pods)), x.state(pl)
	if len(barred) == 0 && w.every && !w.awaits && !w.filtered {
		if was, ok := x.searches.Before(key, state, now); ok {
			return nil, &outcome{refusal: was.Text, short: was.Short, against: was.Against, known: true}, nil
		}
	}
	s, err := x.nodes.List(pl, x.budgets, &candidates.Preemptor{Pods: w.pods, Ends: w.ends, Open: w.open.Pods, Awaits: w.awaits, Never: w.never}, now)
	if err != nil {
		return nil, nil, err
	}
	s.Narrow(pl, asked)
	var claim *quota.Claim
	var later time.Time
	if !w.awaits {
		claim, later = x.claim(s, w)
	}
	disallowed := false
	if w.allows != nil {
		asked.Allows = func(i int, gone []preemption.ID) bool {
			pods := make([]*v1.Pod, 0, len(gone))
			for _, id := range gone {
				pods = append(pods, s.Pod(id))
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
		asked.Filters = s.Filters(checks)
	}
	plan, why, ok := w.search(pl, s, asked, now)
	if checks != nil {
		checks.Close() // before something is held
	}
	if !ok {
		_, kept := x.Known(now)
		out := &outcome{refusal: refusalText(&why), short: why.ShortMilli, against: nodeindex.ObstaclesTo(&why, len(kept), x.p.Cluster.InDoubt())}
		if until := candidates.Protected(claim, later); until != "" && !w.awaits {
			out.refusal = until
		} else if len(barred) == 0 && w.every && !disallowed && !w.awaits && !w.filtered {
			x.searches.Note(key, nodeindex.Search{State: state, Text: out.refusal, Short: out.short, Against: out.against, At: now})
		}
		return s, out, nil
	}
	if w.awaits {
		claim = x.owing(pl, s, w, &plan)
	}
	if why := s.PayBack(pl, claim, &plan); why != "" {
		return s, &outcome{refusal: why, against: nodeindex.Obstacles{Kept: true, Others: true}}, nil
	}
	out := &outcome{plan: plan, claim: claim, nodes: make([]string, len(w.pods))}
	for _, id := range plan.Broken {
		if h := x.p.Cluster.HoldOf(s.Pod(id).UID); h != nil {
			out.given = append(out.given, h)
		}
		pl.Release(s.Pod(id).UID)
		out.broken = append(out.broken, s.Pod(id))
	}
	if bars := hold(pl, w, out); bars != "" {
		return s, &outcome{bars: bars, broken: out.broken}, nil
	}
	out.room = roomOf(pl, s, w, out)
	return s, out, nil
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
func (w *preemptor) search(pl *nodeindex.Planner, s *candidates.List, asked *preemption.Preemptor, now time.Time) (best preemption.Plan, why preemption.Refusal, found bool) {
	look := preemption.Find
	if w.awaits {
		look = preemption.Await
	}
	switch {
	case s.Lowest >= asked.Priority && !w.awaits: // the usual case of a long queue: no pod is below it
		why.Nodes = s.Cluster.Snapshot.Len()
		for i := range why.Nodes {
			if !asked.Node(i) {
				why.Closed++
			}
		}
		why.NoVictims, why.ShortMilli = why.Nodes-why.Closed, math.MaxInt64 // no end of others makes victims
		return best, why, false
	case w.domains == nil:
		return look(s.Cluster, asked, now)
	}
	all := make([]*v1.Node, s.Cluster.Snapshot.Len())
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
		plan, no, ok := look(s.Cluster, asked, now)
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
