package preempt

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/core/preemption"
	"berth.dev/berth/scheduler/evict"
	"berth.dev/berth/scheduler/nodeindex"
	"berth.dev/berth/scheduler/preempt/candidates"
	"berth.dev/berth/scheduler/queue"
	"berth.dev/berth/scheduler/reserve"
)

// roomOf returns which pods the plan of out waits for.
func roomOf(pl *nodeindex.Planner, s *candidates.List, w *preemptor, out *outcome) *reserve.Room {
	m := reserve.NewRoom()
	m.Reserved, m.Lead = w.awaits, w.lead()
	for k, pod := range w.pods {
		if out.nodes[k] != "" {
			m.Pods = append(m.Pods, pod)
		}
	}
	for _, id := range slices.Concat(out.plan.Victims, out.plan.Awaited) {
		m.Wait(pl.NodeName(id.Node), s.Pod(id))
	}
	return m
}

// lookAgain lets pods whose holds went to others look for another place.
func (m *preemptions) lookAgain(h fwk.Handle, log klog.Logger, pods []*v1.Pod) {
	m.shutAll(pods)
	for _, pod := range pods {
		if m.broken != nil {
			m.broken(pod.UID)
		}
	}
	if len(pods) > 0 {
		queue.Activate(h, log, pods...)
		m.lines.Wake() // what was held may be more than is taken now
	}
}

// arrived takes a pod that is bound or gone. Those whose places it had are tried again, and keep what is left of these until then; see holdAgain.
func (m *preemptions) arrived(h fwk.Handle, pod *v1.Pod) {
	leads, lost := m.reservations.Arrived(pod)
	if len(leads) == 0 {
		return
	}
	m.lookAgain(h, klog.Background(), slices.DeleteFunc(lost, func(p *v1.Pod) bool { return m.cluster.HoldOf(p.UID) != nil }))
	queue.Activate(h, klog.Background(), leads...)
}

// shutAll ends the rooms of pods.
func (m *preemptions) shutAll(pods []*v1.Pod) {
	for _, pod := range pods {
		m.Shut(pod.UID)
	}
}

// roomRecheck is when the pod that a room is made for is tried once more, in case its
// victims have left already.
const roomRecheck = time.Second

// open opens the room of out for w.
func (x *Preemption) open(ctx context.Context, w *preemptor, s *candidates.List, out *outcome) {
	log := klog.FromContext(ctx)
	for _, pod := range out.room.Pods {
		x.p.Cluster.Waiting.Leave(pod.UID)
	}
	if out.left = x.Open(out.room); out.left == 0 {
		queue.Activate(x.p.Handle, log, out.room.Pods...) // there is room already
		return
	}
	after := roomRecheck
	if out.room.Reserved {
		after = preemption.AwaitAgain(s.Cluster.Snapshot.Len())
	}
	time.AfterFunc(after, func() { queue.Activate(x.p.Handle, log, w.lead()) }) // a pod that left since the plan was made is not reported again
}

// replan has pods that lost their room look for another: what is held for them is given up.
func (m *preemptions) replan(h fwk.Handle, log klog.Logger, pods []*v1.Pod) {
	for _, pod := range pods {
		m.cluster.Release(pod.UID)
	}
	queue.Activate(h, log, pods...)
}

// carryOut evicts the victims of a plan.
func (x *Preemption) carryOut(ctx context.Context, w *preemptor, s *candidates.List, out *outcome) {
	log := klog.FromContext(ctx)
	losses := s.Cluster.Losses(out.plan.Victims, time.Now())
	for i, id := range out.plan.Victims {
		pod := s.Pod(id)
		v := &evict.Victim{
			Pod: pod, Node: out.room.NodeOf(pod), Loses: losses[i], Budgets: x.budgets.Versions(s.Cluster.Holders[id.Node][id.Holder].Budgets),
			Evicted: func() { x.p.Cluster.Quota.Preempted(pod) },
		}
		if back := out.claim.Returns(pod); back != nil {
			v.Reclaim, v.Evicted = &back.Reclaim, back.Done
		}
		out.evicted = append(out.evicted, v)
	}
	x.open(ctx, w, s, out)
	if len(out.evicted) == 0 {
		return
	}
	pods := out.room.Pods
	x.Evict(ctx, x.p.Handle, evict.Cause{Pod: w.lead()}, out.evicted, func(err error) {
		// Without that victim the plan is none: whoever is left stays, and the pods try anew.
		x.Shut(pods[0].UID)
		log.Error(err, "Room cannot be made", "pod", klog.KObj(pods[0]))
		x.replan(x.p.Handle, log, pods)
	})
}
