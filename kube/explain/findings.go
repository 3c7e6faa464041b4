package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"

	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/core/forecast"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/request"
)

// Situation is a pod without a node and the cluster around it, as far as it could be
// read: what is missing is nil.
type Situation struct {
	Pod     *v1.Pod
	Nodes   []*v1.Node
	Pods    []*v1.Pod // of all namespaces
	Volumes []VolumeTopology
	// BadClaims are claims of Pod that keep it from every node: see BadClaims.
	BadClaims []reasons.Claim
	// NoClaims are ResourceClaims that Pod names and that do not exist: see reasons.Facts.
	NoClaims []string
	// Pool is a declared pool that could grow for Pod, where no autoscaler is known: see
	// reasons.Facts.
	Pool string
	// DRA is what a DRA driver offers beside what the nodes do.
	DRA devices.DRA
	// Private has names of other namespaces withheld.
	Private    bool
	Budgets    []policyv1.PodDisruptionBudget
	Priorities []schedulingv1.PriorityClass // of the cluster
	Quotas     []v1.ResourceQuota           // of the namespace of Pod
	Queues     *queues.Count                // of the cluster; nil: there are none, or they are not known
	Evicted    *quota.Evicted               // how often what makes such pods lost some to return quota; nil is never
	Owners     request.Owners               // of Pods; nil: none can be read
	Ends       KnownEnds
	RunTimes   *queue.RunTimes                 // of pods that have ended; nil: no start is forecast
	Outcomes   *forecast.Outcomes              // what came of earlier estimates, which corrects them; nil: nothing
	Idle       map[request.Owner]time.Duration // for how long owners of Pods have done nothing

	counted *Cluster         // of Nodes and Pods; nil is not counted yet
	line    *lineup          // of those of Pods that matter for places in line; nil is not read yet
	placers []string         // the schedulers of Pods; nil is not read yet
	judged  *reasons.Verdict // on Pod, of counted; nil is not judged yet
	planned bool             // it is that of a newcomer of a Plan
}

// lineup is that of Pods, or of those that matter for places in line, read once.
func (s *Situation) lineup() *lineup {
	if s.line == nil {
		s.line = newLineup(s.Pods, s.Nodes, s.Owners)
	}
	return s.line
}

// schedulers are those of Pods, looked for once.
func (s *Situation) schedulers() []string {
	if s.placers == nil {
		s.placers = append([]string{}, schedulers(s.Pods)...)
	}
	if len(s.placers) == 0 {
		return nil
	}
	return s.placers
}

// judge is what the nodes say of Pod, each asked once. The caller may set fields of the Verdict.
func (s *Situation) judge(c *Cluster) *reasons.Verdict {
	if s.judged == nil {
		s.judged = c.Judge(s.Pod)
	}
	out := *s.judged
	return &out
}

// inLines reports whether a pod matters for places in line: it waits, asks for GPUs, or belongs to a gang.
func inLines(p *v1.Pod) bool {
	g, err := request.GangOf(p)
	return p.Spec.NodeName == "" || g != nil || err != nil || len(request.Of(p)) > 0
}

// Findings are why a pod waits, and what would help.
type Findings struct {
	Start      *reasons.Estimate   // when it is likely to start; nil for a pod that requests no GPU
	Verdict    *reasons.Verdict    // of all nodes
	Rejections []reasons.Rejection // node by node
	Overtaken  reasons.Overtaken   // smaller pods that came later and started first
	Holders    []Held              // who holds GPUs that it could use, the oldest first; of newcomers of a Plan only if owners are idle
	Reliefs    []reasons.Relief    // changes of the pod
	Stops      []Stop              // idle owners to stop, the longest idle first
	Blocked    []reasons.Blocked   // what prevents preemption
}

// Stop is an idle owner whose stop would let a pod start.
type Stop struct {
	Owner request.Owner
	Idle  time.Duration
	Node  string // where the pod then fits
}

// cluster is that of s, counted once.
func (s *Situation) cluster() (*Cluster, error) {
	if s.counted == nil {
		c, err := s.with(s.Pods, s.Pod)
		if err != nil {
			return nil, err
		}
		c.SetPriorities(s.Priorities)
		c.quotas, c.private = s.Quotas, s.Private
		s.counted = c
	}
	return s.counted, nil
}

