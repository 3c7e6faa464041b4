package activator

import (
	"github.com/prometheus/client_golang/prometheus"

	"berth.dev/berth/activator/gate"
	"berth.dev/berth/activator/proxy"
)

// times are the histograms of services. Each service has one series of each, which goes
// with it.
type times struct{ held, answered *prometheus.HistogramVec }

func newTimes() *times {
	return &times{
		held: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "berth_serving_held_seconds", Help: "How long requests that no replica could take at once were held before one took them.",
			Buckets: []float64{0.1, 0.5, 1, 2, 5, 10, 30, 60, 120},
		}, []string{"namespace", "name"}),
		answered: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "berth_serving_answer_seconds", Help: "How long replicas took for requests that came by the activator, to the end of the answer.",
			Buckets: []float64{0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10, 30, 60},
		}, []string{"namespace", "name"}),
	}
}

// of returns the series of a service.
func (t *times) of(k key) proxy.Times {
	return proxy.Times{Held: t.held.WithLabelValues(k.namespace, k.name).Observe, Answered: t.answered.WithLabelValues(k.namespace, k.name).Observe}
}

// forget drops the series of a service.
func (t *times) forget(k key) {
	t.held.DeleteLabelValues(k.namespace, k.name)
	t.answered.DeleteLabelValues(k.namespace, k.name)
}

var (
	descRequests = prometheus.NewDesc("berth_serving_requests", "Requests at this moment: held, and in flight at replicas.", []string{"namespace", "name", "state"}, nil)
	descArrived  = prometheus.NewDesc("berth_serving_requests_total", "Requests that arrived, except for those refused at once.", []string{"namespace", "name"}, nil)
	descRefused  = prometheus.NewDesc("berth_serving_refused_total", "Requests that were refused: too many, held for too long, or the service was deleted.", []string{"namespace", "name"}, nil)
)

// Describe implements prometheus.Collector.
func (s *Set) Describe(to chan<- *prometheus.Desc) {
	to <- descRequests
	to <- descArrived
	to <- descRefused
	s.times.held.Describe(to)
	s.times.answered.Describe(to)
}

// Collect implements prometheus.Collector.
func (s *Set) Collect(to chan<- prometheus.Metric) {
	type service struct{ namespace, name string }
	sums := map[service]gate.Stats{}
	s.mu.Lock()
	for k, e := range s.gates {
		of := service{k.namespace, k.name}
		sums[of] = with(sums[of], k, e)
	}
	s.mu.Unlock()
	for of, sum := range sums {
		add := func(d *prometheus.Desc, kind prometheus.ValueType, value int, more ...string) {
			to <- prometheus.MustNewConstMetric(d, kind, float64(value), append([]string{of.namespace, of.name}, more...)...)
		}
		add(descRequests, prometheus.GaugeValue, sum.Held, "held")
		add(descRequests, prometheus.GaugeValue, sum.InFlight, "in_flight")
		add(descArrived, prometheus.CounterValue, sum.Arrived)
		add(descRefused, prometheus.CounterValue, sum.Refused)
	}
	s.times.held.Collect(to)
	s.times.answered.Collect(to)
}
