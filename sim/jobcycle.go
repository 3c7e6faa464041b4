package sim

import (
	"fmt"

	"berth.dev/berth/core/gang"
	"berth.dev/berth/core/placement"
)

// cycle is one scheduling cycle of a pod.
func (r *jobRun) cycle(p *jobPod) error {
	r.inside, r.again = p, false
	placed, err := r.find(p)
	if err != nil {
		return fmt.Errorf("pod %s: %w", p.name, err)
	}
	r.drain()
	if !placed {
		r.refused(p)
		r.drain()
		r.back(p)
		r.inside = nil
		return nil
	}
	r.inside, p.own = nil, true
	r.enter(p)
	switch answer := r.step(gang.Arrived{UID: p.name}); {
	case answer.Reason != "":
		r.lose(p)
	case answer.Wait:
		p.permit = true
	default:
		r.start(p)
	}
	r.drain()
	return nil
}

// find reports whether a pod has a place, as part of its gang or alone.
func (r *jobRun) find(p *jobPod) (bool, error) {
	p.yields = false
	switch {
	case p.gang && r.roomOfGang(p):
		return false, nil
	case !p.gang && p.hold != nil && p.hold.reserved: // there may be another place by now
		r.free(p)
	}
	if p.hold != nil {
		return p.hold.complete(), nil
	}
	if !p.gang {
		return r.alone(p)
	}
	task, reason := r.gangs.Task(p.name, true, r.now)
	switch {
	case reason != "":
		return false, nil
	case task == nil:
		return r.alone(p)
	}
	nodes, refusal, err := r.plan(task)
	switch {
	case err != nil:
		return false, err
	case refusal != nil:
		r.step(gang.Unfit{UID: p.name, Refusal: refusal})
		return false, nil
	}
	r.step(gang.Placed{UID: p.name, Task: task, Nodes: nodes})
	return p.hold != nil, nil
}

// refused makes room for a pod that fits nowhere, or for its gang, if it can.
func (r *jobRun) refused(p *jobPod) {
	if p.gang {
		answer := r.step(gang.Filtered{UID: p.name})
		switch {
		case !answer.Whole && p.hold != nil:
		case !answer.Whole:
			if r.makeRoomForGang(p) {
				return
			}
		case answer.Follows || answer.Reason != "":
			return
		default:
			r.makeRoomForGang(p)
			return
		}
	}
	if !p.yields {
		r.makeRoom(p)
	}
}

// plan places the members of a task, and holds what they get.
func (r *jobRun) plan(task *gang.Task) (nodes map[string]string, refusal *gang.Refusal, err error) {
	s := r.index.Snapshot()
	g := &gang.Gang{Name: task.Gang.Name, MinCount: task.Need, Most: task.Most, Within: task.Gang.Within}
	for _, node := range task.Near {
		if i, ok := s.Find(node); ok {
			g.Near = append(g.Near, i)
		}
	}
	var members []*jobPod
	for _, name := range task.Members {
		members = append(members, r.pods[name])
		g.Members = append(g.Members, gang.Member{Request: r.pods[name].ask})
	}
	g.Stay = r.stay(members...)
	mark := s.Mark()
	plan, refusal, err := r.planner.Plan(g)
	s.RollBack(mark)
	if err != nil || refusal != nil {
		return nil, refusal, err
	}
	nodes = map[string]string{}
	for i, name := range task.Members {
		if at := plan.Placed[i]; at.Node >= 0 {
			r.keep(r.pods[name], at, false)
			nodes[name] = s.Node(at.Node).Name
			r.calls = append(r.calls, r.lines.Leave(name, r.now)...)
		}
	}
	for i := range g.Members { // the policy looks at what is held
		r.index.Arrive(&g.Members[i].Request)
	}
	return nodes, nil, nil
}

// alone places a pod by itself, or puts it into the line of those that ask for the
// same.
func (r *jobRun) alone(p *jobPod) (bool, error) {
	tried, key := r.lines.Has(p.name), lineOf(p)
	if !tried {
		r.index.Arrive(&p.ask)
	}
	node, ok := r.index.BestFor(&p.ask, r.stay(p))
	if !ok {
		if !tried {
			r.index.Refuse(&p.ask)
		}
		r.calls = append(r.calls, r.lines.Join(r.turn(p), key, host(r.index.Reasons(&p.ask)), r.now)...)
		return false, nil
	}
	ahead, call := r.lines.First(r.turn(p), key, r.now)
	r.calls = append(r.calls, call...)
	if ahead != "" {
		r.calls = append(r.calls, r.lines.Yield(r.turn(p), key, r.now)...)
		p.yields = true
		return false, nil
	}
	r.keep(p, placement.On(r.index, node, &p.ask), false)
	return true, nil
}

// lineOf is equal for pods that fit the same nodes.
func lineOf(p *jobPod) string { return fmt.Sprintf("%+v", p.ask) }

// host reports whether some node lacks CPU, memory or room for pods.
func host(counts []placement.Count) bool {
	for _, c := range counts {
		if c.Reason == placement.NotEnoughCPU || c.Reason == placement.NotEnoughMemory || c.Reason == placement.TooManyPods {
			return true
		}
	}
	return false
}
