package explain

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/core/cluster"
	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/kube/request"
)

// mostAhead is how many others before a pod are placed in thought. What stands behind
// more is told no time: too much comes and goes until it is its turn.
const mostAhead = 20

// KnownEnds are times at which owners of pods have these end, where their pods do not say.
type KnownEnds struct {
	Idle     map[request.Owner]time.Time // notebooks that are to be stopped, unless somebody uses them
	Deadline map[request.Owner]time.Time // Jobs: their activeDeadlineSeconds
}

// StartEstimate tells when there is room for pod, which has no node, by the ends that are
// known of those that hold GPUs where it could go: their activeDeadlineSeconds, their
// deletion, the maxRunTime of their queues, and what known says of their owners. pods are those of the Trial; those
// among them that wait and come before pod get room first.
func (t *Cluster) StartEstimate(pod *v1.Pod, pods []*v1.Pod, known KnownEnds, now time.Time) reasons.Estimate {
	return t.startEstimate(pod, newLineup(pods, nil, t.owners), known, now)
}

// startEstimate is StartEstimate with pods that were read before.
func (t *Cluster) startEstimate(pod *v1.Pod, line *lineup, known KnownEnds, now time.Time) reasons.Estimate {
	if g, err := request.GangOf(pod); g != nil || err != nil {
		return reasons.Estimate{Unknown: "the gang starts together, and too little is known of how long the workloads run that hold GPUs"}
	}
	mine := t.candidates(pod, t.ties)
	before := t.before(pod, &mine, line)
	if len(before) > mostAhead {
		return reasons.Estimate{Ahead: len(before), Unknown: fmt.Sprintf("more than %d pods are ahead of it", mostAhead)}
	}
	var holders []reasons.Holder
	var of []int // their positions in t.held
	for i, p := range t.heldBy {
		if len(t.held[i].Devices) > 0 && mine.has(t.held[i].Node) {
			h := t.endOf(p, known)
			if t.private && p.Namespace != pod.Namespace {
				h.Name = "a workload of another namespace"
			}
			holders, of = append(holders, h), append(of, i)
		}
	}
	best := placement.NewBestFit(placement.Setup{Cluster: t.snapshot})
	return reasons.EstimateStart(now, len(before), holders, func(gone []int) bool {
		m := t.snapshot.Mark()
		defer t.snapshot.RollBack(m)
		t.withoutKept() // those it is kept for are among before
		for _, i := range gone {
			if t.snapshot.Release(&t.held[of[i]]) != nil {
				return false // not reached: the snapshot has assumed it
			}
		}
		for i := range before {
			if !before[i].take(t.snapshot, best) {
				return false
			}
		}
		return mine.take(t.snapshot, best)
	})
}

// candidates are the nodes that a pod could use, by name, and what it asks of each.
type candidates struct {
	nodes []int // of the snapshot, in its order
	asks  []cluster.Request
}

// candidates returns the nodes that have what pod asks for, held or not, and that it selects,
// tolerates and reaches.
func (t *Cluster) candidates(pod *v1.Pod, ties []VolumeTopology) candidates {
	var out candidates
	asked, ties, b, a := request.Of(pod), tiesOf(pod, ties), t.barsOf(pod), &ask{pod: pod}
	for _, n := range t.nodes {
		i, found := t.snapshot.Find(n.Name)
		if !found || !offers(asked, n) || !selects(pod, n) || tolerates(pod, n) != nil || !reached(n, ties) || b.on(n) != 0 {
			continue
		}
		if d := t.dividedOf(n); d.err == nil {
			out.nodes, out.asks = append(out.nodes, i), append(out.asks, a.demand(d.Sharing))
		}
	}
	return out
}

func (s *candidates) has(node int) bool {
	_, is := slices.BinarySearch(s.nodes, node)
	return is
}

// reach is the same nodes, as package queue has them.
func (s *candidates) reach(t *Cluster) *queue.Reach {
	var names []string
	for _, n := range t.nodes {
		if i, found := t.snapshot.Find(n.Name); found && s.has(i) {
			names = append(names, n.Name)
		}
	}
	return queue.NewReach(names)
}

