package explain

import (
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"

	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/kube/request"
)

// lineup is what pods that matter for places in line ask for, and when their turns are, each read once. It is not safe for
// concurrent use.
type lineup struct {
	pods   []*v1.Pod
	nodes  []*v1.Node
	owners request.Owners
	base   *lineup   // of the first of pods; nil is that all are read here
	more   []*v1.Pod // those that are read here; of no gang of base

	gangs   func() map[string]bool // keys of the gangs of more
	tickets func() func(*v1.Pod) queue.Ticket
	waiters func() []waiter   // of more
	kept    func() []*v1.Pod  // of more, those for which GPUs of a node are kept
	members map[string]member // of lines, by their IDs; nil is that lines is not filled
	lines   *reasons.Lines    // of a lineup without base, and for a moment of those on it
	reaches map[string]*queue.Reach
}

// waiter is a pod that waits in line for GPUs.
type waiter struct {
	pod    *v1.Pod
	amount reasons.Amount // the first that it asks for
	key    string         // see askKey
}

// member is a pod in the lines.
type member = reasons.Member

// newLineup reads pods, of a cluster with nodes.
func newLineup(pods []*v1.Pod, nodes []*v1.Node, owners request.Owners) *lineup {
	return (&lineup{pods: pods, nodes: nodes, owners: owners, more: pods, reaches: map[string]*queue.Reach{}}).lazily()
}

// with is the lineup with more pods behind its own.
func (l *lineup) with(more []*v1.Pod) *lineup {
	pods := slices.Concat(l.pods, more)
	if l.base != nil || slices.ContainsFunc(more, func(p *v1.Pod) bool { return l.gangs()[gangKey(p)] }) {
		return newLineup(pods, l.nodes, l.owners)
	}
	return (&lineup{pods: pods, nodes: l.nodes, owners: l.owners, base: l, more: more}).lazily()
}

// lazily has l read more when it is first asked about it.
func (l *lineup) lazily() *lineup {
	l.gangs = sync.OnceValue(func() map[string]bool {
		keys := map[string]bool{}
		for _, p := range l.more {
			if key := gangKey(p); key != "" {
				keys[key] = true
			}
		}
		return keys
	})
	l.tickets = sync.OnceValue(func() func(*v1.Pod) queue.Ticket { return request.Tickets(l.more, l.owners) })
	l.waiters = sync.OnceValue(func() (out []waiter) {
		for _, p := range l.more {
			if !request.InLine(p) {
				continue
			}
			if want := AmountsOf(p); len(want) > 0 {
				out = append(out, waiter{p, want[0], askKey(p, false)})
			}
		}
		return out
	})
	l.kept = sync.OnceValue(func() (out []*v1.Pod) {
		for _, p := range l.more {
			if node, _ := keptNode(p); node != "" {
				out = append(out, p)
			}
		}
		return out
	})
	return l
}

// gangKey is the key of the gang of a pod; "" is none.
func gangKey(p *v1.Pod) string {
	if g, _ := request.GangOf(p); g != nil {
		return g.Key
	}
	return ""
}

// each calls yield with the pods that wait in line, until that returns false.
func (l *lineup) each(yield func(*waiter) bool) {
	for _, list := range l.parts() {
		for i := range list.waiters() {
			if !yield(&list.waiters()[i]) {
				return
			}
		}
	}
}

// parts are l and what it stands on, the first of its pods first.
func (l *lineup) parts() []*lineup {
	if l.base == nil {
		return []*lineup{l}
	}
	return []*lineup{l.base, l}
}

// keptFor are the pods for which GPUs of a node are kept.
func (l *lineup) keptFor() []*v1.Pod {
	if l.base == nil {
		return l.kept()
	}
	return slices.Concat(l.base.kept(), l.kept())
}

// ticket decides when it is the turn of a pod: see request.Tickets.
func (l *lineup) ticket(p *v1.Pod) queue.Ticket {
	if l.base != nil && !l.gangs()[gangKey(p)] {
		return l.base.ticket(p)
	}
	return l.tickets()(p)
}

// place is where a pod stands: see PlaceInLine.
func (l *lineup) place(pod *v1.Pod) reasons.Place {
	id := (&member{Namespace: pod.Namespace, Name: pod.Name}).ID()
	if l.base == nil {
		l.fill()
		return l.lines.Place(id)
	}
	on := l.base
	on.fill()
	for i := range l.waiters() {
		s := &l.waiters()[i]
		on.lines.Put(on.member(s, l.ticket(s.pod)))
	}
	out := on.lines.Place(id)
	for i := range l.waiters() {
		was := (&member{Namespace: l.waiters()[i].pod.Namespace, Name: l.waiters()[i].pod.Name}).ID()
		if on.lines.Drop(was); on.members[was].Resource != "" {
			on.lines.Put(on.members[was])
		}
	}
	return out
}

// fill puts those of l that wait into its lines, once.
func (l *lineup) fill() {
	if l.members != nil {
		return
	}
	l.members, l.lines = map[string]member{}, reasons.NewLines()
	for i := range l.waiters() {
		m := l.member(&l.waiters()[i], l.ticket(l.waiters()[i].pod))
		l.members[m.ID()] = m
		l.lines.Put(m)
	}
}

// member is one that waits, as lines have it.
func (l *lineup) member(s *waiter, turn queue.Ticket) member {
	reach, known := l.reaches[s.key]
	if !known {
		reach = ReachOf(s.pod, l.nodes)
		l.reaches[s.key] = reach
	}
	return member{Namespace: s.pod.Namespace, Name: s.pod.Name, Resource: s.amount.Resource, Count: s.amount.Count, Waits: true, Ticket: turn, Reach: reach}
}
