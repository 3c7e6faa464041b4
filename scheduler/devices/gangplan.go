package devices

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/api"
	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gang"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/kube"
)

// gangTask is what is to be planned of a gang.
type gangTask struct {
	gang  kube.Gang
	pods  []*v1.Pod // members without a place
	need  int       // of them
	near  []string  // nodes of the members that have one
	avoid map[types.UID][]string
	rest  bool // the gang runs, and pods is one more member
}

// task gives what pod is to plan; nil where there is nothing, as it is of no gang
// or one more member of a gang that runs. text says why it must wait; where paced
// is set, also that the gang was planned a moment ago.
func (b *gangBook) task(pod *v1.Pod, paced bool) (task *gangTask, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.of[pod.UID]
	if t == nil {
		return nil, ""
	}
	least, why := b.least(t)
	switch {
	case t.members[pod.UID].wrong != "":
		return nil, t.members[pod.UID].wrong
	case why != "":
		return nil, why
	}
	task = &gangTask{gang: t.gang, pods: t.waiting(), need: least - t.ready(), near: t.near(""), avoid: map[types.UID][]string{}}
	for uid, nodes := range t.avoid {
		task.avoid[uid] = slices.Clone(nodes)
	}
	switch {
	case task.need <= 0 && t.gang.Within == gang.Cluster:
		return nil, ""
	case task.need <= 0:
		task.pods, task.need, task.rest = []*v1.Pod{pod}, 1, true
	case t.plan != nil, len(task.pods) < task.need:
		return nil, fmt.Sprintf("waiting for the rest of gang %s", t.gang.Name)
	case paced && time.Now().Before(t.retry):
		return nil, t.waits()
	}
	return task, ""
}

// PreFilter implements fwk.PreFilterPlugin: it sends members to the nodes that are
// planned for them. The first that comes plans for all.
func (g *GangPlans) PreFilter(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	waits := g.p.desk.waits
	waits.clear(pod.UID) // this plugin comes first
	if !g.book.knows(pod.UID) {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	if node, away := g.book.placeOf(pod.UID); node != "" {
		if away != nil {
			node = g.elsewhere(ctx, pod, node, away)
		}
		return &fwk.PreFilterResult{NodeNames: sets.New(node)}, nil
	}
	if text := g.room.roomForGang(ctx, g.book, pod); text != "" {
		waits.note(pod.UID, queue.Preemption)
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, text)
	}
	if h := g.p.desk.holdOf(pod.UID); h != nil {
		return &fwk.PreFilterResult{NodeNames: sets.New(h.node)}, nil
	}
	task, text := g.book.task(pod, true)
	switch {
	case text != "":
		waits.note(pod.UID, g.book.waitOf(pod.UID))
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, text)
	case task == nil:
		return nil, fwk.NewStatus(fwk.Skip)
	}
	began := time.Now()
	nodes, refusal, text, err := g.plan(ctx, task)
	switch {
	case err != nil:
		return nil, fwk.AsStatus(fmt.Errorf("plan gang %s/%s: %w", task.gang.Namespace, task.gang.Name, err))
	case refusal != nil:
		decided(resultUnschedulable, string(foremost(refusal.Nodes)), began)
		g.book.unfit(pod, refusal, time.Since(began))
		waits.note(pod.UID, queue.Room)
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, text)
	}
	g.book.placed(pod, task, nodes)
	if nodes[pod.UID] == "" {
		waits.note(pod.UID, queue.Room)
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf("gang %s runs without this pod until there is room for it", task.gang.Name))
	}
	return &fwk.PreFilterResult{NodeNames: sets.New(nodes[pod.UID])}, nil
}