// with is the cluster of s with other pods on it, as it is for pod, with what is kept for those before it.
func (s *Situation) with(pods []*v1.Pod, pod *v1.Pod) (*Cluster, error) {
	c, err := s.holding(pods)
	if err == nil {
		c.keep(pod, s.lineup())
	}
	return c, err
}

// holding is the cluster of s with other pods on it.
func (s *Situation) holding(pods []*v1.Pod) (*Cluster, error) {
	c, err := NewCluster(s.Nodes, pods)
	if err != nil {
		return nil, err
	}
	c.SetVolumes(s.Volumes)
	c.SetDRA(s.DRA)
	c.SetQueues(s.Queues)
	c.owners = s.Owners
	return c, nil
}

// Starts expects when all pods of s start that wait, by queues.Workload: see Cluster.Starts. It asks for no Pod. Without RunTimes there are none.
func (s *Situation) Starts(now time.Time) (map[string]reasons.Likely, error) {
	if s.RunTimes == nil {
		return nil, nil
	}
	c, err := s.holding(s.Pods)
	if err != nil {
		return nil, fmt.Errorf("count what pods hold: %w", err)
	}
	return c.Starts(s.Pods, s.RunTimes, s.Outcomes, s.Ends, now)
}

// Find explains why the pod of s waits. Every relief and stop has been checked on the
// cluster as it is.
func Find(s *Situation, now time.Time) (*Findings, error) {
	c, err := s.cluster()
	if err != nil {
		return nil, fmt.Errorf("look for room for %s/%s: %w", s.Pod.Namespace, s.Pod.Name, err)
	}
	verdict := s.judge(c)
	out := &Findings{Verdict: verdict, Rejections: reasons.Rejections(verdict.Nodes)}
	if !s.planned { // one that does not exist yet was not overtaken
		out.Overtaken = overtaken(s.Pod, s.lineup())
	}
	for i := range out.Overtaken.By {
		if by := &out.Overtaken.By[i]; s.Private && !strings.HasPrefix(by.Name, s.Pod.Namespace+"/") {
			by.Name = elsewherePod
		}
	}
	if s.held(now) {
		return out, nil // nothing of a node is what it waits for
	}
	out.Reliefs = c.groupReliefs(s.Pod, s.lineup().pods, verdict)
	if g, err := request.GangOf(s.Pod); g == nil && err == nil {
		out.Reliefs = append(out.Reliefs, adminReliefs(verdict)...)
	}
	if b := verdict.Binding(); b != nil && !verdict.ForGPUs() {
		return out, nil // who holds GPUs, and until when, is not what it waits for
	}
	if g, err := request.GangOf(s.Pod); g == nil && err == nil && verdict.ForGPUs() {
		if help, ok := s.byPriority(); ok {
			out.Reliefs = append(out.Reliefs, help.Relief)
		}
	}
	if !s.planned || len(s.Idle) > 0 {
		out.Holders = c.InTheWay(s.Pod)
	}
	out.Blocked = c.BlockingBudgets(s.Pod, s.Budgets)
	if len(out.Blocked) > 0 && verdict.Detail == nil && verdict.ForGPUs() {
		verdict.Detail = &reasons.Detail{Code: reasons.CodeBudget}
	}
	if len(request.Of(s.Pod)) > 0 {
		start := c.startEstimate(s.Pod, s.lineup(), s.Ends, now)
		if s.RunTimes != nil && !start.Now && !s.planned && !s.Pod.CreationTimestamp.IsZero() { // a Plan says when newcomers start
			likely, err := c.Starts(s.Pods, s.RunTimes, s.Outcomes, s.Ends, now)
			if err != nil {
				return nil, err
			}
			start.Likely = likely[queues.Workload(s.Pod)]
		}
		out.Start = &start
	}
	out.Stops = s.stops(out.Holders)
	return out, nil
}

