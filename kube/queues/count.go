package queues

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/kube/training"
)

// Situation is the objects that quotas are counted from.
type Situation struct {
	Queues     []*v1alpha1.Queue
	Namespaces []*v1.Namespace
	Nodes      []*v1.Node
	Pods       []*v1.Pod // of all namespaces
	// User returns the user of a pod as limits count it: user.CountedAs of request.UserOf;
	// nil is that no user is known.
	User func(*v1.Pod) string
	// Least returns how many pods a gang needs, by its key, where its pods do not say it; 0 is
	// not known. nil is that none is.
	Least func(gang string) int
	// Line returns the priority of an object in the line of its queue, as LinePriorities.Of does; nil is
	// that none is apart from that of pods.
	Line func(metav1.Object) *int32
	// Classes returns the PriorityClasses that Queues can name, nil if they are not known. It is called if
	// some Queue names one; nil is that none are known.
	Classes func() *PriorityClasses
	// Owners finds the objects that create pods: training jobs, as old as which their pods are, and those that name a
	// queue; nil is that none is found.
	Owners request.Owners
	// Kueue reports whether Kueue runs, as Around.Kueue does; nil is that it does not.
	Kueue func() bool
	// Suspended are the objects that wait to be resumed in their turn.
	Suspended []*Suspended
	// Now is when it is, for who has waited long; zero is that none has.
	Now time.Time
}

// Count is what the pods of a cluster hold of their queues' quotas, and which of them wait
// for quota, as the scheduler counts it.
type Count struct {
	Book     *quota.Book
	Members  *Members
	Offers   *Offers
	Problems []quota.Problem // of the Queues, by name and field

	s          *Situation
	namespaces map[string]*v1.Namespace
	pods       map[string][]*v1.Pod // that have no node, by workload
	bound      map[string]int       // how many have one
	alone      map[string]*v1.Pod   // that wait by themselves, also those of a gang that runs, by UID
	suspended  map[string]*Suspended
	rules      map[string]quota.Rule // by queue
}

// Read counts a cluster. Pods without a node whose quota is used up wait in line.
func Read(s *Situation) *Count {
	c := &Count{
		Members: NewMembers(s.Queues).In(Around{s.Owners, s.Kueue}), Offers: &Offers{}, s: s, namespaces: map[string]*v1.Namespace{}, pods: map[string][]*v1.Pod{}, bound: map[string]int{}, alone: map[string]*v1.Pod{},
		suspended: map[string]*Suspended{}, rules: Rules(s.Queues),
	}
	for _, ns := range s.Namespaces {
		c.namespaces[ns.Name] = ns
	}
	c.Offers.Count(s.Queues)
	for _, node := range s.Nodes {
		c.Offers.Set(node)
	}
	specs, problems := Specs(s.Queues, c.Offers.Products()...)
	tree := quota.NewTree(specs)
	c.Problems = slices.Concat(problems, tree.Problems(), c.Members.Problems(s.Namespaces))
	if s.Classes != nil && slices.ContainsFunc(s.Queues, func(q *v1alpha1.Queue) bool { return q.Spec.DefaultPriorityClasses != nil }) {
		if classes := s.Classes(); classes != nil {
			_, unset := NewDefaultClasses(s.Queues, classes.has)
			c.Problems = append(c.Problems, unset...)
		}
	}
	slices.SortStableFunc(c.Problems, func(a, b quota.Problem) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Field, b.Field))
	})
	c.Book = quota.NewBook(tree)
	c.Book.SetNow(s.Now)
	for _, q := range s.Queues {
		for _, u := range q.Status.Usage {
			c.Book.SetUsed(q.Name, u.User, quota.Decay{Value: float64(u.GPUSeconds), At: u.At.Time})
		}
	}
	for _, pod := range s.Pods {
		if !request.AsksForGPUs(pod) || request.Ended(pod) {
			continue
		}
		if pod.Spec.NodeName == "" {
			id := Workload(pod)
			c.pods[id] = append(c.pods[id], pod)
			continue
		}
		c.bound[Workload(pod)]++
		if queue := c.queueOf(pod); queue != "" {
			h := Holder(pod, queue, c.user(pod), c.Offers.Held(pod), c.s.Least)
			c.Book.Hold(&h)
		}
	}
	c.line()
	return c
}

