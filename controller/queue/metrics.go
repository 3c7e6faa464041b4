package queue

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/quota"
)

// evictedTotal has the scheduler's name and labels, with other reasons: it evicts for other causes.
var evictedTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "berth_queue_evictions_total", Help: "Pods of a queue, and of those below it, that the controllers have evicted or whose notebook they have stopped, by reason.",
}, []string{"queue", "reason"})

// register makes the metrics known to the registry that the process serves, once.
var register = sync.OnceFunc(func() { metrics.Registry.MustRegister(evictedTotal) })

// countEvicted counts the pods of a workload that a rule has ended, in their queue and those above it.
func (c *controller) countEvicted(e *quota.Ending, reason string) {
	t := c.tally
	for _, uid := range e.Pods {
		if of := t.pods[uid]; of != nil {
			for _, name := range t.book.Tree().Path(of.queue) {
				evictedTotal.WithLabelValues(name, reason).Inc()
				c.counted[name] = true
			}
		}
	}
}

// forget drops the series of queues that do not exist.
func (c *controller) forget(next map[string]*v1alpha1.QueueStatus) {
	for name := range c.counted {
		if next[name] == nil {
			evictedTotal.DeletePartialMatch(prometheus.Labels{"queue": name})
			delete(c.counted, name)
		}
	}
}
