package activator

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"berth.dev/berth/activator/gate"
	"berth.dev/berth/activator/proxy"
	"berth.dev/berth/core/serving"
)

// Labels of KServe on the Services and pods of an InferenceService.
const (
	LabelService   = "serving.kserve.io/inferenceservice" // its name
	LabelComponent = "component"                          // "predictor", "transformer", or "explainer"
	predictor      = "predictor"
)

// Options is what a Set is made from.
type Options struct {
	Client kubernetes.Interface // with the rights of Rules
	// Address is the IP that EndpointSlices name while no pod is ready.
	Address string
	// Name tells the slices of this replica from those of others.
	Name string
	// Listen opens a port for a service, the one that it had before this process if that is free; 0 is any.
	// Nil opens none: connections are given to Handler, by a number that stands for the port.
	Listen func(had int32) (net.Listener, error)
	// Service is the one before the replicas of the activator, which says which of them are ready: only those
	// have EndpointSlices. Their pods are called as they are. Zero is that this is the only one.
	Service types.NamespacedName
	// Stay has the activator find the pods of Services whose requests all go through it: see api.SelectorActivator.
	Stay bool
	// Counts reports whether requests that reach a pod at an address by another way than this Set are counted, by Counted; nil is that all are.
	Counts func(address string) bool
	// Dial connects to a pod; nil is TCP's.
	Dial   proxy.Dial
	Limits gate.Limits
	Log    *slog.Logger
}

// A Set is all services that the activator knows. Make one with New.
type Set struct {
	o          Options
	server     *proxy.Server
	transports *proxy.Transports
	wakes      chan types.NamespacedName
	times      *times
	follower   atomic.Pointer[follower] // nil until Run has read the cluster
	leaving    atomic.Bool

	mu       sync.Mutex
	began    time.Time
	gates    map[key]*entry
	pods     map[types.NamespacedName]*entry // by pod behind a service
	byPort   map[int32]*entry
	nextPort int32
	closed   bool
}

// key names a port of a component of an InferenceService. Several Services may lead to
// it, as <name> and <name>-predictor do.
type key struct{ namespace, name, component, port string }

// entry is what is known of a key.
type entry struct {
	key
	service  *proxy.Service
	port     int32 // where this process answers for it
	listener net.Listener
	from     map[string]int32 // the Services that lead to it, with the number of the port there
	pods     []types.NamespacedName
	series   *series // nil of a transformer, whose requests come to the predictor, too
	missed   bool    // requests that reach a pod by another way are not counted
}

// firstPort is the first number for what has no listener.
const firstPort = 20000

// New makes a Set that knows no service until Run.
func New(o Options) *Set {
	return &Set{
		o: o, server: proxy.NewServer(slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug)), transports: proxy.NewTransports(o.Dial),
		wakes: make(chan types.NamespacedName, 64), times: newTimes(), began: time.Now(),
		gates: map[key]*entry{}, pods: map[types.NamespacedName]*entry{}, byPort: map[int32]*entry{}, nextPort: firstPort,
	}
}

// Wakes returns the channel of InferenceServices for which a request is held: at once,
// and each second while any is. If the channel is full, it is said again later.
func (s *Set) Wakes() <-chan types.NamespacedName { return s.wakes }

// Stats returns the figures of the predictor of an InferenceService, and whether the
// activator knows it. Requests that are held for its transformer are among those held.
func (s *Set) Stats(namespace, name string) (gate.Stats, bool) {
	s.mu.Lock()
	all := map[key]*entry{}
	for k, e := range s.gates {
		if k.namespace == namespace && k.name == name {
			all[k] = e
		}
	}
	s.mu.Unlock()
	var sum gate.Stats
	known := false
	for k, e := range all {
		sum = with(sum, k, e)
		known = known || k.component == predictor
	}
	return sum, known
}

// sums are the figures of all services.
func (s *Set) sums() map[types.NamespacedName]gate.Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[types.NamespacedName]gate.Stats, len(s.gates))
	for k, e := range s.gates {
		name := types.NamespacedName{Namespace: k.namespace, Name: k.name}
		out[name] = with(out[name], k, e)
	}
	return out
}

// with adds the figures of an entry to those of its service. A request for a transformer comes to the predictor later: until then, it counts
// as one that is held.
func with(sum gate.Stats, k key, e *entry) gate.Stats {
	is := e.service.Stats()
	if k.component == predictor {
		return sum.Plus(is)
	}
	sum.Refused += is.Refused
	if sum.Held += is.Held; is.LastRequest.After(sum.LastRequest) {
		sum.LastRequest = is.LastRequest
	}
	return sum
}

// Traffic returns what is known of the requests for an InferenceService. ok is false if
// the activator does not know it. Where Counted is not asked about each pod, requests
// that reach pods without the activator are missing.
func (s *Set) Traffic(namespace, name string) (t serving.Traffic, ok bool) {
	g, ok := s.Stats(namespace, name)
	return serving.Traffic{
		InFlight: g.InFlight, Held: g.Held, Stable: g.Concurrency, Panic: g.PanicConcurrency, StableRate: g.Rate, PanicRate: g.PanicRate,
		Since: s.began, Last: g.LastRequest, Split: g.Split,
	}, ok
}

// Handler returns what answers at a port of this process's, or nil.
func (s *Set) Handler(port int) http.Handler {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.byPort[int32(port)]; e != nil {
		return e.service
	}
	return nil
}