// line has the workloads wait that have not enough quota, or are behind one that is late.
func (c *Count) line() {
	var all []*quota.Workload
	alone := map[string]*v1.Pod{}
	for _, pods := range c.pods {
		slices.SortFunc(pods, func(a, b *v1.Pod) int { return request.AgeOf(a).Compare(request.AgeOf(b)) })
		for _, pod := range pods {
			if pod.DeletionTimestamp != nil || len(pod.Spec.SchedulingGates) > 0 {
				break
			}
			w := c.WorkloadOf(pod)
			if w == nil {
				break
			}
			all = append(all, w)
			if w.ID != string(pod.UID) {
				break
			}
			alone[w.ID] = pod
		}
	}
	for _, s := range c.s.Suspended {
		if w := c.WorkloadFor(s); w != nil {
			c.suspended[w.ID] = s
			all = append(all, w)
		}
	}
	for range 2 { // those that lack quota, then those behind them
		for _, w := range all {
			if c.Book.Waits(w.ID) || c.Book.Try(w).Cause == quota.None {
				continue
			}
			c.Book.Wait(w)
			if pod := alone[w.ID]; pod != nil {
				c.alone[w.ID] = pod
			}
		}
	}
}

// WorkloadFor returns what a suspended object asks for; nil is that it is of no queue.
func (c *Count) WorkloadFor(s *Suspended) *quota.Workload {
	return s.Workload(func(p *v1.Pod, allowed sharing.Ways) (quota.Pod, []quota.Kind) {
		return Asked(p, c.Offers, allowed)
	}, c.Book.Tree().Ways, c.queueOf, c.user, c.lineOf)
}

func (c *Count) lineOf(o metav1.Object) *int32 {
	if c.s.Line == nil {
		return nil
	}
	return c.s.Line(o)
}

// Suspended returns the suspended object that a workload is of; nil is none.
func (c *Count) Suspended(workload string) *Suspended { return c.suspended[workload] }

// QueueOf returns the queue of a pod, and what decides it.
func (c *Count) QueueOf(pod *v1.Pod) Member { return c.Members.Of(pod, c.namespaces[pod.Namespace]) }

// queueOf is QueueOf without what decides it: owners of pods are not read where no queue takes labeled pods.
func (c *Count) queueOf(pod *v1.Pod) string {
	return c.Members.QueueOf(pod, c.namespaces[pod.Namespace])
}

// MostRunTime returns how long a pod runs at most, by the rules of its queue and of those above; 0 is unlimited.
func (c *Count) MostRunTime(pod *v1.Pod) time.Duration {
	if len(c.rules) == 0 {
		return 0
	}
	most, _ := quota.MostRunTime(c.Book.Tree(), c.queueOf(pod), c.rules)
	return most
}

// UserOf returns the user of a pod as limits count it; "" is not known.
func (c *Count) UserOf(pod *v1.Pod) string { return c.user(pod) }

func (c *Count) user(pod *v1.Pod) string {
	if c.s.User == nil {
		return ""
	}
	return c.s.User(pod)
}

// WorkloadOf returns what a pod without a node is admitted with: the pods of its gang that have
// none, or itself. It is nil for a pod of no queue, or that asks for no GPU.
func (c *Count) WorkloadOf(pod *v1.Pod) *quota.Workload {
	queue := c.queueOf(pod)
	if queue == "" || !request.AsksForGPUs(pod) {
		return nil
	}
	pods := c.pods[Workload(pod)]
	if len(pods) == 0 {
		pods = []*v1.Pod{pod}
	}
	w := &quota.Workload{ID: Workload(pod), Queue: queue, User: c.user(pod), Ticket: request.TurnOf(pods[0], c.s.Owners), Line: c.lineOf(pods[0]), Since: pods[0].CreationTimestamp.Time}
	if g, err := request.GangOf(pod); err == nil && g != nil {
		n, runs := least(g, c.s.Least), c.bound[w.ID]
		if w.Need = n - runs; n > 0 && runs >= n { // one more of a gang that runs
			w.Joins, w.ID, w.Need, pods = w.ID, string(pod.UID), 1, []*v1.Pod{pod}
		}
	}
	kinds := make([][]quota.Kind, 0, len(pods))
	for _, p := range request.FewestFirst(pods) {
		asked, of := Asked(p, c.Offers, c.Book.Tree().Ways(queue))
		kinds = append(kinds, of)
		asked.User = c.user(p)
		w.Pods = append(w.Pods, asked)
		if other := c.queueOf(p); other != queue {
			w.Mixed, w.Other = true, other
		}
	}
	SetKinds(w, kinds)
	return w
}

