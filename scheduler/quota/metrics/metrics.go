// Package metrics shows the metrics of queues: what they may hold and hold, who waits,
// and how many of their pods were bound and evicted.
package metrics

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"berth.dev/berth/core/quota"
	"berth.dev/berth/kube/queues"
)

// Look is what the metrics of queues are made from at one moment, by the name of the queue.
type Look struct {
	Standings map[string][]quota.Standing
	Lines     map[string]quota.Waiters // of all queues
	Tallies   map[string]Tally         // of all queues
}

// collector is the metrics of queues, read when they are asked for.
type collector struct {
	metrics.BaseStableCollector
	look func() Look
	now  func() time.Time
}

// NewCollector returns the metrics of queues. look must copy what it returns: a scrape that is
// slow delays no pod.
func NewCollector(look func() Look, now func() time.Time) metrics.StableCollector {
	return &collector{look: look, now: now}
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

// Register shows the metrics of queues on the /metrics of the process. With several schedulers in one
// process the first is shown.
func Register(look func() Look) {
	registerOnce.Do(func() { legacyregistry.CustomMustRegister(NewCollector(look, time.Now)) })
}

// DescribeWithStability implements metrics.StableCollector.
func (g *collector) DescribeWithStability(ch chan<- *metrics.Desc) {
	for _, d := range []*metrics.Desc{nominalGPUs, usedGPUs, borrowedGPUs, lentGPUs, waiting, oldestWait, admissions, evicted} {
		ch <- d
	}
}

// CollectWithStability implements metrics.StableCollector. There are no series without Queues.
func (g *collector) CollectWithStability(ch chan<- metrics.Metric) {
	send := func(d *metrics.Desc, kind metrics.ValueType, value float64, labels ...string) {
		ch <- metrics.NewLazyConstMetric(d, kind, value, labels...)
	}
	s := g.look()
	for _, name := range slices.Sorted(maps.Keys(s.Lines)) {
		for _, st := range s.Standings[name] {
			of := queues.GPUsOf(st.Resource)
			send(nominalGPUs, metrics.GaugeValue, gpus(st.Nominal), name, of)
			send(usedGPUs, metrics.GaugeValue, gpus(st.Used), name, of)
			send(borrowedGPUs, metrics.GaugeValue, gpus(st.Borrowed), name, of)
			send(lentGPUs, metrics.GaugeValue, gpus(st.Lent), name, of)
		}
		line, wait := s.Lines[name], 0.0
		if !line.Since.IsZero() {
			wait = max(0, g.now().Sub(line.Since).Seconds())
		}
		send(waiting, metrics.GaugeValue, float64(line.Count), name)
		send(oldestWait, metrics.GaugeValue, wait, name)
		t := s.Tallies[name]
		send(admissions, metrics.CounterValue, float64(t.Admitted), name)
		for _, reason := range slices.Sorted(maps.Keys(t.Evicted)) {
			send(evicted, metrics.CounterValue, float64(t.Evicted[reason]), name, reason)
		}
	}
}

// gpus is an amount in GPUs.
func gpus(parts int64) float64 { return float64(parts) / quota.Whole }
