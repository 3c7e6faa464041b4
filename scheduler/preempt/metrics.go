package preempt

import (
	"sync"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"berth.dev/berth/scheduler/nodeindex"
)

// The results of a search for room, as berth_scheduler_preemptions_total has them.
const (
	preemptionMade    = "made"    // pods are evicted, or leave, or holds were given up, and the room is held
	preemptionRefused = "refused" // nobody may go, or it would not help
	preemptionKnown   = "known"   // refused before, and nothing has changed since
	preemptionError   = "error"
)

var (
	preemptionsTotal = metrics.NewCounterVec(&metrics.CounterOpts{
		Name:           "berth_scheduler_preemptions_total",
		Help:           "Searches for room for pods with GPUs that fit nowhere, or for gangs, by what came of them.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"result"})
	victimsTotal = metrics.NewCounter(&metrics.CounterOpts{
		Name:           "berth_scheduler_preemption_victims_total",
		Help:           "Pods chosen to be evicted for pods with GPUs.",
		StabilityLevel: metrics.ALPHA,
	})
	preemptionSeconds = metrics.NewHistogram(&metrics.HistogramOpts{
		Name:           "berth_scheduler_preemption_seconds",
		Help:           "Time of a search for room, from the refusal of a pod until the room is held or there is none.",
		Buckets:        nodeindex.DecisionBuckets,
		StabilityLevel: metrics.ALPHA,
	})
)

// searched counts a search that began at began.
func searched(out *outcome, err error, began time.Time) {
	result := preemptionRefused
	switch {
	case err != nil:
		result = preemptionError
	case out.room != nil:
		result = preemptionMade
		victimsTotal.Add(float64(len(out.evicted)))
	case out.known:
		result = preemptionKnown
	}
	preemptionsTotal.WithLabelValues(result).Inc()
	preemptionSeconds.Observe(time.Since(began).Seconds())
}

var registerPreemptionsOnce sync.Once

// RegisterPreemptions shows these metrics on the /metrics of the process.
func RegisterPreemptions() {
	registerPreemptionsOnce.Do(func() { legacyregistry.MustRegister(preemptionsTotal, victimsTotal, preemptionSeconds) })
}
