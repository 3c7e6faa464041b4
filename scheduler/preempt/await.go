package preempt

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/kube/queues"
	"berth.dev/berth/scheduler/filters"
	"berth.dev/berth/scheduler/nodeindex"
	"berth.dev/berth/scheduler/reserve"
	"berth.dev/berth/scheduler/state"
)

// await keeps a place for w that comes free by itself, if w has a claim to one: see
// queue.Reserver. It is nil where it has none, or where no pod's end would help.
func (x *Preemption) await(ctx context.Context, w *preemptor, line string) (*outcome, error) {
	claim, ok := x.reservations.Refused(w.lead(), line)
	if !ok {
		x.reservations.Lapsed(queues.Workload(w.lead()))
		return nil, nil
	}
	w.awaits, w.why, w.ends = true, reserve.Why, x.reservations.Ends(claim.ID)
	avoid, began := w.avoid, time.Now()
	defer func() { nodeindex.Reserved(began) }()
	var out *outcome
	var err error
	for _, nodes := range claim.Tries() {
		w.avoid = slices.Concat(nodes, avoid)
		if out, err = x.byChoices(w, func() (*outcome, error) { return x.tryRoom(ctx, w) }); err != nil || out.room != nil {
			break
		}
	}
	if err != nil || out.room == nil {
		x.holdAgain(ctx, x.reservations.Lent(claim.ID))
		x.reservations.Vain(claim.ID)
		return nil, err
	}
	x.reservations.Keep(&claim, w.lead(), out.room, out.nodes)
	return out, nil
}

// line is equal for pods that ask for the same; a pod for which the index does not know
// all that it needs is alone in its line.
func line(cycle fwk.CycleState, pod *v1.Pod) string {
	w, ok := state.RequestOf(cycle)
	if !ok || !w.Simple {
		return string(pod.UID)
	}
	return state.LineKey(pod, w, &w.Request)
}

// refuse is the answer for a pod that gets no room by evictions: a place is kept for it
// if it has waited for long, or it is said why there is none.
func (x *Preemption) refuse(ctx context.Context, cycle fwk.CycleState, w *preemptor, said string, may bool) (*fwk.PostFilterResult, *fwk.Status) {
	pod := w.pods[0]
	if may {
		out, err := x.await(ctx, w, line(cycle, pod))
		if err != nil {
			return nil, fwk.AsStatus(fmt.Errorf("keep a place for pod %s/%s: %w", pod.Namespace, pod.Name, err))
		}
		if out != nil {
			x.p.Cluster.Waits.Note(pod.UID, out.room.Waits())
			return nominate(""), fwk.NewStatus(fwk.UnschedulableAndUnresolvable, out.room.Sentence(out.left))
		}
	}
	return nominate(""), fwk.NewStatus(fwk.UnschedulableAndUnresolvable, x.keptFrom(ctx, cycle, pod, said))
}

// keptFrom adds to a refusal which pod has the GPUs kept that this one would get.
func (x *Preemption) keptFrom(ctx context.Context, cycle fwk.CycleState, pod *v1.Pod, said string) string {
	if kept := x.reservations.KeptFrom(pod, filters.Allow(ctx, x.p.Handle, cycle, pod)); kept != "" {
		return said + " reservation: " + kept
	}
	return said
}