// ForService returns what holds requests for a port of a Service, by its name or number,
// or nil if the Service is not one of an InferenceService.
func (s *Set) ForService(namespace, service, port string) http.Handler {
	if e := s.find(namespace, service, port); e != nil {
		return e.service
	}
	return nil
}

// Held returns what ForService does if no pod is ready, requests are divided between two revisions, those at one pod are limited, or a pod would
// not count them; and otherwise nil.
func (s *Set) Held(namespace, service, port string) http.Handler {
	e := s.find(namespace, service, port)
	if e == nil || !e.service.Empty() && !e.service.Splits() && !e.service.Bounded() && !s.misses(e) {
		return nil
	}
	return e.service
}

func (s *Set) misses(e *entry) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return e.missed
}

func (s *Set) find(namespace, service, port string) *entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, e := range s.gates {
		if number, ok := e.from[service]; ok && k.namespace == namespace && (k.port == port || strconv.Itoa(int(number)) == port) {
			return e
		}
	}
	return nil
}

// ServeConn answers what comes by a connection by a handler of the Set. It returns at
// once, and the connection is the Set's.
func (s *Set) ServeConn(c net.Conn, h http.Handler) { s.server.ServeConn(c, h) }

// Counted counts what a pod answers among the requests of its service, if it is a pod of
// one: for requests that come by another way than this Set.
func (s *Set) Counted(namespace, pod string, h http.Handler) http.Handler {
	s.mu.Lock()
	e := s.pods[types.NamespacedName{Namespace: namespace, Name: pod}]
	s.mu.Unlock()
	if e == nil {
		return h
	}
	return e.service.Counted(h)
}

// Knows reports whether a pod is a ready one of an InferenceService.
func (s *Set) Knows(namespace, pod string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pods[types.NamespacedName{Namespace: namespace, Name: pod}] != nil
}

// Drain stops listening and holds what is held until it is answered, or until ctx ends:
// the rest is then refused.
func (s *Set) Drain(ctx context.Context) error {
	defer s.transports.Close()
	return s.server.Drain(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.closed = true
		for _, e := range s.gates {
			e.service.Close("the activator, which held the request, is restarted")
		}
	})
}

// ensure returns the entry of a key that a Service leads to, and makes it if need be, at
// the port that it had before, if that is free.
func (s *Set) ensure(k key, service string, number, had int32) (*entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.gates[k]; e != nil {
		e.from[service] = number
		return e, nil
	}
	e := &entry{key: k, from: map[string]int32{service: number}}
	name := types.NamespacedName{Namespace: k.namespace, Name: k.name}
	e.service = proxy.New(name.String(), s.o.Limits, s.transports, func() { s.wake(name) }, s.o.Log)
	if k.component == predictor {
		e.series = &series{of: s.times, key: k}
		e.service.Observe(e.series.times())
	}
	if s.o.Listen == nil {
		for e.port = had; e.port == 0 || s.byPort[e.port] != nil; s.nextPort++ {
			e.port = s.nextPort
		}
	} else {
		l, err := s.o.Listen(had)
		if err != nil {
			return nil, fmt.Errorf("listen for InferenceService %s: %w", name, err)
		}
		e.listener, e.port = l, int32(l.Addr().(*net.TCPAddr).Port)
		s.server.Serve(l, e.service)
	}
	if s.closed {
		e.service.Close("the activator is restarted")
	}
	s.gates[k], s.byPort[e.port] = e, e
	return e, nil
}

// wake says that a request is held.
func (s *Set) wake(name types.NamespacedName) {
	select {
	case s.wakes <- name:
	default:
	}
}

// leave removes the entries that a Service led to, but for those of keep, and refuses
// what is held for those that no Service leads to any longer.
func (s *Set) leave(service types.NamespacedName, keep map[key]bool) {
	s.mu.Lock()
	var gone []*entry
	for k, e := range s.gates {
		if _, leads := e.from[service.Name]; !leads || k.namespace != service.Namespace || keep[k] {
			continue
		}
		delete(e.from, service.Name)
		if len(e.from) == 0 {
			delete(s.gates, k)
			delete(s.byPort, e.port)
			s.forgetPods(e)
			if e.series != nil {
				e.series.forget()
			}
			gone = append(gone, e)
		}
	}
	s.mu.Unlock()
	for _, e := range gone {
		e.service.Close("the service was deleted")
		if e.listener != nil {
			e.listener.Close()
		}
	}
}

// setPods notes which pods are behind an entry.
func (s *Set) setPods(e *entry, stable, canary *endpoints, by split) {
	pods := slices.Concat(stable.pods, canary.pods)
	s.mu.Lock()
	s.forgetPods(e)
	e.pods = pods
	e.missed = s.o.Counts != nil && slices.ContainsFunc(slices.Concat(stable.addresses, canary.addresses), func(a string) bool { return !s.o.Counts(a) })
	for _, p := range pods {
		s.pods[p] = e
	}
	s.mu.Unlock()
	e.service.SetSplit(stable.addresses, canary.addresses, by.revision, by.percent)
}

func (s *Set) forgetPods(e *entry) {
	for _, p := range e.pods {
		if s.pods[p] == e {
			delete(s.pods, p)
		}
	}
	e.pods = nil
}
