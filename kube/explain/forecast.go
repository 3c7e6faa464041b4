package explain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/core/cluster"
	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/core/forecast"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/kube/runs"
)

// How a queue is run ahead: so often, so far, and with fewer runs where more jobs run and wait than many.
const (
	forecastRuns = 10
	fewestRuns   = 5
	manyJobs     = 2000
	furthest     = 72 * time.Hour
	reserved     = 4 // jobs with reservations, as core/queue has them
)

// Starts expects when pods start that wait for nodes, by queues.Workload, from what earlier pods like those that hold GPUs and
// like those that wait ran: see forecast.Timeline.Starts. pods are those of the cluster. Pods that are held back are not among
// them, and take no GPUs. Quota comes back when those end that hold it: that others are evicted for it is not expected. The time until
// which nine of ten start is corrected by what came of earlier estimates, if that is known.
func (t *Cluster) Starts(pods []*v1.Pod, times *queue.RunTimes, came *forecast.Outcomes, known KnownEnds, now time.Time) (map[string]reasons.Likely, error) {
	a := &ahead{
		t: t, known: known, now: now, classes: map[string]uint32{}, requests: map[string]requested{},
		quotas: &quotasAhead{waits: map[string]*quota.Workload{}, runs: map[string][]string{}, tried: map[*forecast.Job]*tried{}},
	}
	empty, err := a.empty()
	if err != nil {
		return nil, err
	}
	waiting := a.waiting(pods, empty)
	if len(waiting) == 0 {
		return nil, nil
	}
	line := forecast.New(empty, placement.NewBestFit, forecast.Rules{Order: forecast.Given, Reservations: reserved}, times)
	if t.queues != nil {
		a.quotas.book = t.queues.Book
		line.Use(a.quotas)
	}
	count, err := a.begin(line)
	if err != nil {
		return nil, err
	}
	gpus := map[string]float64{}
	for _, j := range waiting {
		line.Wait(j)
		gpus[j.Name] = j.GPUs
	}
	n := forecastRuns
	if count+len(waiting) > manyJobs {
		n = fewestRuns
	}
	starts, err := line.Starts(placement.NewBestFit, n, furthest)
	if err != nil {
		return nil, fmt.Errorf("run the queue ahead: %w", err)
	}
	out := map[string]reasons.Likely{}
	for name, s := range starts {
		if s.P50 == forecast.Never {
			continue
		}
		likely := reasons.Likely{At: now.Add(s.P50), Within: furthest}
		if s.P90 != forecast.Never {
			likely.By = now.Add(s.P90)
		}
		if by, ok := came.Correct(s.P50, gpus[name]); ok {
			likely.By = now.Add(by)
		}
		out[name] = likely
	}
	return out, nil
}

// ahead makes the jobs of a forecast.
type ahead struct {
	t        *Cluster
	known    KnownEnds
	now      time.Time
	classes  map[string]uint32    // by the nodes that they have
	requests map[string]requested // by what pods ask: see request
	quotas   *quotasAhead
}

// quotasAhead are the quotas of jobs of a forecast.
type quotasAhead struct {
	book  *quota.Book
	waits map[string]*quota.Workload // by job; without it, it needs no quota
	runs  map[string][]string        // UIDs of pods that hold quota from the beginning, by job
	tried map[*forecast.Job]*tried
}

// tried is a job that was tried before, and the last answer.
type tried struct {
	*quota.Workload // nil: it needs no quota
	no              quota.Verdict
}

// Admits implements forecast.Quota.
func (q *quotasAhead) Admits(j *forecast.Job) bool {
	w := q.tried[j]
	if w == nil {
		w = &tried{Workload: q.waits[j.Name]}
		q.tried[j] = w
	}
	switch {
	case w.Workload == nil:
		return true
	case q.book.StillLacks(w.Workload, &w.no):
		return false
	}
	w.no = q.book.Try(w.Workload)
	return w.no.Cause == quota.None
}

// Starts implements forecast.Quota.
func (q *quotasAhead) Starts(j *forecast.Job) {
	if w := q.waits[j.Name]; w != nil {
		v := q.book.Try(w)
		q.book.Keep(w, w.Pods[:min(j.Pods, len(w.Pods))], v.CountedAs(w), time.Time{})
	}
}

// Ends implements forecast.Quota.
func (q *quotasAhead) Ends(j *forecast.Job) {
	if w := q.waits[j.Name]; w != nil {
		q.book.Release(w.ID)
	}
	for _, pod := range q.runs[j.Name] {
		q.book.Gone(pod)
	}
}

// Copy implements forecast.Quota.
func (q *quotasAhead) Copy() forecast.Quota {
	return &quotasAhead{q.book.Copy(), q.waits, q.runs, map[*forecast.Job]*tried{}}
}

// empty is the cluster with only what never ends: what pods without GPUs hold.
func (a *ahead) empty() (*cluster.Snapshot, error) {
	s := a.t.snapshot.Emptied(1)
	for i := range a.t.held {
		if len(a.t.held[i].Devices) > 0 {
			continue
		}
		if err := s.Assume(&a.t.held[i]); err != nil {
			return nil, fmt.Errorf("what %s/%s holds: %w", a.t.heldBy[i].Namespace, a.t.heldBy[i].Name, err)
		}
	}
	return s, nil
}

