package preempt

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/core/gang"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/scheduler/filters"
	gangs "berth.dev/berth/scheduler/gang"
	"berth.dev/berth/scheduler/nodeindex"
	"berth.dev/berth/scheduler/preempt/candidates"
	"berth.dev/berth/scheduler/quota"
)

// ForGangs returns what makes room for the gangs of a profile.
func (m *preemptions) ForGangs(p *nodeindex.Profile) gangs.Room {
	return &Preemption{p: p, preemptions: m}
}

// MakeRoomForGang makes room for the gang that pod leads and that does not fit, for
// all of the members that it needs or for none; and for one more member of a gang
// that runs, where the others must be near. While others leave, the members
// stay out of the queue; then the leader comes again, see roomForGang.
func (x *Preemption) MakeRoomForGang(ctx context.Context, cycle fwk.CycleState, manager *gangs.Manager, pod *v1.Pod) (*fwk.PostFilterResult, *fwk.Status) {
	task, text := manager.Task(pod, false)
	if task == nil || text != "" || x.budgets == nil {
		return nil, nil // nothing to plan: one more member that may go anywhere, or others are missing
	}
	if there, _ := x.waiting(cycle, pod); there > 0 {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable) // PreFilter has said so
	}
	x.Shut(pod.UID)
	for _, member := range task.Pods {
		x.p.Cluster.Release(member.UID)
	}
	w := &preemptor{pods: slices.Clone(task.Pods), minCount: task.Need, why: "gang " + task.Name, leader: pod}
	slices.SortStableFunc(w.pods, func(a, b *v1.Pod) int { return cmp.Compare(weight(b), weight(a)) })
	w.domains, w.every, w.gang = domains(task), true, task.Gang.Key
	if queue, _ := x.p.Cluster.Quota.QueueOf(pod); queue != "" { // room is made for those that the gang needs
		w.pods = w.pods[:min(len(w.pods), task.Need)]
	}
	w.asks = &quota.Ask{Lead: pod, Pods: w.pods, Need: task.Need, Gang: task.Name, Ticket: x.p.Cluster.Waiting.Ticket(pod)}
	w.verify = func(s *candidates.List, out *outcome) (string, error) { return x.verify(ctx, cycle, w, s, out) }
	w.movable = func(pl *nodeindex.Planner) (*filters.Filters, error) {
		return filters.NewMovable(ctx, pl, cycle, w.pods)
	}
	for _, nodes := range task.Avoid {
		w.avoid = append(w.avoid, nodes...)
	}
	w.never = slices.ContainsFunc(task.Pods, request.NeverPreempts)
	out, err := x.byAlternatives(w, func() (*outcome, error) { return x.roomFor(ctx, w) })
	refusal := ""
	switch {
	case err != nil:
	case out.room != nil:
		x.reservations.Lapsed(queues.Workload(pod))
	case w.never:
		w.never, refusal = false, neverText
	default:
		refusal = "preemption: " + out.refusal
		manager.Happened(gang.NoVictims{UID: string(pod.UID), ShortMilli: out.short})
	}
	if err == nil && out.room == nil && !task.Extra {
		if kept, no := x.await(ctx, w, task.Gang.Key); kept != nil || no != nil {
			out, err = kept, no
		}
	}
	switch {
	case err != nil:
		return nil, fwk.AsStatus(fmt.Errorf("make room for gang %s: %w", task.Name, err))
	case out.room == nil:
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, x.keptFrom(ctx, cycle, pod, refusal))
	}
	if !task.Extra {
		manager.Happened(gang.Preempting{UID: string(pod.UID), Reserved: out.room.Reserved})
	}
	if x.p.Cluster.Waits.Note(pod.UID, out.room.Waits()); out.room.Reserved {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, out.room.Sentence(out.left))
	}
	return nominate(out.nodes[max(0, slices.Index(w.pods, pod))]), fwk.NewStatus(fwk.Success, out.room.Sentence(out.left))
}

// weight orders members: those that are harder to place come first.
func weight(pod *v1.Pod) int64 {
	n := int64(0)
	for _, count := range request.Of(pod) {
		n += count
	}
	return n
}

// domains gives the sets of nodes in one of which the members of a gang must be;
// nil is all nodes. A gang that must share one clique has none: package preemption
// knows no place for several members in one.
func domains(task *gangs.Task) func(all []*v1.Node) []map[string]bool {
	if task.Gang.Within >= gang.Cluster {
		return nil
	}
	return func(all []*v1.Node) []map[string]bool {
		by, order := map[string]map[string]bool{}, []string(nil)
		for _, n := range all {
			key := domain(n, task.Gang.Within)
			if key == "" {
				continue
			}
			if by[key] == nil {
				by[key], order = map[string]bool{}, append(order, key)
			}
			by[key][n.Name] = true
		}
		var out []map[string]bool
		for _, key := range order {
			if !slices.ContainsFunc(task.Near, func(node string) bool { return !by[key][node] }) {
				out = append(out, by[key])
			}
		}
		return out
	}
}

// domain names the domain of a level that a node is in; "" is none.
func domain(n *v1.Node, level gang.Level) string {
	at := request.Place(n)
	switch {
	case level == gang.Node:
		return n.Name
	case level == gang.Fabric:
		return at.Fabric
	case level == gang.Rack && at.Rack != "":
		return at.Zone + "/" + at.Rack
	case level == gang.Zone:
		return at.Zone
	}
	return ""
}

// RoomForGang says what the leader of a gang waits for that room is made for. When
// the room is complete it is the gang's plan, and there is nothing to wait for. It
// is "" also where no room is made.
func (x *Preemption) RoomForGang(ctx context.Context, manager *gangs.Manager, pod *v1.Pod) (waits string, is queue.Wait, order []string) {
	m := x.Of(pod.UID)
	if !x.held(m) {
		return "", queue.Unknown, nil
	}
	there, stays := x.There(m, x.p.Nodes(), x.Going)
	if stays || there > 0 && m.Reserved { // there may be another place by now
		for _, member := range m.Pods {
			x.p.Cluster.Withdraw(member.UID)
		}
		x.Shut(pod.UID)
		return "", queue.Unknown, nil
	}
	if there > 0 {
		return m.Sentence(there), m.Waits(), nil
	}
	x.Shut(pod.UID)
	task, _ := manager.Task(pod, false)
	if task == nil {
		return "", queue.Unknown, nil
	}
	nodes := map[types.UID]string{}
	for _, member := range task.Pods {
		if h := x.p.Cluster.HoldOf(member.UID); h != nil {
			nodes[member.UID] = h.Node
		}
	}
	if len(nodes) >= task.Need { // as it was verified
		manager.Placed(pod, task, nodes, m.Order)
		return "", queue.Unknown, m.Order
	}
	for uid := range nodes {
		x.p.Cluster.Release(uid)
	}
	klog.FromContext(ctx).V(2).Info("The room made for a gang is not enough any more", "gang", task.Gang.Key)
	return "", queue.Unknown, nil
}