// PreFilterExtensions implements fwk.PreFilterPlugin.
func (g *GangPlans) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// plan places the gang of a task and holds the devices of every member that has
// got a place, or says why not.
func (g *GangPlans) plan(ctx context.Context, task *gangTask) (nodes map[types.UID]string, refusal *gang.Refusal, text string, err error) {
	err = g.p.plan(ctx, func(pl *planner) error {
		s := pl.placer().Snapshot()
		places := make([]gang.Place, s.Len())
		for i := range places {
			places[i] = kube.Place(pl.object(i))
		}
		find := func(names []string) (out []int) {
			for _, name := range names {
				if i, ok := s.Find(name); ok {
					out = append(out, i)
				}
			}
			return out
		}
		whole := &gang.Gang{Name: task.gang.Name, MinCount: task.need, Within: task.gang.Within, Near: find(task.near)}
		for _, pod := range task.pods {
			m := gang.Member{Request: pl.request(pod), Avoid: find(task.avoid[pod.UID]), Apart: kube.Apart(pod)}
			if m.Apart != "" {
				m.Avoid = append(m.Avoid, whole.Near...)
			}
			whole.Members = append(whole.Members, m)
		}
		by := &gang.Planner{Placer: pl.placer(), Topology: gang.NewTopology(places)}
		for range 3 {
			mark := s.Mark()
			plan, no, err := by.Plan(whole)
			s.RollBack(mark)
			if refusal = no; err != nil {
				return err
			}
			if no != nil {
				text = pl.unfitText(task, no)
				return nil
			}
			var wrong int
			if nodes, wrong, err = g.hold(pl, task, plan); err == nil {
				for i := range whole.Members {
					pl.placer().Arrive(&whole.Members[i].Request)
				}
				return nil
			}
			whole.Members[wrong].Avoid = append(whole.Members[wrong].Avoid, plan.Placed[wrong].Node)
		}
		return err
	})
	return nodes, refusal, text, err
}

