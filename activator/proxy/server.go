package proxy

import (
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"sync"
	"time"
)

// What a Server takes of a client.
const (
	headTime = 10 * time.Second // from the first byte of a request's head to its last
	headSize = 256 << 10        // bytes of a head
	lastTime = time.Second      // for what is left when Drain gives up
)

// Server serves any number of services, each on separate listeners or connections.
type Server struct {
	http      http.Server
	handed    *handed
	listeners sync.WaitGroup
	parked    sync.WaitGroup // requests, from when they are parked until they have ended

	mu       sync.Mutex
	open     map[net.Listener]bool
	draining bool
}

// NewServer makes a Server, which serves what Serve and ServeConn are given until Drain.
func NewServer(logs *log.Logger) *Server {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	s := &Server{handed: newHanded(), open: map[net.Listener]bool{}}
	s.http = http.Server{
		Protocols: p, ReadHeaderTimeout: headTime, IdleTimeout: 2 * idleTime, MaxHeaderBytes: headSize, ErrorLog: logs,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Context().Value(routeKey{}).(*route).handler.ServeHTTP(w, r)
		}),
		BaseContext: func(l net.Listener) context.Context {
			if l, ok := l.(*listener); ok {
				return context.WithValue(context.Background(), routeKey{}, &route{server: s, handler: l.handler})
			}
			return context.Background()
		},
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if c, ok := c.(*conn); ok {
				return context.WithValue(ctx, routeKey{}, &route{server: s, handler: c.handler, conn: c})
			}
			return ctx
		},
	}
	s.serve(s.handed)
	return s
}

// routeKey is that of a *route in the context of a request.
type routeKey struct{}

// route is what answers a request, and by which way it came.
type route struct {
	server  *Server
	handler http.Handler
	conn    *conn // nil if it came by a listener
}

// claim returns the request that was held and comes first on the connection, the first
// time; else nil.
func (at *route) claim() *parked {
	if at == nil || at.conn == nil {
		return nil
	}
	return at.conn.claim()
}

// listener carries what answers the requests that come by it.
type listener struct {
	net.Listener
	handler http.Handler
}

// Close closes the listener, or returns nil if it is closed already: its maker may close
// it, Drain does, and then http.Server does it again.
func (l *listener) Close() error {
	if err := l.Listener.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// Serve answers what comes to a listener by a handler, until the listener is closed or
// the server ends. It returns at once.
func (s *Server) Serve(l net.Listener, h http.Handler) {
	s.mu.Lock()
	s.open[l] = true
	s.mu.Unlock()
	s.serve(&listener{l, h})
}

// ServeConn answers what comes by a connection by a handler. It returns at once, and the
// connection is the server's.
func (s *Server) ServeConn(c net.Conn, h http.Handler) { s.handed.hand(&conn{Conn: c, handler: h}) }

func (s *Server) serve(l net.Listener) {
	s.listeners.Go(func() {
		if err := s.http.Serve(l); err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, http.ErrServerClosed) {
			s.http.ErrorLog.Printf("serve %s: %v", l.Addr(), err)
		}
		if l, ok := l.(*listener); ok {
			s.mu.Lock()
			delete(s.open, l.Listener)
			s.mu.Unlock()
		}
	})
}

// mayPark reports whether a request may be parked, and counts it.
func (s *Server) mayPark() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.draining {
		s.parked.Add(1)
	}
	return !s.draining
}

// Drain stops listening, and returns when all requests have ended, held ones too. When
// ctx ends, refuse is called, which has to refuse those that are held; those that are
// left a second later are cut off.
func (s *Server) Drain(ctx context.Context, refuse func()) error {
	s.mu.Lock()
	s.draining = true
	for l := range s.open {
		l.Close()
	}
	s.mu.Unlock()
	s.http.SetKeepAlivesEnabled(false)
	defer context.AfterFunc(ctx, refuse)()
	last, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastTime, cancel) })()
	none := make(chan struct{})
	go func() {
		s.parked.Wait()
		close(none)
	}()
	select { // what was parked is known to the server only when it has begun to serve it
	case <-none:
	case <-last.Done():
	}
	err := errors.Join(s.http.Shutdown(last), s.http.Close())
	s.listeners.Wait()
	return err
}