// held reports whether the pod is kept from every node by a claim or a scheduling gate, or
// because no scheduler looks at it.
func (s *Situation) held(now time.Time) bool {
	f := reasons.Facts{
		Pod: PodFacts(s.Pod, nil), Scheduler: s.Pod.Spec.SchedulerName, Schedulers: s.schedulers(), Waited: now.Sub(s.Pod.CreationTimestamp.Time),
	}
	return len(s.BadClaims)+len(s.NoClaims) > 0 || len(s.Pod.Spec.SchedulingGates) > 0 || f.Unhandled()
}

// stops checks, for idle owners among holders, whether the pod fits without them.
func (s *Situation) stops(holders []Held) []Stop {
	var idle []request.Owner
	for _, h := range holders {
		o := h.Oldest.Owner
		if d, known := s.Idle[o]; known && reasons.WorthStopping(d) && !slices.Contains(idle, o) {
			idle = append(idle, o)
		}
	}
	slices.SortStableFunc(idle, func(a, b request.Owner) int { return cmp.Compare(s.Idle[b], s.Idle[a]) })
	var out []Stop
	for _, o := range idle[:min(len(idle), reasons.MostStops)] {
		without, err := s.with(slices.DeleteFunc(slices.Clone(s.Pods), func(p *v1.Pod) bool { return request.OwnerOf(p) == o }), s.Pod)
		if err != nil {
			continue
		}
		if node, ok := without.startsNow(s.Pod, s.lineup()); ok {
			out = append(out, Stop{Owner: o, Idle: s.Idle[o], Node: node})
		}
	}
	return out
}

// Facts are what is known of the pod of s and of what nodes offer it. Without nodes, what
// they offer and the pod's place in line are unknown.
func (s *Situation) Facts(events []v1.Event, now time.Time) reasons.Facts {
	pod := s.Pod
	f := reasons.Facts{
		Namespace: pod.Namespace, Name: pod.Name, GPUs: AmountsOf(pod), Claims: ClaimsOf(pod), Pod: PodFacts(pod, events),
		BadClaims: s.BadClaims, NoClaims: s.NoClaims, Scheduler: pod.Spec.SchedulerName, Waited: now.Sub(pod.CreationTimestamp.Time),
	}
	for _, g := range pod.Spec.SchedulingGates {
		f.Gates = append(f.Gates, g.Name)
	}
	if len(s.Nodes) == 0 {
		return f
	}
	if pod.Spec.NodeName != "" {
		f.Pod.LostNode, f.InUse = lost(s.Nodes, pod.Spec.NodeName), elsewhere(pod, s.Pods)
		f.NodeGone = !slices.ContainsFunc(s.Nodes, func(n *v1.Node) bool { return n.Name == pod.Spec.NodeName })
		if f.NodeGone {
			f.Verdict = nodeGone(pod.Spec.NodeName, s.Nodes)
		}
		return f
	}
	f.Schedulers = s.schedulers()
	if s.Queues != nil {
		f.Quota, f.User = s.Queues.Verdict(pod), s.Queues.UserOf(pod)
	}
	if c, err := s.cluster(); err == nil {
		f.Verdict = s.judge(c)
		f.Group = c.group(pod, s.lineup().pods, f.Verdict)
	}
	if len(f.GPUs) > 0 {
		f.Place = s.lineup().place(pod)
	}
	f.Joining, f.Pool = Joining(pod, s.Nodes, now), s.Pool
	return f
}

// nodeGone is the verdict on a pod that names a node that does not exist.
func nodeGone(name string, nodes []*v1.Node) *reasons.Verdict {
	v := &reasons.Verdict{}
	for _, n := range nodes {
		v.Offers = append(v.Offers, n.Name)
	}
	slices.Sort(v.Offers)
	v.Near = gpu.NearestWord(name, v.Offers)
	return v
}

// schedulers are those that have looked at pods, sorted.
func schedulers(pods []*v1.Pod) []string {
	var out []string
	for _, p := range pods {
		if len(p.Status.Conditions) > 0 && p.Spec.SchedulerName != "" && !slices.Contains(out, p.Spec.SchedulerName) &&
			slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool {
				return c.Type == v1.PodScheduled && c.Reason != v1.PodReasonSchedulingGated
			}) {
			out = append(out, p.Spec.SchedulerName)
		}
	}
	slices.Sort(out)
	return out
}
