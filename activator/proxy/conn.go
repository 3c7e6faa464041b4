package proxy

import (
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// conn is a connection that a Server is handed apart from its listeners: one of a
// caller, or one that was parked while its request was held.
type conn struct {
	net.Conn
	handler http.Handler
	before  []byte      // read first
	parked  *parked     // the request that comes first, if it was held
	claimed atomic.Bool // it has reached its handler
}

// Read reads what comes first, and then from the connection.
func (c *conn) Read(p []byte) (int, error) {
	if len(c.before) > 0 {
		n := copy(p, c.before)
		if c.before = c.before[n:]; len(c.before) == 0 {
			c.before = nil
		}
		return n, nil
	}
	return c.Conn.Read(p)
}

// Close closes the connection, and ends a request that never reached its handler.
func (c *conn) Close() error {
	if p := c.claim(); p != nil {
		if p.err == nil {
			p.service.Leave(p.ticket)
		}
		p.server.parked.Done()
	}
	return c.Conn.Close()
}

// claim returns the request that was held, the first time; else nil. The caller has to
// call its server's parked.Done when it has ended.
func (c *conn) claim() *parked {
	if c.parked == nil || c.claimed.Swap(true) {
		return nil
	}
	return c.parked
}

// CloseWrite closes one direction, if the connection can do that.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// handed is a listener that accepts the connections that it is handed.
type handed struct {
	conns chan *conn
	done  chan struct{}
	once  sync.Once
}

func newHanded() *handed { return &handed{conns: make(chan *conn), done: make(chan struct{})} }

// hand hands over a connection, or closes it if the listener is closed.
func (h *handed) hand(c *conn) {
	select {
	case h.conns <- c:
	case <-h.done:
		_ = c.Close()
	}
}

// Accept returns the next connection.
func (h *handed) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (h *handed) Close() error {
	h.once.Do(func() { close(h.done) })
	return nil
}

// Addr names the listener alone: connections come from within the process.
func (h *handed) Addr() net.Addr { return &net.UnixAddr{Name: "handed", Net: "unix"} }

// longAgo returns a deadline that interrupts a read.
func longAgo() time.Time { return time.Unix(1, 0) }
