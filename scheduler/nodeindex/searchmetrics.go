package nodeindex

import (
	"sync"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// The results of a search for room, as berth_scheduler_preemptions_total has them.
const (
	SearchMade    = "made"    // pods are evicted, or leave, or holds were given up, and the room is held
	SearchRefused = "refused" // no pod may go, or it would not help
	SearchKnown   = "known"   // refused before, and nothing has changed since
	SearchError   = "error"
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
		Buckets:        DecisionBuckets,
		StabilityLevel: metrics.ALPHA,
	})
	reservationSeconds = metrics.NewHistogram(&metrics.HistogramOpts{
		Name:           "berth_scheduler_reservation_seconds",
		Help:           "Time of a search for GPUs to reserve for a pod or gang that others overtake.",
		Buckets:        DecisionBuckets,
		StabilityLevel: metrics.ALPHA,
	})
)

// Searched counts a search for room that began at began: result is one of the constants
// above, and victims is how many pods are evicted.
func Searched(result string, victims int, began time.Time) {
	victimsTotal.Add(float64(victims))
	preemptionsTotal.WithLabelValues(result).Inc()
	preemptionSeconds.Observe(time.Since(began).Seconds())
}

// Reserved counts a search for a reservation that began at began.
func Reserved(began time.Time) { reservationSeconds.Observe(time.Since(began).Seconds()) }

var registerPreemptionsOnce sync.Once

// RegisterPreemptions shows these metrics on the /metrics of the process.
func RegisterPreemptions() {
	registerPreemptionsOnce.Do(func() {
		legacyregistry.MustRegister(preemptionsTotal, victimsTotal, preemptionSeconds, reservationSeconds)
	})
}
