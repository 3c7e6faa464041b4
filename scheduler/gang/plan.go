package gang

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/core/gang"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/scheduler/admit"
	"berth.dev/berth/scheduler/filters"
	"berth.dev/berth/scheduler/nodeindex"
	schedulerqueue "berth.dev/berth/scheduler/queue"
	"berth.dev/berth/scheduler/quota"
	"berth.dev/berth/scheduler/state"
)

// Task returns what pod is to plan, or why it must wait: see gang.Machine.Task.
func (b *Manager) Task(pod *v1.Pod, paced bool) (task *Task, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t, text := b.machine.Task(string(pod.UID), paced, time.Now())
	return b.withPods(t, pod), text
}

// placeOf returns the node that is kept for a pod, and what is to be planned where
// it was refused there too often: see gang.Machine.Kept.
func (b *Manager) placeOf(pod *v1.Pod) (node string, away *Task) {
	b.mu.Lock()
	defer b.mu.Unlock()
	node, t := b.machine.Kept(string(pod.UID))
	return node, b.withPods(t, pod)
}

// withPods completes a task of the gang of pod, with mu held. It is nil for nil.
func (b *Manager) withPods(t *gang.Task, pod *v1.Pod) *Task {
	if t == nil {
		return nil
	}
	task := &Task{Task: t, Name: pod.Namespace + "/" + t.Gang.Name}
	for _, uid := range t.Members {
		task.Pods = append(task.Pods, b.pods[types.UID(uid)])
	}
	task.Pods = request.FewestFirst(task.Pods)
	for i, p := range task.Pods {
		task.Members[i] = string(p.UID)
	}
	return task
}

// PreFilter implements fwk.PreFilterPlugin: it sends members to the nodes that are
// planned for them. The first that comes plans for all.
func (g *Plans) PreFilter(ctx context.Context, cycle fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if filters.Active(cycle) {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	waits := g.p.Cluster.Waits
	waits.Clear(pod.UID) // this plugin comes first
	if !g.manager.knows(pod.UID) {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	if node, away := g.manager.placeOf(pod); node != "" {
		if away != nil {
			node = g.elsewhere(ctx, cycle, pod, node, away)
		}
		return &fwk.PreFilterResult{NodeNames: sets.New(node)}, nil
	}
	text, is, order := g.room.RoomForGang(ctx, g.manager, pod)
	switch {
	case text != "":
		waits.Note(pod.UID, is)
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, text)
	case len(order) > 0 && order[0] != string(pod.UID):
		return nil, g.follows(ctx, cycle, pod)
	}
	if h := g.p.Cluster.HoldOf(pod.UID); h != nil {
		return &fwk.PreFilterResult{NodeNames: sets.New(h.Node)}, nil
	}
	task, text := g.manager.Task(pod, true)
	switch {
	case text != "":
		waits.Note(pod.UID, g.manager.waitOf(pod.UID))
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, text)
	case task == nil:
		if ref, _ := request.GangOf(pod); ref == nil {
			return nil, fwk.NewStatus(fwk.Skip)
		}
		return nil, admit.Try(g.p.Cluster, cycle, quota.Alone(pod, g.p.Cluster.Waiting.Ticket(pod)))
	}
	if no := g.admitted(cycle, pod, task); no != nil {
		return nil, no
	}
	return g.lead(ctx, cycle, pod, task)
}

