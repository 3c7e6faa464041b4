package idle

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	rules "berth.dev/berth/core/idle"
)

// The metrics of the loop. The two without Berth's prefix are Kubeflow's, with
// its labels: a series for each notebook that was stopped.
var (
	culledTotal = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "berth_notebook_culled_total", Help: "Number of notebooks stopped because they were idle.",
	})
	sessionsEnded = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "berth_notebook_sessions_ended_total", Help: "Number of notebooks stopped because their session had lasted as long as it may.",
	})
	gaveWayTotal = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "berth_notebook_gave_way_total", Help: "Number of idle notebooks stopped for workloads that waited for quota.",
	})
	jobsSuspended = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "berth_training_suspended_idle_total", Help: "Number of training jobs suspended because their GPUs were idle.",
	})
	probesTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "berth_notebook_probes_total", Help: "Number of activity checks of notebooks, by target and result.",
	}, []string{"target", "result"})
	runningNotebooks = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "berth_notebooks_running", Help: "Number of notebooks whose pod is ready.",
	})
	kubeflowCulled = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "notebook_culling_total", Help: "Number of notebooks stopped because they were idle, as in Kubeflow's notebook-controller.",
	}, []string{"namespace", "name"})
	kubeflowCulledAt = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "last_notebook_culling_timestamp_seconds", Help: "Time when a notebook was last stopped because it was idle, as in Kubeflow's notebook-controller.",
	}, []string{"namespace", "name"})
)

// register makes the metrics known to the registry that the process serves, once.
var register = sync.OnceFunc(func() {
	metrics.Registry.MustRegister(culledTotal, sessionsEnded, gaveWayTotal, jobsSuspended, probesTotal, runningNotebooks, kubeflowCulled, kubeflowCulledAt)
})

// countProbes counts what was asked at one look.
func countProbes(r rules.Readings) {
	for target, result := range map[string]rules.Result{"server": r.Server.Result, "gpus": r.GPUs.Result} {
		if result != "" {
			probesTotal.WithLabelValues(target, string(result)).Inc()
		}
	}
}
