package nodeindex

import (
	"sync"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// The results of an attempt, as berth_scheduler_attempts_total and the path of
// berth_scheduler_decision_seconds have them.
const (
	ResultNarrow        = "narrow"        // the index named the node
	ResultHeld          = "held"          // the node was held for the pod: a gang's plan, or room that was made
	ResultWide          = "wide"          // left to Filter and Score on every node
	ResultUnschedulable = "unschedulable" // no node fits
	ResultWaiting       = "waiting"       // answered from what is known: others of its shape wait before it
	resultError         = "error"
)

// DecisionBuckets are bounds in seconds: a decision takes 20 us, one that has to
// score a new shape on 5,000 nodes some milliseconds.
var DecisionBuckets = []float64{5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 5e-2, 0.25, 1}

var (
	decisionSeconds = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Name:           "berth_scheduler_decision_seconds",
		Help:           "Time in which BerthDevices itself answered for one pod with GPUs, from the start of PreFilter until it named a node, found none, or left the choice to Filter and Score.",
		Buckets:        DecisionBuckets,
		StabilityLevel: metrics.ALPHA,
	}, []string{"path"})
	attemptsTotal = metrics.NewCounterVec(&metrics.CounterOpts{
		Name:           "berth_scheduler_attempts_total",
		Help:           "Scheduling attempts of pods with GPUs, by how BerthDevices answered, and why where no node fits.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"result", "reason"})
)

// attempt is a pair of labels of attemptsTotal.
type attempt struct{ result, reason string }

// instruments are the metrics of one result, looked up once: to find them by
// their labels costs more than to count.
type instruments struct {
	count   metrics.CounterMetric
	seconds metrics.ObserverMetric
}

// known has the instruments of each attempt seen. Reasons are constants of this
// package and of core, so that there are few.
var known sync.Map // attempt to *instruments

// Decided counts one attempt of a pod with GPUs that began at began: result is
// one of the constants above; reason says why no node fits, as a short CamelCase
// constant such as placement.NotEnoughGPUs, and is "" otherwise. It takes less
// than a microsecond and may be called from everywhere.
func Decided(result, reason string, began time.Time) {
	took := time.Since(began).Seconds()
	a := attempt{result, reason}
	v, ok := known.Load(a)
	if !ok {
		v, _ = known.LoadOrStore(a, &instruments{attemptsTotal.WithLabelValues(result, reason), decisionSeconds.WithLabelValues(result)})
	}
	i := v.(*instruments)
	i.count.Inc()
	i.seconds.Observe(took)
}

var registerOnce sync.Once

// Register shows the metrics of a scheduler on the /metrics of its process: that
// of the API server in `berth up`, and its own in `berth scheduler`. With several
// schedulers in one process the first is shown.
func Register(d *Cluster) {
	registerOnce.Do(func() {
		legacyregistry.MustRegister(decisionSeconds, attemptsTotal)
		legacyregistry.CustomMustRegister(&gauges{state: d})
	})
}
