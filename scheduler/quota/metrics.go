package quota

import (
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"berth.dev/berth/core/quota"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/request"
)

// The reasons of berth_queue_evictions_total.
const (
	evictedForQuota    = quota.ReasonReclaimed
	evictedForPriority = "Preempted"
)

// tallies are what has happened in each queue and those below it since this scheduler began to count it.
// Quota.mu guards them.
type tallies map[string]*tally

// tally is what has happened in one queue, in pods.
type tally struct {
	admitted uint64
	evicted  map[string]uint64 // by reason
}

// of returns the tally of a queue, which begins with 0 of everything.
func (t tallies) of(name string) *tally {
	if t[name] == nil {
		t[name] = &tally{evicted: map[string]uint64{evictedForQuota: 0, evictedForPriority: 0}}
	}
	return t[name]
}

// keep forgets the queues that do not exist.
func (t tallies) keep(tree *quota.Tree) {
	there := map[string]bool{}
	for _, name := range tree.Names() {
		there[name] = true
	}
	maps.DeleteFunc(t, func(name string, _ *tally) bool { return !there[name] })
}

// Bound counts a pod that this scheduler has bound.
func (q *Quota) Bound(pod *v1.Pod) {
	q.counts(pod, func(t *tally) { t.admitted++ })
}

// Preempted counts a pod that was evicted for a pod of higher priority.
func (q *Quota) Preempted(pod *v1.Pod) {
	q.counts(pod, func(t *tally) { t.evicted[evictedForPriority]++ })
}

// counts counts something of a pod in its queue and in those above it.
func (q *Quota) counts(pod *v1.Pod, count func(*tally)) {
	if !q.On() || request.Of(pod) == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.book == nil {
		return
	}
	q.countIn(q.read.Queue(pod), count)
}

// countIn counts in a queue and in those above it, with mu held.
func (q *Quota) countIn(queue string, count func(*tally)) {
	for _, name := range q.book.Tree().Path(queue) {
		count(q.tallies.of(name))
	}
}

// gauges are the metrics of queues, read when they are asked for.
type gauges struct {
	metrics.BaseStableCollector
	q   *Quota
	now func() time.Time
}

func desc(name, help string, labels ...string) *metrics.Desc {
	return metrics.NewDesc(name, help, labels, nil, metrics.ALPHA, "")
}

var (
	nominalGPUs  = desc("berth_queue_nominal_gpus", "Nominal quota of a queue, by kind of GPUs; of MIG profiles in MIG devices.", "queue", "gpus")
	usedGPUs     = desc("berth_queue_used_gpus", "GPUs that pods of a queue, and of those below it, hold or have kept for them.", "queue", "gpus")
	borrowedGPUs = desc("berth_queue_borrowed_gpus", "GPUs that a queue holds beyond its nominal quota.", "queue", "gpus")
	lentGPUs     = desc("berth_queue_lent_gpus", "GPUs of the nominal quota of a queue that other queues hold.", "queue", "gpus")
	waiting      = desc("berth_queue_waiting_workloads", "Workloads of a queue, and of those below it, that wait for quota.", "queue")
	oldestWait   = desc("berth_queue_oldest_wait_seconds", "How long the first of the workloads that wait for quota has waited; 0 if none waits.", "queue")
	admissions   = desc("berth_queue_admissions_total", "Pods of a queue, and of those below it, that this scheduler has bound.", "queue")
	evicted      = desc("berth_queue_evictions_total", "Pods of a queue, and of those below it, that this scheduler has evicted, by reason.", "queue", "reason")
)

var registerOnce sync.Once

// register shows the metrics of queues on the /metrics of the process. With several schedulers in one
// process the first is shown.
func (q *Quota) register() {
	registerOnce.Do(func() { legacyregistry.CustomMustRegister(&gauges{q: q, now: time.Now}) })
}

// DescribeWithStability implements metrics.StableCollector.
func (g *gauges) DescribeWithStability(ch chan<- *metrics.Desc) {
	for _, d := range []*metrics.Desc{nominalGPUs, usedGPUs, borrowedGPUs, lentGPUs, waiting, oldestWait, admissions, evicted} {
		ch <- d
	}
}

// CollectWithStability implements metrics.StableCollector. There are no series without Queues.
func (g *gauges) CollectWithStability(ch chan<- metrics.Metric) {
	send := func(d *metrics.Desc, kind metrics.ValueType, value float64, labels ...string) {
		ch <- metrics.NewLazyConstMetric(d, kind, value, labels...)
	}
	s := g.q.look()
	for _, name := range slices.Sorted(maps.Keys(s.lines)) {
		for _, st := range s.standings[name] {
			of := queues.GPUsOf(st.Resource)
			send(nominalGPUs, metrics.GaugeValue, gpus(st.Nominal), name, of)
			send(usedGPUs, metrics.GaugeValue, gpus(st.Used), name, of)
			send(borrowedGPUs, metrics.GaugeValue, gpus(st.Borrowed), name, of)
			send(lentGPUs, metrics.GaugeValue, gpus(st.Lent), name, of)
		}
		line, wait := s.lines[name], 0.0
		if !line.Since.IsZero() {
			wait = max(0, g.now().Sub(line.Since).Seconds())
		}
		send(waiting, metrics.GaugeValue, float64(line.Count), name)
		send(oldestWait, metrics.GaugeValue, wait, name)
		t := s.tallies[name]
		send(admissions, metrics.CounterValue, float64(t.admitted), name)
		for _, reason := range slices.Sorted(maps.Keys(t.evicted)) {
			send(evicted, metrics.CounterValue, float64(t.evicted[reason]), name, reason)
		}
	}
}

// look is what the metrics of queues are made from, copied: a scrape that is slow delays no pod.
type look struct {
	standings map[string][]quota.Standing
	lines     map[string]quota.Waiters
	tallies   map[string]tally
}

func (q *Quota) look() (out look) {
	if !q.On() {
		return out
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.book == nil {
		return out
	}
	out = look{q.book.Standings(), q.book.Lines(), map[string]tally{}}
	for name := range out.lines {
		t := q.tallies.of(name)
		out.tallies[name] = tally{t.admitted, maps.Clone(t.evicted)}
	}
	return out
}

// gpus is an amount in GPUs.
func gpus(parts int64) float64 { return float64(parts) / quota.Whole }
