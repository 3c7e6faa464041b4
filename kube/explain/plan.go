package explain

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/core/cluster"
	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/core/forecast"
	"berth.dev/berth/core/gang"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/kube/request"
)

// Plan is a cluster on which pods that do not exist yet get places, one workload after the other, as Berth's
// scheduler would give them now. Nothing is written.
type Plan struct {
	of    Situation // of no pod; its Pods are those of the cluster, then those that got a place
	c     *Cluster
	by    placement.Policy
	index *placement.Index
	line  []*v1.Pod // of the Pods of of, those that inLines has
	read  *lineup   // of line, but for those of no gang that got a place; nil is not read since one of a gang did
	ahead *lineup   // of line as it was first, those that may get a place before
	apart bool      // a pod keeps away from others by their labels
	left  []*v1.Pod // newcomers that wait: see Leave

	came  int      // how many of the Pods of of were there first
	fresh *Cluster // of all Pods of of; nil is that one got a place since
	mark  cluster.Mark
}

// Newcomers are the pods of one workload that do not exist yet. They have different UIDs, and the condition
// PodScheduled with status False, as pods have for which a scheduler found no node.
type Newcomers struct {
	Pods []*v1.Pod // in the order in which they get places
	// Need is how many, the first of them, get places together or not at all; 0 is that each gets its own.
	Need      int
	Volumes   []VolumeTopology
	BadClaims []reasons.Claim // that keep them from every node
	NoClaims  []string        // see Situation
}

// NewPlan plans on the cluster of a Situation; its Pod, Volumes, and claims are not read.
func NewPlan(s Situation) (*Plan, error) {
	c, err := NewCluster(s.Nodes, s.Pods)
	if err != nil {
		return nil, err
	}
	c.SetDRA(s.DRA)
	c.SetQueues(s.Queues)
	c.owners = s.Owners
	p := &Plan{of: s, c: c}
	p.of.Pods, p.came = slices.Clone(s.Pods), len(s.Pods)
	p.by, p.index = c.policyOf(s.Pods)
	p.line = slices.DeleteFunc(slices.Clone(s.Pods), func(pod *v1.Pod) bool { return !inLines(pod) })
	ahead := slices.DeleteFunc(slices.Clone(p.line), func(pod *v1.Pod) bool {
		node, _ := keptNode(pod)
		return node != "" || waitsForQuota(pod)
	})
	p.ahead, p.of.placers = newLineup(ahead, s.Nodes, s.Owners), append([]string{}, schedulers(s.Pods)...)
	p.apart = slices.ContainsFunc(s.Pods, keepsApart)
	return p, nil
}

// waitsForQuota reports whether the scheduler says that a pod waits for quota, and takes no place now.
func waitsForQuota(pod *v1.Pod) bool {
	c := request.Unscheduled(pod)
	if c == nil {
		return false
	}
	_, wait := queue.Marked(c.Message)
	return wait == queue.Quota
}

// Take finds newcomers places, as many as get one now, in their order. They hold them from then on.
func (p *Plan) Take(n *Newcomers) []*Taken {
	if len(n.Pods) == 0 || len(n.BadClaims)+len(n.NoClaims) > 0 || p.held(n.Pods[0]) {
		return nil
	}
	p.c.SetVolumes(n.Volumes)
	if p.of.Queues != nil {
		p.of.Queues.Expect(n.Pods)
		defer p.of.Queues.Forget(n.Pods)
	}
	p.Arrive(n.Pods)
	mark := p.c.snapshot.Mark()
	taken := p.takeAfter(n)
	p.c.snapshot.RollBack(mark)
	p.c.kept = nil
	for _, one := range taken {
		if p.c.snapshot.Assume(&one.placement) == nil {
			p.of.Pods, p.line = append(p.of.Pods, one.Pod), append(p.line, one.Pod)
			if gangKey(one.Pod) != "" {
				p.read = nil // the turns of others of its gang change
			}
			p.apart = p.apart || keepsApart(one.Pod)
		}
	}
	if len(taken) > 0 {
		p.fresh = nil
	}
	return taken
}

