package estimates

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"berth.dev/berth/core/forecast"
)

var (
	startError = metrics.NewDesc("berth_start_estimate_error_ratio", "Median error of the estimated waits of the last workloads that have started, as part of the wait, by their number of GPUs.", []string{"gpus"}, nil, metrics.ALPHA, "")
	starts     = metrics.NewDesc("berth_start_estimates_total", "Workloads that have waited and started, by their number of GPUs and how that compares with the estimate at their submission.", []string{"gpus", "result"}, nil, metrics.ALPHA, "")
)

// collector is the metrics of estimates, read when they are asked for.
type collector struct {
	metrics.BaseStableCollector
	of *Estimates
}

var registerOnce sync.Once

// Register shows the metrics of estimates on the /metrics of the process. With several schedulers in one process the first is shown.
func (e *Estimates) Register() {
	registerOnce.Do(func() { legacyregistry.CustomMustRegister(e.collector()) })
}

func (e *Estimates) collector() metrics.StableCollector { return &collector{of: e} }

// DescribeWithStability implements metrics.StableCollector.
func (c *collector) DescribeWithStability(ch chan<- *metrics.Desc) {
	ch <- startError
	ch <- starts
}

// CollectWithStability implements metrics.StableCollector. Nothing is shown before a workload has started that waited.
func (c *collector) CollectWithStability(ch chan<- metrics.Metric) {
	c.of.mu.Lock()
	list, counts := c.of.came.List(), maps.Clone(c.of.counts)
	c.of.mu.Unlock()
	for _, size := range []string{sizeSmall, sizeLarge} {
		m := forecast.MeasureOf(list, func(o *forecast.Outcome) bool { return sizeOf(o) == size })
		if m.Started > 0 {
			ch <- metrics.NewLazyConstMetric(startError, metrics.GaugeValue, m.Error, size)
		}
	}
	for _, r := range slices.SortedFunc(maps.Keys(counts), func(a, b result) int {
		return cmp.Or(cmp.Compare(a.size, b.size), cmp.Compare(a.how, b.how))
	}) {
		ch <- metrics.NewLazyConstMetric(starts, metrics.CounterValue, float64(counts[r]), r.size, r.how)
	}
}