// Pods returns the pods without a node of a workload, the oldest first.
func (c *Count) Pods(workload string) []*v1.Pod {
	if pod := c.alone[workload]; pod != nil {
		return []*v1.Pod{pod}
	}
	return c.pods[workload]
}

// Verdict is what the quotas say of a pod that has no node; its Cause is None for a pod of no
// queue.
func (c *Count) Verdict(pod *v1.Pod) quota.Verdict {
	w := c.WorkloadOf(pod)
	if w == nil {
		return quota.Verdict{Count: 1}
	}
	return c.Book.Try(w)
}

// Without returns the queue of a pod, and which nodes it may not use now as the queue has no quota for
// their GPUs; "" is that there are none, or that it may use no node for now.
func (c *Count) Without(pod *v1.Pod) (queue string, out func(*v1.Node) bool) {
	v := c.Verdict(pod)
	if len(v.Choices) == 0 {
		return "", nil
	}
	var kinds []quota.Kind
	for _, choice := range v.Choices {
		kinds = append(kinds, choice.Kinds...)
	}
	return c.queueOf(pod), func(n *v1.Node) bool { return !slices.Contains(kinds, c.Offers.KindOf(n)) }
}

// Expect counts pods that do not exist yet among those that have no node, until Forget.
func (c *Count) Expect(pods []*v1.Pod) {
	for _, pod := range pods {
		c.pods[Workload(pod)] = append(c.pods[Workload(pod)], pod)
	}
}

// Forget ends Expect.
func (c *Count) Forget(pods []*v1.Pod) {
	for _, pod := range pods {
		id := Workload(pod)
		c.pods[id] = slices.DeleteFunc(c.pods[id], func(p *v1.Pod) bool { return p.UID == pod.UID })
	}
}

// Place counts a pod on its node from now on, with the quota that it holds there.
func (c *Count) Place(pod *v1.Pod) {
	if !request.AsksForGPUs(pod) {
		return
	}
	c.Forget([]*v1.Pod{pod})
	c.bound[Workload(pod)]++
	if queue := c.queueOf(pod); queue != "" {
		h := Holder(pod, queue, c.user(pod), c.Offers.Held(pod), c.s.Least)
		c.Book.Hold(&h)
	}
}

// Workload names what a pod is admitted with: its gang, or its UID.
func Workload(pod *v1.Pod) string {
	if g, err := request.GangOf(pod); err == nil && g != nil {
		return g.Key
	}
	return string(pod.UID)
}

// Holder is a pod with a node as quotas count it: of a queue, for a user, with what it holds.
// How many pods its gang needs is asked of least, where they do not say it; least may be nil.
func Holder(pod *v1.Pod, queue, user string, held []quota.Piece, of func(gang string) int) quota.Holder {
	h := quota.Holder{
		ID: string(pod.UID), Workload: string(pod.UID), Queue: queue, User: user, Pieces: held, Least: 1,
		Priority: request.Priority(pod), Saves: training.Saves(pod), Leads: training.Leads(pod),
	}
	if g, err := request.GangOf(pod); err == nil && g != nil {
		h.Workload, h.Least = g.Key, least(g, of)
	}
	Runs(&h, pod)
	return h
}

// Runs sets what changes of a Holder while its pod runs: when it began, and whether it is being deleted.
func Runs(h *quota.Holder, pod *v1.Pod) {
	h.Leaving = pod.DeletionTimestamp != nil
	if t := pod.Status.StartTime; t != nil {
		h.Start = t.Time
	}
}

// least is how many pods a gang needs; 0 is all.
func least(g *request.Gang, of func(gang string) int) int {
	if g.MinCount == 0 && of != nil {
		return of(g.Key)
	}
	return g.MinCount
}