// hold holds what is planned, all of it or nothing. wrong is the member whose
// devices cannot be held.
func (g *GangPlans) hold(pl *planner, task *gangTask, plan *gang.Plan) (nodes map[types.UID]string, wrong int, err error) {
	nodes = map[types.UID]string{}
	why := "gang " + task.gang.Namespace + "/" + task.gang.Name
	for i, pod := range task.pods {
		at := plan.Placed[i]
		if at.Node < 0 {
			continue
		}
		if err := pl.hold(pod, at, why); err != nil {
			for uid := range nodes {
				pl.release(uid)
			}
			return nil, i, fmt.Errorf("hold the devices of pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		pl.p.desk.waiting.leave(pod.UID)
		nodes[pod.UID] = pl.nodeName(at.Node)
	}
	return nodes, -1, nil
}

// unfitText says why a gang does not fit. For the member that there is no room
// for it has the words of the scheduler's own messages.
func (pl *planner) unfitText(task *gangTask, no *gang.Refusal) string {
	name, of := task.gang.Name, len(task.pods)
	if no.Apart {
		return fmt.Sprintf("gang %s: its %d pods fit, but not within one %s", name, no.Need, task.gang.Within)
	}
	text := fmt.Sprintf("gang %s: %d of %d pods fit together", name, no.Fit, of)
	if no.Need < of {
		text += fmt.Sprintf(" and %d must", no.Need)
	}
	if no.Member < 0 || len(no.Nodes) == 0 {
		return text
	}
	pod := task.pods[no.Member]
	w := newWanted(pod, kube.Parts(pod))
	w.request = pl.request(pod)
	return text + ", for the next: " + w.explain(no.Nodes)
}

// unfit notes that the gang of pod does not fit, and what must change before it
// is planned again.
func (b *gangBook) unfit(pod *v1.Pod, no *gang.Refusal, cost time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.of[pod.UID]
	if t == nil {
		return
	}
	t.leader, t.refused, t.room = pod.UID, &gangRefusal{short: no.ShortMilli}, false
	for _, c := range no.Nodes {
		t.refused.host = t.refused.host || c.Reason == placement.TooManyPods || c.Reason == placement.NotEnoughCPU || c.Reason == placement.NotEnoughMemory
	}
	t.retry = time.Now().Add(max(leastPause, costFactor*cost))
	if len(t.avoid) > 0 { // it may be that it fits where something refused it before
		t.avoid = map[types.UID][]string{}
		b.again(t, pause(t.rounds))
	}
	b.voice.changed()
}

// placed notes where the members of a task go, and wakes them.
func (b *gangBook) placed(pod *v1.Pod, task *gangTask, nodes map[types.UID]string) {
	if task.rest {
		return
	}
	b.mu.Lock()
	t := b.of[pod.UID]
	if t == nil {
		b.mu.Unlock()
		var after aftermath
		for uid := range nodes {
			after.free = append(after.free, uid)
		}
		b.do(after)
		return
	}
	t.leader = pod.UID
	t.plan = &gangPlan{nodes: nodes}
	after := b.turn(t) // some may have gone meanwhile
	for _, p := range task.pods {
		if p.UID != pod.UID && t.planned(p.UID) {
			after.wake = append(after.wake, p)
		}
	}
	b.mu.Unlock()
	b.do(after)
}

// roomMade looks at what has happened to a pod or a node, old before and now
// after it: it may have made enough room for the gang that a pod leads. Then the
// leader is woken. It says whether the pod is to be tried for another reason, as
// it leads no gang. The leader is not queued by the scheduler, which would let it
// wait longer after each refusal.
func (b *gangBook) roomMade(uid types.UID, old, now any) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.of[uid]
	switch {
	case t == nil:
		return true
	case t.leader != uid || t.plan != nil || t.refused == nil:
		return false
	}
	if gone, ok := old.(*v1.Pod); ok && now == nil {
		milli := givenBack(gone)
		if milli == 0 && !t.refused.host {
			return false
		}
		if t.refused.short -= milli; t.refused.short > 0 {
			b.wakeIn(t, refresh)
			return false
		}
	}
	b.wakeIn(t, max(0, time.Until(t.retry)))
	return false
}

// givenBack is how many milli-GPUs a pod gives back when it ends, or more.
func givenBack(pod *v1.Pod) int64 {
	sum := int64(0)
	for resource, n := range kube.Request(pod) {
		if resource != api.ResourceGPU {
			return 1 << 40
		}
		sum += n * cluster.Whole
	}
	return sum
}

// PostFilter implements fwk.PostFilterPlugin. A member that a filter refused on
// its planned node takes the plan with it: the gang is planned anew at once, with
// that node left out for that member, and when that fails too, later.
func (g *GangPlans) PostFilter(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, _ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	text, ends := g.book.filtered(pod.UID)
	if !ends {
		return nil, fwk.NewStatus(fwk.Unschedulable, text)
	}
	if text != "" {
		g.p.desk.waits.note(pod.UID, queue.Gang)
	} else {
		if result, status := g.room.makeRoomForGang(ctx, g.book, pod); status != nil {
			return result, status
		}
	}
	return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, text)
}

// filtered notes that a pod was refused on every node that it might use. ends
// says that nobody else is to make room for it.
func (b *gangBook) filtered(uid types.UID) (text string, ends bool) {
	b.mu.Lock()
	t := b.of[uid]
	if t == nil {
		b.mu.Unlock()
		return "", false
	}
	var after aftermath
	m := t.members[uid]
	switch early := t.planned(uid) && !t.plan.passed; {
	case early, m.stage == stageKept:
		node := m.place.node
		if early {
			node = t.plan.nodes[uid]
			after = b.giveUp(t, fmt.Sprintf("gang %s is planned anew: pod %s may not be on node %s", t.gang.Name, m.pod.Name, node))
		} else {
			after.free = b.lose(t, m)
		}
		t.avoid[uid], t.leader = append(t.avoid[uid], node), uid
		if t.rounds++; t.rounds == 1 {
			t.retry = time.Time{}
			after.wake = append(after.wake, m.pod)
		} else {
			b.again(t, pause(t.rounds-1))
		}
		after.add(b.turn(t))
		text, ends = fmt.Sprintf("gang %s is planned anew without node %s for this pod", t.gang.Name, node), true
	case t.planned(uid):
		t.fulfil(uid)
		after.free = append(after.free, uid)
	default:
		least, why := b.least(t)
		ends = why != "" || t.ready() < least
	}
	b.mu.Unlock()
	b.do(after)
	return text, ends
}
