package candidates

import (
	"fmt"
	"slices"
	"time"

	"berth.dev/berth/core/preemption"
	quotas "berth.dev/berth/core/quota"
	"berth.dev/berth/scheduler/nodeindex"
	"berth.dev/berth/scheduler/quota"
)

// KindOf is the kind of the GPUs that a plan has for a claim; zero is not known.
func KindOf(pl *nodeindex.Planner, claim *quota.Claim, plan *preemption.Plan) (kind quotas.Kind) {
	for _, p := range plan.Placements {
		if p.Node >= 0 && len(p.Devices) > 0 {
			kind = claim.Kind(pl.Object(p.Node))
		}
	}
	return kind
}

// Protected has the claim tried again when some of those that are protected from it are not any longer, and
// says so; "" is that none are.
func Protected(claim *quota.Claim, later time.Time) string {
	wait := time.Until(later)
	if later.IsZero() || wait <= 0 {
		return ""
	}
	claim.Again(later)
	return fmt.Sprintf("quota: others run with borrowed quota and are protected for %s more", wait.Round(time.Second))
}

// PayBack adds to a plan pods whose end leaves the claim the quota that it asks for. It
// returns why there are none.
func (s *List) PayBack(pl *nodeindex.Planner, claim *quota.Claim, plan *preemption.Plan) (why string) {
	if claim == nil {
		return ""
	}
	at, r := map[string]preemption.ID{}, quota.Room{Kept: map[string]bool{}, Going: map[string]bool{}}
	for i := range s.Pods {
		for k, pod := range s.Pods[i] {
			at[string(pod.UID)] = preemption.ID{Node: i, Holder: k}
			switch h := &s.Cluster.Holders[i][k]; {
			case h.Leaving:
				r.Going[string(pod.UID)] = true
			case h.Fixed:
				r.Kept[string(pod.UID)] = true
			}
		}
	}
	r.Budgets = func(pod string) []int {
		id, there := at[pod]
		if !there {
			return nil
		}
		return s.Cluster.Holders[id.Node][id.Holder].Budgets
	}
	r.There = func(pod string) bool { _, there := at[pod]; return there }
	for _, id := range slices.Concat(plan.Victims, plan.Awaited) {
		r.Gone = append(r.Gone, string(s.Pod(id).UID))
	}
	r.Kind, r.Allowed = KindOf(pl, claim, plan), s.Cluster.Budgets
	more, later, ok := claim.Victims(&r)
	if !ok {
		if why := Protected(claim, later); why != "" {
			return why
		}
		return "quota: no pods may be evicted for the quota that it needs"
	}
	for _, pod := range more {
		id := at[pod]
		if s.Cluster.Holders[id.Node][id.Holder].Leaving {
			plan.Awaited = append(plan.Awaited, id)
		} else {
			plan.Victims = append(plan.Victims, id)
		}
	}
	slices.SortFunc(plan.Victims, preemption.ID.Compare)
	return ""
}