// take places the pod on the first of its nodes that it fits on now.
func (s *candidates) take(on *cluster.Snapshot, by placement.Policy) bool {
	for k, i := range s.nodes {
		if placement.Fit(on, i, &s.asks[k]) != placement.Fits {
			continue
		}
		r := on.Resolve(i, &s.asks[k])
		p := cluster.Placement{Node: i, Request: r, Devices: by.Devices(on, i, &r, nil)}
		if on.Assume(&p) == nil {
			return true
		}
	}
	return false
}

// before are the pods that wait for a node that pod could have, and come before it,
// in their order. Where they are more than mostAhead, only that is known of them: one more, without nodes.
func (t *Cluster) before(pod *v1.Pod, mine *candidates, line *lineup) []candidates {
	first := func(a, b *v1.Pod) int { return queue.Compare(line.ticket(a), line.ticket(b)) }
	reach := mine.reach(t)
	var compete []*v1.Pod
	for s := range line.each {
		p := s.pod
		if p.Namespace == pod.Namespace && p.Name == pod.Name {
			continue
		}
		// One that is not made yet comes behind all of its priority.
		earlier := pod.CreationTimestamp.IsZero() && request.Priority(p) >= request.Priority(pod) || first(p, pod) < 0
		if earlier && queue.Compete(reach, t.reachOf(s)) {
			if compete = append(compete, p); len(compete) > mostAhead {
				return make([]candidates, len(compete)) // so many are only counted
			}
		}
	}
	slices.SortFunc(compete, first)
	var out []candidates
	for _, p := range compete {
		out = append(out, t.candidates(p, nil))
	}
	return out
}

// reachOf is ReachOf the nodes that take pods, found once for pods that ask for the same.
func (t *Cluster) reachOf(s *waiter) *queue.Reach {
	r, known := t.reaches[s.key]
	if !known {
		if t.reaches == nil {
			t.reaches = map[string]*queue.Reach{}
		}
		r = ReachOf(s.pod, t.nodes)
		t.reaches[s.key] = r
	}
	return r
}

// endOf is what is known of the end of a pod: the latest time at which its kubelet, its Job, or a rule of its
// queue has it stopped, or when the idle rules stop its notebook.
func (t *Cluster) endOf(pod *v1.Pod, known KnownEnds) reasons.Holder {
	owner := request.OwnerOf(pod)
	h := reasons.Holder{Name: owner.String()}
	earlier := func(at time.Time, by reasons.EndKind) {
		if h.By == reasons.EndUnknown || at.Before(h.Ends) {
			h.Ends, h.By = at, by
		}
	}
	grace := 30 * time.Second // as the API server has it where nothing is said
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		grace = time.Duration(*s) * time.Second
	}
	if s := pod.Spec.ActiveDeadlineSeconds; s != nil && pod.Status.StartTime != nil {
		earlier(pod.Status.StartTime.Add(time.Duration(*s)*time.Second+grace), reasons.EndDeadline)
	}
	if at, ok := known.Deadline[owner]; ok {
		earlier(at.Add(grace), reasons.EndDeadline)
	}
	if most := t.mostInQueue(pod); most > 0 && pod.Status.StartTime != nil {
		earlier(pod.Status.StartTime.Add(most+grace), reasons.EndRule)
	}
	if pod.DeletionTimestamp != nil {
		earlier(pod.DeletionTimestamp.Time, reasons.EndTerminating)
	}
	if at, ok := known.Idle[owner]; ok && h.By == reasons.EndUnknown { // what is certain goes before
		earlier(at.Add(grace), reasons.EndIdle)
	}
	return h
}

// mostInQueue is how long the rules of its queue let a pod run; 0 is unlimited.
func (t *Cluster) mostInQueue(pod *v1.Pod) time.Duration {
	if t.queues == nil {
		return 0
	}
	return t.queues.MostRunTime(pod)
}

// mostRunTime is how long a pod runs at most, as it declares or by the rules of its queue; 0 is that neither says.
func (t *Cluster) mostRunTime(pod *v1.Pod) time.Duration {
	most := request.MostRunTime(pod)
	if inQueue := t.mostInQueue(pod); inQueue > 0 && (most == 0 || inQueue < most) {
		return inQueue
	}
	return most
}
