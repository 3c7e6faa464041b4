package proxy

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"sync/atomic"
	"time"

	"berth.dev/berth/activator/gate"
)

// A Service is the http.Handler of one service.
type Service struct {
	*gate.Gate
	name  string
	why   atomic.Pointer[string]
	log   *slog.Logger
	proxy httputil.ReverseProxy // copied for each request, with its Transport
	http1 http.RoundTripper
	http2 http.RoundTripper
	times Times
}

// Times are called with how long requests take, in seconds. Both functions may be nil.
type Times struct {
	Held     func(seconds float64) // of a held request that was let through: since its arrival
	Answered func(seconds float64) // of a request that was let through: from then to the end of its answer
}

// Observe sets what gets to know how long requests take. It is called before the first.
func (s *Service) Observe(t Times) { s.times = t }

// New makes the Service called name, as namespace/name. wake is called when a request
// has to wait: see gate.New.
func New(name string, limits gate.Limits, t *Transports, wake func(), log *slog.Logger) *Service {
	s := &Service{Gate: gate.New(limits, wake), name: name, log: log, http1: t.http1, http2: t.http2}
	s.proxy = httputil.ReverseProxy{Rewrite: rewrite, BufferPool: buffers, ErrorHandler: s.fail, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	return s
}

// SetWhy sets the clause that says why the service has no ready replica, such as "the
// replica waits for a GPU"; "" is none.
func (s *Service) SetWhy(clause string) { s.why.Store(&clause) }

// rewrite leaves a request as the client wrote it: a pod sees the same, whether it is
// asked through this proxy or not.
func rewrite(p *httputil.ProxyRequest) {
	p.Out.URL.Scheme = "http"
	p.Out.URL.RawQuery = p.In.URL.RawQuery
	p.Out.Trailer = p.In.Trailer // which the server fills at the end of the body
	for _, name := range [...]string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if had := p.In.Header[name]; had != nil {
			p.Out.Header[name] = had
		}
	}
}

// ServeHTTP sends a request to a backend, once one has room. A request of HTTP/1 that
// is held is parked: ServeHTTP returns, and is called again when it is decided on.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at, _ := r.Context().Value(routeKey{}).(*route)
	if was := at.claim(); was != nil {
		defer was.server.parked.Done()
		s.through(was)
		s.answer(w, r, was.ticket, was.err)
		return
	}
	ticket, err := s.Try()
	if ticket == nil && err == nil {
		p := newParked(s)
		p.ticket, err = s.Hold(size(r), p.decide)
		if err == nil {
			if r.ProtoMajor == 1 && p.park(w, r, at) {
				return
			}
			if err = p.await(r.Context()); err == nil {
				s.through(p)
			}
		}
		ticket = p.ticket
	}
	s.answer(w, r, ticket, err)
}

// through notes that a held request was let through.
func (s *Service) through(p *parked) {
	if p.err == nil && s.times.Held != nil {
		s.times.Held(time.Since(p.arrived).Seconds())
	}
}

// answer sends a request that was let through to its backend, or refuses it with err.
func (s *Service) answer(w http.ResponseWriter, r *http.Request, ticket *gate.Ticket, err error) {
	if err != nil {
		s.fail(w, r, err)
		return
	}
	v := &visit{service: s, proxy: s.proxy, transport: s.http1, ticket: ticket, began: time.Now()}
	if r.ProtoMajor == 2 {
		v.transport = s.http2
	}
	began := v.began
	defer func() {
		if s.times.Answered != nil {
			s.times.Answered(time.Since(began).Seconds())
		}
		if !v.ended { // also when the proxy panics, to cut off a response that a backend did not end
			s.Ended(ticket, v.failed || !v.answered && r.Context().Err() == nil, time.Since(v.began))
			s.Leave(ticket)
		}
	}()
	v.proxy.Transport = v
	v.proxy.ServeHTTP(w, r)
	v.answered = true
}

// size returns about how many bytes a request takes that is held: its head. Its body
// stays with the client, except for what is read ahead.
func size(r *http.Request) int64 {
	n := int(min(max(r.ContentLength, 0), ahead)) + len(r.Method) + len(r.RequestURI) + len(r.Host)
	for name, values := range r.Header {
		for _, v := range values {
			n += len(name) + len(v) + 4
		}
	}
	return int64(n)
}

// visit is the way of one request to its backend.
type visit struct {
	service   *Service
	proxy     httputil.ReverseProxy
	transport http.RoundTripper
	ticket    *gate.Ticket
	began     time.Time // when it went to the backend that it is at
	ended     bool      // the ticket holds nothing
	answered  bool      // to its end
	failed    bool      // by the backend: an error, or none at all
	body      body
}

// RoundTrip sends the request to the backend of its ticket, and to another while the
// connection is refused. A request of which anything may have been read is not sent
// again.
func (v *visit) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil && r.Body != http.NoBody {
		v.body.ReadCloser = r.Body
		r.Body = &v.body
	}
	for {
		r.URL.Host, v.began = v.ticket.Backend().Address(), time.Now()
		resp, err := v.transport.RoundTrip(r)
		if err == nil {
			v.service.Took(v.ticket)
			v.failed = resp.StatusCode >= http.StatusInternalServerError
			return resp, nil
		}
		var refused *refusedError
		if !errors.As(err, &refused) || v.body.begun.Load() {
			v.failed = r.Context().Err() == nil // else the client has gone
			return nil, err
		}
		v.service.Ended(v.ticket, true, 0)
		v.service.log.Debug("a replica refused a connection", "service", v.service.name, "address", r.URL.Host, "err", err)
		p := newParked(v.service)
		p.ticket = v.ticket
		v.service.Again(v.ticket, p.decide)
		if err := p.await(r.Context()); err != nil {
			v.ended = true
			return nil, err
		}
	}
}

// fail answers a request that no backend has answered.
func (s *Service) fail(w http.ResponseWriter, r *http.Request, err error) {
	if refusal, ok := errors.AsType[*gate.Refusal](err); ok {
		s.refuse(w, r, refusal)
		return
	}
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // the client has gone
	}
	answer(w, r, http.StatusBadGateway, "InferenceService "+s.name+": the replica that had the request did not answer it: "+err.Error())
}

// Counted counts what h answers among the requests of the service: h is a replica that is
// reached by another way than this proxy.
func (s *Service) Counted(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer s.Pass()()
		h.ServeHTTP(w, r)
	})
}
