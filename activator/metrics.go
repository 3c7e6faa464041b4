package activator

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"berth.dev/berth/activator/proxy"
)

// times are the histograms of services. Each service has at most one series of each, which
// goes with it.
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

// series are those of a service. Each is made when it has something to show: most services of a large cluster are at rest.
type series struct {
	of   *times
	key  key
	mu   sync.Mutex
	held prometheus.Observer // nil until a request was held
	sent prometheus.Observer // nil until a replica took one
	gone bool                // the service is
}

// observe adds to a series of the service, unless it is gone.
func (s *series) observe(which *prometheus.Observer, of *prometheus.HistogramVec, seconds float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return
	}
	if *which == nil {
		*which = of.WithLabelValues(s.key.namespace, s.key.name)
	}
	(*which).Observe(seconds)
}

// times returns what is called with how long requests for the service take.
func (s *series) times() proxy.Times {
	return proxy.Times{
		Held:     func(seconds float64) { s.observe(&s.held, s.of.held, seconds) },
		Answered: func(seconds float64) { s.observe(&s.sent, s.of.answered, seconds) },
	}
}

// forget drops the series.
func (s *series) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
	s.of.held.DeleteLabelValues(s.key.namespace, s.key.name)
	s.of.answered.DeleteLabelValues(s.key.namespace, s.key.name)
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
	for of, sum := range s.sums() {
		add := func(d *prometheus.Desc, kind prometheus.ValueType, value int, more ...string) {
			to <- prometheus.MustNewConstMetric(d, kind, float64(value), append([]string{of.Namespace, of.Name}, more...)...)
		}
		add(descRequests, prometheus.GaugeValue, sum.Held, "held")
		add(descRequests, prometheus.GaugeValue, sum.InFlight, "in_flight")
		add(descArrived, prometheus.CounterValue, sum.Arrived)
		add(descRefused, prometheus.CounterValue, sum.Refused)
	}
	s.times.held.Collect(to)
	s.times.answered.Collect(to)
}