// begin has the workloads run that hold GPUs, and returns how many there are.
func (a *ahead) begin(line *forecast.Timeline) (count int, err error) {
	placed, first := map[string][]cluster.Placement{}, []int{}
	pods := map[string][]string{}
	for i := range a.t.held {
		if len(a.t.held[i].Devices) == 0 {
			continue
		}
		unit := queues.Workload(a.t.heldBy[i])
		if placed[unit] == nil {
			first = append(first, i)
		}
		placed[unit] = append(placed[unit], a.t.held[i])
		pods[unit] = append(pods[unit], string(a.t.heldBy[i].UID))
	}
	for _, i := range first {
		pod := a.t.heldBy[i]
		unit := queues.Workload(pod)
		j := a.job(pod, "runs "+unit, &a.t.held[i].Request, len(placed[unit]))
		a.quotas.runs[j.Name] = pods[unit]
		began := min(request.Since(pod).Sub(a.now), 0)
		if h := a.t.endOf(pod, a.known); h.By == reasons.EndDeadline || h.By == reasons.EndTerminating {
			if limit := max(h.Ends.Sub(a.now)-began, 1); j.Limit == 0 || limit < j.Limit {
				j.Limit = limit
			}
		}
		if err := line.Begin(j, began, placed[unit]); err != nil {
			return 0, fmt.Errorf("%s/%s, which holds GPUs: %w", pod.Namespace, pod.Name, err)
		}
	}
	return len(first), nil
}

// job is a workload of which pod is a member.
func (a *ahead) job(pod *v1.Pod, name string, r *cluster.Request, pods int) *forecast.Job {
	return &forecast.Job{
		Name: name, Template: runs.TemplateOf(pod), Request: *r, Pods: pods, GPUs: float64(r.TotalMilli()) / cluster.Whole * float64(pods),
		Limit: a.t.mostRunTime(pod),
	}
}

// waiting are the workloads that wait for nodes, in the order of their turns. Their classes are set on a snapshot.
func (a *ahead) waiting(pods []*v1.Pod, on *cluster.Snapshot) []*forecast.Job {
	tickets := request.Tickets(pods, a.t.owners)
	type turn struct {
		pod    *v1.Pod
		ticket queue.Ticket
	}
	members, bound := map[string][]*v1.Pod{}, map[string]int{}
	var line []turn
	for _, p := range pods {
		switch {
		case !request.AsksForGPUs(p) || request.Ended(p):
		case p.Spec.NodeName != "":
			bound[queues.Workload(p)]++
		case p.DeletionTimestamp == nil && len(p.Spec.SchedulingGates) == 0:
			line = append(line, turn{p, tickets(p)})
		}
	}
	slices.SortFunc(line, func(x, y turn) int {
		return cmp.Or(queue.Compare(x.ticket, y.ticket), byPodName(x.pod, y.pod))
	})
	var first []*v1.Pod
	for _, at := range line {
		unit := queues.Workload(at.pod)
		if members[unit] == nil {
			first = append(first, at.pod)
		}
		members[unit] = append(members[unit], at.pod)
	}
	var out []*forecast.Job
	for _, p := range first {
		unit := queues.Workload(p)
		need := len(members[unit])
		if g, _ := request.GangOf(p); g != nil && g.MinCount > 0 {
			if need = g.MinCount - bound[unit]; need <= 0 {
				need = 1 // one more of a gang that runs
			}
			if need > len(members[unit]) {
				continue // others are to come
			}
		}
		r, ok := a.request(p, on)
		if !ok {
			continue
		}
		j := a.job(p, unit, &r, need)
		j.At, j.Rank = min(p.CreationTimestamp.Sub(a.now), 0), len(out)
		if out = append(out, j); a.t.queues != nil {
			if w := a.t.queues.WorkloadOf(p); w != nil {
				a.quotas.waits[unit] = w
			}
		}
	}
	return out
}

// requested is an answer of request.
type requested struct {
	cluster.Request
	ok bool
}

// request is what a pod asks of the nodes that it could use; ok is false where there are none. Pods that ask for the same
// get the same answer.
func (a *ahead) request(pod *v1.Pod, on *cluster.Snapshot) (r cluster.Request, ok bool) {
	key := fmt.Sprint(askKey(pod, false), a.t.barsOf(pod).ways)
	had, is := a.requests[key]
	if !is {
		had.Request, had.ok = a.ask(pod, on)
		a.requests[key] = had
	}
	return had.Request, had.ok
}

// ask is request of one pod. Where its nodes are divided in different ways, those like the first count.
func (a *ahead) ask(pod *v1.Pod, on *cluster.Snapshot) (r cluster.Request, ok bool) {
	c := a.t.candidates(pod, nil)
	if len(c.nodes) == 0 {
		return r, false
	}
	r = c.asks[0]
	verdicts, key := make([]cluster.Verdict, on.Len()), make([]byte, on.Len())
	for n := range verdicts {
		verdicts[n].Reason, key[n] = 1, 'x'
	}
	for k, n := range c.nodes {
		if c.asks[k] == r {
			verdicts[n].Reason, key[n] = 0, '.'
		}
	}
	class := a.classes[string(key)]
	if class == 0 {
		class = uint32(len(a.classes)) + 1
		a.classes[string(key)] = class
		on.SetClass(class, verdicts)
	}
	r.Class = class
	return r, true
}