// Arrive has the placement policy learn what pods ask for, as Take does: for those of which it is known that they get no place.
func (p *Plan) Arrive(pods []*v1.Pod) {
	for _, pod := range pods {
		r := request.Demand(pod, gpu.Sharing{})
		p.index.Arrive(&r)
	}
}

// Selects reports whether labels of a pod can decide on which nodes it fits: it chooses nodes by the labels of pods, or others may keep
// away from it.
func (p *Plan) Selects(pod *v1.Pod) bool {
	a := pod.Spec.Affinity
	return p.apart || len(pod.Spec.TopologySpreadConstraints) > 0 || a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil)
}

// held reports whether something other than nodes keeps a pod waiting.
func (p *Plan) held(pod *v1.Pod) bool {
	return len(pod.Spec.SchedulingGates) > 0 || p.NoScheduler(pod) != nil
}

// NoScheduler returns the schedulers that place pods here, sorted, where that of a pod is none of them; nil is that it is,
// or that none is known.
func (p *Plan) NoScheduler(pod *v1.Pod) []string {
	known := p.of.placers // none of those that got a place since: their conditions are gone
	if len(known) == 0 || pod.Spec.SchedulerName == "" || pod.Spec.SchedulerName == v1.DefaultSchedulerName || slices.Contains(known, pod.Spec.SchedulerName) {
		return nil
	}
	return known
}

// takeAfter is Take after those that come before the newcomers have their places.
func (p *Plan) takeAfter(n *Newcomers) []*Taken {
	first := n.Pods[0]
	p.c.keep(first, p.lineup())
	mine := p.c.candidates(first, p.c.ties)
	before := p.c.before(first, &mine, p.ahead)
	if len(before) > mostAhead {
		return nil
	}
	best := placement.NewBestFit(placement.Setup{Cluster: p.c.snapshot})
	for i := range before {
		before[i].take(p.c.snapshot, best) // one that does not fit takes nothing
	}
	if n.Need == 0 {
		return p.each(n.Pods, nil)
	}
	level := gang.Cluster
	if g, err := request.GangOf(first); err == nil && g != nil {
		level = g.Within
	}
	if level >= gang.Cluster {
		return p.together(n, nil)
	}
	for _, domain := range p.c.domains(max(level, gang.Node)) {
		if taken := p.together(n, domain); taken != nil {
			return taken
		}
	}
	return nil
}

// together finds the newcomers that are needed places, all or none, and then the others as far as there is room.
func (p *Plan) together(n *Newcomers, within []int32) []*Taken {
	if p.refused(n.Pods[0]) {
		return nil
	}
	need, mark := min(n.Need, len(n.Pods)), p.c.snapshot.Mark()
	var taken []*Taken
	for _, pod := range n.Pods[:need] {
		one, found := p.takeOne(pod, within)
		if !found {
			p.c.leave(taken)
			p.c.snapshot.RollBack(mark)
			return nil
		}
		taken = append(taken, one)
	}
	p.c.snapshot.Keep(mark)
	for _, one := range taken {
		p.place(one)
	}
	return append(taken, p.each(n.Pods[need:], within)...)
}

// each finds pods places until one finds none.
func (p *Plan) each(pods []*v1.Pod, within []int32) (taken []*Taken) {
	for _, pod := range pods {
		if p.refused(pod) {
			return taken
		}
		one, found := p.takeOne(pod, within)
		if !found {
			return taken
		}
		p.place(one)
		taken = append(taken, one)
	}
	return taken
}

// takeOne finds a pod a place; one without GPUs gets it on any node.
func (p *Plan) takeOne(pod *v1.Pod, within []int32) (*Taken, bool) {
	if !request.AsksForGPUs(pod) {
		within = nil
	}
	return p.c.take(pod, p.by, within)
}

// refused reports whether quotas of Berth's queues keep a pod waiting.
func (p *Plan) refused(pod *v1.Pod) bool {
	return p.of.Queues != nil && p.of.Queues.Verdict(pod).Cause != quota.None
}

// place has quotas count a pod where it is.
func (p *Plan) place(one *Taken) {
	if p.of.Queues != nil {
		p.of.Queues.Place(one.Pod)
	}
}

