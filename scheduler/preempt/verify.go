package preempt

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/scheduler/filters"
	"berth.dev/berth/scheduler/nodeindex"
	"berth.dev/berth/scheduler/preempt/candidates"
)

// verify asks the framework's filters about the plan for several pods, with its
// victims gone, and notes the order in which they agree to the pods. Where they want
// those gone too who leave by themselves, the room waits for them. bad is a node that
// they refuse all the same; "" is none.
func (x *Preemption) verify(ctx context.Context, cycle fwk.CycleState, w *preemptor, s *candidates.List, out *outcome) (bad string, err error) {
	var going, leaving []*v1.Pod
	seen := map[int]bool{-1: true}
	for _, id := range slices.Concat(out.plan.Victims, out.plan.Awaited) {
		going = append(going, s.Pod(id))
	}
	for k := range out.plan.Placements {
		at := out.plan.Placements[k].Node
		if seen[at] {
			continue
		}
		seen[at] = true
		_, more := s.Going(&out.plan, at)
		leaving = append(leaving, more...)
	}
	err = x.p.Plan(ctx, func(pl *nodeindex.Planner) error {
		if bad, out.room.Order, err = agreed(ctx, cycle, pl, w, out, going); bad == "" || err != nil || len(leaving) == 0 {
			return err
		}
		if bad, out.room.Order, err = agreed(ctx, cycle, pl, w, out, append(going, leaving...)); bad != "" || err != nil {
			return err
		}
		for _, pod := range leaving {
			out.room.Wait(pod.Spec.NodeName, pod)
		}
		return nil
	})
	return bad, err
}

// agreed places the pods of w on checks as out plans them, without gone. One that is
// refused is tried again after the others. order is that in which none was refused,
// where it matters; bad is a node that refuses one in any; "" is none.
func agreed(ctx context.Context, cycle fwk.CycleState, pl *nodeindex.Planner, w *preemptor, out *outcome, gone []*v1.Pod) (bad string, order []string, err error) {
	checks, err := filters.New(ctx, pl, cycle, w.pods, gone)
	if err != nil || checks == nil {
		return "", nil, err
	}
	defer checks.Close()
	placed, first := checks.InTurn(out.plan.Placements)
	if first >= 0 {
		return out.nodes[first], nil, nil
	}
	if !checks.Ordered() {
		return "", nil, nil
	}
	for _, k := range placed {
		order = append(order, string(w.pods[k].UID))
	}
	return "", order, nil
}
