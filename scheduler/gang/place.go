package gang

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/core/gang"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/scheduler/filters"
	"berth.dev/berth/scheduler/nodeindex"
	"berth.dev/berth/scheduler/state"
)

// outcome is what a plan for a task came to.
type outcome struct {
	nodes map[types.UID]string // of each member that has got a place, where its devices are held
	// order is the members by UID, in the order in which they must be tried; nil is
	// any order.
	order   []string
	refusal *gang.Refusal // nil: it is placed
	text    string        // why it is not, for people
	wait    queue.Wait    // what it waits for then
}

// plan places the gang of a task in the scheduling cycle of pod, and holds the
// devices of every member that has got a place, or says why not. Beside the Snapshot
// it asks the framework's filters, so what is planned passes them.
func (g *Plans) plan(ctx context.Context, cycle fwk.CycleState, pod *v1.Pod, task *Task) (out outcome, err error) {
	err = g.p.Plan(ctx, func(pl *nodeindex.Planner) error {
		whole := gangOf(pl, task)
		for range 3 {
			var wrong int
			if out, wrong, err = g.once(ctx, cycle, pod, pl, task, whole); wrong < 0 {
				return err
			}
		}
		return err
	})
	return out, err
}

// once plans whole, which is the gang of task. Where devices cannot be held for a
// member on its node, wrong is that member, and whole avoids the node from then on;
// else wrong is -1.
func (g *Plans) once(ctx context.Context, cycle fwk.CycleState, pod *v1.Pod, pl *nodeindex.Planner, task *Task, whole *gang.Gang) (out outcome, wrong int, err error) {
	by := &gang.Planner{Placer: pl.Placer(), Topology: topology(pl)}
	checks, err := filters.New(ctx, pl, cycle, task.Pods, nil)
	if err != nil {
		return out, -1, err
	}
	defer checks.Close()
	if checks != nil {
		by.Filters = checks
	}
	if barred, why := checks.Barred(len(task.Pods) - task.Need); barred != nil {
		out.refusal = &gang.Refusal{Need: task.Need, Member: -1, Filtered: []gang.FilterCount{{Why: why.Message(), Nodes: pl.Placer().Snapshot().Len()}}}
		out.text = fmt.Sprintf("gang %s: pod %s: %s", task.Gang.Name, barred.Name, why.Message())
		out.wait = g.p.Cluster.Waits.Judge(barred, queue.Refused{Noted: queue.Room, By: why.Plugin(), Reasons: why.Reasons()})
		return out, -1, nil
	}
	s := pl.Placer().Snapshot()
	mark := s.Mark()
	plan, no, err := by.Plan(whole)
	s.RollBack(mark)
	if err != nil {
		return out, -1, err
	}
	if no != nil {
		return outcome{refusal: no, text: unfitText(pl, task, no), wait: queue.Room}, -1, nil
	}
	if checks.Ordered() {
		foremost(checks, whole, plan, slices.Index(task.Pods, pod))
		for _, i := range plan.Order {
			out.order = append(out.order, string(task.Pods[i].UID))
		}
	}
	checks.Close()
	if out.nodes, wrong, err = g.hold(pl, task, plan); err != nil {
		whole.Members[wrong].Avoid = append(whole.Members[wrong].Avoid, plan.Placed[wrong].Node)
		return out, wrong, err
	}
	for i := range whole.Members {
		pl.Placer().Arrive(&whole.Members[i].Request)
	}
	return out, -1, nil
}

// gangOf is the gang of a task as core/gang plans it.
func gangOf(pl *nodeindex.Planner, task *Task) *gang.Gang {
	s := pl.Placer().Snapshot()
	find := func(names []string) (out []int) {
		for _, name := range names {
			if i, ok := s.Find(name); ok {
				out = append(out, i)
			}
		}
		return out
	}
	whole := &gang.Gang{Name: task.Gang.Name, MinCount: task.Need, Most: task.Most, Within: task.Gang.Within, Near: find(task.Near), Stay: nodeindex.StayOf(task.Pods...)}
	for _, pod := range task.Pods {
		m := gang.Member{Request: pl.Request(pod), Avoid: find(task.Avoid[string(pod.UID)]), Apart: request.Apart(pod)}
		if m.Apart != "" {
			m.Avoid = append(m.Avoid, whole.Near...)
		}
		whole.Members = append(whole.Members, m)
	}
	return whole
}

// topology is where the nodes are.
func topology(pl *nodeindex.Planner) *gang.Topology {
	places := make([]gang.Place, pl.Placer().Snapshot().Len())
	for i := range places {
		places[i] = request.Place(pl.Object(i))
	}
	return gang.NewTopology(places)
}

// foremost has the leader change places with the member that is placed first, where
// nothing tells the two apart: so it can go on at once, and need not follow others.
func foremost(checks *filters.Filters, whole *gang.Gang, plan *gang.Plan, leader int) {
	if len(plan.Order) == 0 || leader < 0 || plan.Order[0] == leader {
		return
	}
	first, at := plan.Order[0], slices.Index(plan.Order, leader)
	a, b := &whole.Members[first], &whole.Members[leader]
	if at < 0 || a.Request != b.Request || len(a.Avoid)+len(b.Avoid) > 0 || checks.Kind(first) != checks.Kind(leader) {
		return
	}
	plan.Placed[first], plan.Placed[leader] = plan.Placed[leader], plan.Placed[first]
	plan.Order[0], plan.Order[at] = leader, first
}

// Task is what is to be planned of a gang, with its pods.
type Task struct {
	*gang.Task
	Pods []*v1.Pod // in the order of Task.Members, which is that of request.FewestFirst
	Name string    // "namespace/name" of the gang
}

// hold holds what is planned, all of it or nothing. wrong is the member whose
// devices cannot be held.
func (g *Plans) hold(pl *nodeindex.Planner, task *Task, plan *gang.Plan) (nodes map[types.UID]string, wrong int, err error) {
	nodes = map[types.UID]string{}
	why := "gang " + task.Name
	for i, pod := range task.Pods {
		at := plan.Placed[i]
		if at.Node < 0 {
			continue
		}
		if err := pl.Hold(pod, at, why); err != nil {
			for uid := range nodes {
				pl.Release(uid)
			}
			return nil, i, fmt.Errorf("hold the devices of pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		pl.P.Cluster.Waiting.Leave(pod.UID)
		nodes[pod.UID] = pl.NodeName(at.Node)
	}
	return nodes, -1, nil
}

// unfitText says why a gang does not fit. For the member that there is no room
// for it has the words of the scheduler's own messages.
func unfitText(pl *nodeindex.Planner, task *Task, no *gang.Refusal) string {
	name, of := task.Gang.Name, len(task.Pods)
	if no.Apart {
		return fmt.Sprintf("gang %s: its %d pods fit, but not within one %s", name, no.Need, task.Gang.Within)
	}
	text := fmt.Sprintf("gang %s: %d of %d pods fit together", name, no.Fit, of)
	if no.Need < of {
		text += fmt.Sprintf(" and %d must", no.Need)
	}
	if no.Member < 0 || len(no.Nodes)+len(no.Filtered) == 0 {
		return text
	}
	pod := task.Pods[no.Member]
	w := state.NewRequest(pod, request.Parts(pod))
	w.Request = pl.Request(pod)
	return text + ", for the next: " + w.Explain(no.Nodes, no.Filtered...)
}