// lead plans a task for the pod that leads the gang, and answers what becomes of it.
func (g *Plans) lead(ctx context.Context, cycle fwk.CycleState, pod *v1.Pod, task *Task) (*fwk.PreFilterResult, *fwk.Status) {
	waits, began := g.p.Cluster.Waits, time.Now()
	plan, err := g.planByQuota(ctx, cycle, pod, task)
	switch {
	case err != nil:
		return nil, fwk.AsStatus(fmt.Errorf("plan gang %s: %w", task.Name, err))
	case plan.refusal != nil:
		nodeindex.Decided(nodeindex.ResultUnschedulable, string(placement.Foremost(plan.refusal.Nodes)), began)
		g.manager.Happened(gang.Unfit{UID: string(pod.UID), Refusal: plan.refusal, Cost: time.Since(began)})
		waits.Note(pod.UID, plan.wait)
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, plan.text+g.manager.also(pod.UID))
	}
	g.manager.Placed(pod, task, plan.nodes, plan.order)
	g.promise(task, plan.nodes)
	switch {
	case plan.nodes[pod.UID] == "":
		waits.Note(pod.UID, queue.Room)
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf("gang %s runs without this pod until there is room for it", task.Gang.Name))
	case len(plan.order) > 0 && plan.order[0] != string(pod.UID):
		return nil, g.follows(ctx, cycle, pod)
	}
	return &fwk.PreFilterResult{NodeNames: sets.New(plan.nodes[pod.UID])}, nil
}

// follows sends the pod that leads a gang back to the queue, as others of the gang that has
// been placed must be tried before.
func (g *Plans) follows(ctx context.Context, cycle fwk.CycleState, pod *v1.Pod) *fwk.Status {
	cycle.Write(turnKey, turn{})
	g.p.Cluster.Waits.Note(pod.UID, queue.Gang)
	schedulerqueue.Activate(g.p.Handle, klog.FromContext(ctx), pod)
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf("gang %s is placed: this pod follows others of it", g.manager.nameOf(pod.UID)))
}

// turn says of a scheduling cycle that the pod is refused only for this time: others
// of its gang come first.
type turn struct{}

const turnKey fwk.StateKey = PlansName + "/turn"

// Clone implements fwk.StateData.
func (t turn) Clone() fwk.StateData { return t }

// PreFilterExtensions implements fwk.PreFilterPlugin.
func (g *Plans) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Placed notes where the members of a task go, and wakes them. They are tried in an
// order, if it is not nil.
func (b *Manager) Placed(pod *v1.Pod, task *Task, nodes map[types.UID]string, order []string) {
	e := gang.Placed{UID: string(pod.UID), Task: task.Task, Nodes: make(map[string]string, len(nodes)), Order: order}
	for uid, node := range nodes {
		e.Nodes[string(uid)] = node
	}
	b.Happened(e)
}

// elsewhere returns the node where a pod is to be tried that is kept on one which
// it was refused on: another that has room for it, else the same.
func (g *Plans) elsewhere(ctx context.Context, cycle fwk.CycleState, pod *v1.Pod, node string, task *Task) string {
	plan, err := g.plan(ctx, cycle, pod, task)
	if err != nil || plan.refusal != nil {
		if err != nil {
			klog.FromContext(ctx).Error(err, "A member that is refused stays where it is", "pod", klog.KObj(pod), "node", node)
		}
		return node
	}
	g.manager.Happened(gang.Moved{UID: string(pod.UID), Node: plan.nodes[pod.UID]})
	return plan.nodes[pod.UID]
}

// PostFilter implements fwk.PostFilterPlugin. A member that a filter refused on
// its planned node takes the plan with it: the gang is planned anew at once, with
// that node left out for that member, and when that fails too, later.
func (g *Plans) PostFilter(ctx context.Context, cycle fwk.CycleState, pod *v1.Pod, _ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if no := state.QuotaOf(cycle); no != nil && no.Final {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
	}
	if _, err := cycle.Read(turnKey); err == nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
	}
	answer := g.manager.Happened(gang.Filtered{UID: string(pod.UID)})
	switch {
	case !answer.Whole && g.p.Cluster.HoldOf(pod.UID) != nil:
		return nil, fwk.NewStatus(fwk.Unschedulable, answer.Reason)
	case !answer.Whole:
		if result, status := g.room.MakeRoomForGang(ctx, cycle, g.manager, pod); status != nil {
			return result, status
		}
		return nil, fwk.NewStatus(fwk.Unschedulable, answer.Reason)
	case answer.Follows:
	case answer.Reason != "":
		g.p.Cluster.Waits.Note(pod.UID, queue.Gang)
	default:
		if result, status := g.room.MakeRoomForGang(ctx, cycle, g.manager, pod); status != nil {
			return result, status
		}
	}
	return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, answer.Reason)
}