// now is the cluster with those that got a place, counted once until the next gets one.
func (p *Plan) now() (*Cluster, error) {
	if p.fresh == nil {
		c, err := p.counted()
		if err != nil {
			return nil, err
		}
		c.SetDRA(p.of.DRA)
		c.SetQueues(p.of.Queues)
		c.SetPriorities(p.of.Priorities)
		c.owners, c.private = p.of.Owners, p.of.Private
		p.fresh, p.mark = c, c.snapshot.Mark()
	}
	p.fresh.snapshot.RollBack(p.mark)
	p.mark, p.fresh.kept = p.fresh.snapshot.Mark(), nil
	return p.fresh, nil
}

// counted is the cluster with those that got a place. While there are none, it is the one that the plan is made on.
func (p *Plan) counted() (*Cluster, error) {
	if len(p.of.Pods) > p.came {
		return NewCluster(p.of.Nodes, p.of.Pods)
	}
	c := *p.c
	c.snapshot = p.c.snapshot.Clone()
	c.read.Snapshot = c.snapshot
	c.kept, c.reaches, c.empty = nil, nil, nil
	return &c, nil
}

// Waiting is the situation of the first newcomer that got no place, with all of them that got none.
func (p *Plan) Waiting(n *Newcomers, left []*v1.Pod) (*Situation, error) {
	if _, err := p.now(); err != nil {
		return nil, err
	}
	s := p.of
	s.Pod, s.Pods, s.line = left[0], slices.Concat(p.of.Pods, left), p.lineup().with(left)
	s.Volumes, s.BadClaims, s.NoClaims = n.Volumes, n.BadClaims, n.NoClaims
	p.fresh.SetVolumes(n.Volumes)
	p.fresh.quotas = s.Quotas
	p.fresh.keep(s.Pod, p.lineup())
	s.counted, s.planned = p.fresh, true
	placers := append(slices.Clone(p.of.placers), schedulers(left)...)
	slices.Sort(placers)
	s.placers = slices.Compact(placers)
	return &s, nil
}

// lineup is that of line.
func (p *Plan) lineup() *lineup {
	if p.read == nil {
		p.read = newLineup(p.line, p.of.Nodes, p.of.Owners)
	}
	return p.read
}

// SetQuotas sets the ResourceQuotas of the namespace whose pods are planned next.
func (p *Plan) SetQuotas(list []v1.ResourceQuota) { p.of.Quotas = list }

// Members is how many pods of a gang there are, with those that got a place in the plan.
func (p *Plan) Members(gang string) int {
	count := 0
	for _, pod := range p.line {
		if g, err := request.GangOf(pod); err == nil && g != nil && g.Key == gang && !request.Ended(pod) {
			count++
		}
	}
	return count
}

// Leave has newcomers wait that got no place. They hold nothing, so others may start before them.
func (p *Plan) Leave(pods []*v1.Pod) { p.left = append(p.left, pods...) }

// Starts expects when the newcomers that wait start, and those of the cluster, by queues.Workload: see Cluster.Starts. Without run times there are none.
func (p *Plan) Starts(times *queue.RunTimes, came *forecast.Outcomes, known KnownEnds, now time.Time) (map[string]reasons.Likely, error) {
	if len(p.left) == 0 || times == nil {
		return nil, nil
	}
	c, err := p.now()
	if err != nil {
		return nil, fmt.Errorf("count what pods hold: %w", err)
	}
	p.Expect(p.left)
	defer p.Forget(p.left)
	c.SetVolumes(nil)
	return c.Starts(slices.Concat(p.of.Pods, p.left), times, came, known, now)
}

// Expect has quotas count pods that got no place among those that wait, until Forget.
func (p *Plan) Expect(pods []*v1.Pod) {
	if p.of.Queues != nil {
		p.of.Queues.Expect(pods)
	}
}

// Forget ends Expect.
func (p *Plan) Forget(pods []*v1.Pod) {
	if p.of.Queues != nil {
		p.of.Queues.Forget(pods)
	}
}
