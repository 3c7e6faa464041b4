package proxy

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// How connections to backends are made and kept.
const (
	dialTime  = 2 * time.Second // a pod that has gone answers nothing at all
	idleTime  = 90 * time.Second
	idleConns = 256 // to one backend
)

// Dial connects to a backend.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Transports are the connections to all backends.
type Transports struct{ http1, http2 *http.Transport }

// NewTransports makes Transports. A nil dial is TCP's.
func NewTransports(dial Dial) *Transports {
	if dial == nil {
		dial = (&net.Dialer{KeepAlive: 15 * time.Second}).DialContext
	}
	connect := func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, dialTime)
		defer cancel()
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, &refusedError{err}
		}
		return c, nil
	}
	with := func(set func(*http.Protocols, bool)) *http.Transport {
		p := new(http.Protocols)
		set(p, true)
		return &http.Transport{
			DialContext: connect, Protocols: p, DisableCompression: true,
			MaxIdleConns: 16 * idleConns, MaxIdleConnsPerHost: idleConns, IdleConnTimeout: idleTime,
		}
	}
	return &Transports{http1: with((*http.Protocols).SetHTTP1), http2: with((*http.Protocols).SetUnencryptedHTTP2)}
}

// Close closes the connections that are idle.
func (t *Transports) Close() {
	t.http1.CloseIdleConnections()
	t.http2.CloseIdleConnections()
}

// refusedError is that of a request for which no connection was made.
type refusedError struct{ err error }

func (e *refusedError) Error() string { return e.err.Error() }
func (e *refusedError) Unwrap() error { return e.err }

// body is the body of a request, which stays readable when a transport that could not
// connect closes it.
type body struct {
	io.ReadCloser
	begun atomic.Bool // something was read
}

// Read reads from the client.
func (b *body) Read(p []byte) (int, error) {
	if !b.begun.Load() {
		b.begun.Store(true)
	}
	return b.ReadCloser.Read(p)
}

// Close leaves the body to the server, which closes it when the request has ended.
func (b *body) Close() error { return nil }

// buffers lends what bodies are copied through.
var buffers = &pool{sync.Pool{New: func() any { return new([32 << 10]byte) }}} //nolint:gochecknoglobals // all services of a process share what is free

type pool struct{ pool sync.Pool }

// Get returns a buffer of 32 KiB.
func (p *pool) Get() []byte { return p.pool.Get().(*[32 << 10]byte)[:] }

// Put takes one back.
func (p *pool) Put(b []byte) { p.pool.Put((*[32 << 10]byte)(b)) }
