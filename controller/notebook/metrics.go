package notebook

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/controller/runtime"
)

// The counters of Kubeflow's notebook-controller, with its names and labels.
var (
	created = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "notebook_create_total", Help: "Number of attempts to create the StatefulSet of a notebook, as in Kubeflow's notebook-controller.",
	}, []string{"namespace"})
	createFailed = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "notebook_create_failed_total", Help: "Number of failed attempts to create the StatefulSet of a notebook.",
	}, []string{"namespace"})
)

// running is Kubeflow's gauge of the notebooks that run, by namespace. They are counted
// at each scrape, in the cache of the process that leads: if all replicas counted, a
// sum over them would count each notebook several times.
type running struct {
	leads atomic.Pointer[Reconciler] // nil while this process does not
}

// scrapeWithin is how long a scrape may wait for the cache.
const scrapeWithin = 2 * time.Second

var (
	runs        running
	runningDesc = prometheus.NewDesc("notebook_running", "Number of notebooks whose pod is ready, by namespace.", []string{"namespace"}, nil)
)

// register makes the metrics known to the registry that the process serves, once.
var register = sync.OnceFunc(func() {
	metrics.Registry.MustRegister(created, createFailed, &runs)
})

// lead has the notebooks of r counted until ctx ends.
func (m *running) lead(ctx context.Context, r *Reconciler) error {
	m.leads.Store(r)
	<-ctx.Done()
	m.leads.CompareAndSwap(r, nil)
	return nil
}

// Describe implements prometheus.Collector.
func (m *running) Describe(to chan<- *prometheus.Desc) { to <- runningDesc }

// Collect implements prometheus.Collector.
func (m *running) Collect(to chan<- prometheus.Metric) {
	r := m.leads.Load()
	if r == nil || r.o.Mode != nil && r.o.Mode() != runtime.Own {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeWithin)
	defer cancel()
	var list kubeflow.NotebookList
	if err := r.client.List(ctx, &list); err != nil {
		return // the cache has not begun, or has ended
	}
	count := map[string]int{}
	for i := range list.Items {
		nb := &list.Items[i]
		count[nb.Namespace] += int(nb.Status.ReadyReplicas) // 0 where all are stopped
	}
	for namespace, n := range count {
		to <- prometheus.MustNewConstMetric(runningDesc, prometheus.GaugeValue, float64(n), namespace)
	}
}
