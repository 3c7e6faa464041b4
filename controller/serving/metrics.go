package serving

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	rules "berth.dev/berth/core/serving"
)

// startSeconds is how long replicas took until they answered.
var startSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
	Name: "berth_serving_start_seconds", Help: "Time from when a replica of an InferenceService was created until it was ready, by phase: queue, pull, download, or load.",
	Buckets: []float64{1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200},
}, []string{"phase"})

// register makes the metrics known to the registry that the process serves, once.
var register = sync.OnceFunc(func() { metrics.Registry.MustRegister(startSeconds) })

// count counts one start.
func count(s rules.Start) {
	for _, p := range rules.Phases() {
		startSeconds.WithLabelValues(string(p)).Observe(s[p].Seconds())
	}
}
