package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"berth.dev/berth/activator/gate"
)

// ahead is how many bytes of its body are read from a client while its request is held,
// which is how its going away is noticed. A client with a longer body that goes away
// keeps its place until its time is over.
const ahead = 4 << 10

// hold is a request of which the gate has not decided, or just has.
type hold struct {
	mu   sync.Mutex
	conn net.Conn      // whose reading ends with the decision; nil for none
	done chan struct{} // closed with the decision
	err  error         // it, or nil
}

// decide is called by the gate.
func (h *hold) decide(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err = err
	close(h.done)
	if h.conn != nil {
		_ = h.conn.SetReadDeadline(longAgo())
	}
}

// decided reports whether the decision is there. From then on decide leaves the
// connection alone.
func (h *hold) decided() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.done:
		return true
	default:
		return false
	}
}

// parked is a held request of HTTP/1. Its connection is taken from the HTTP server,
// whose goroutine and buffers would take four times the memory, and handed back with
// the head of the request in front once the request is decided on.
type parked struct {
	hold
	service *Service
	server  *Server
	ticket  *gate.Ticket
	arrived time.Time
	before  []byte // what the server has read of the connection, the head written again
}

func newParked(s *Service) *parked {
	return &parked{service: s, arrived: time.Now(), hold: hold{done: make(chan struct{})}}
}

// park takes the connection of a held request. It reports false if that is not possible.
func (p *parked) park(w http.ResponseWriter, r *http.Request, at *route) bool {
	if at == nil || !at.server.mayPark() {
		return false
	}
	p.server = at.server
	c, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		p.server.parked.Done()
		return false
	}
	var b bytes.Buffer
	writeHead(&b, r)
	read, _ := rw.Reader.Peek(rw.Reader.Buffered())
	b.Write(read)
	if inner, ok := c.(*conn); ok { // parked before, or handed over by a caller
		b.Write(inner.before)
		c = inner.Conn
	}
	p.before = bytes.Clone(b.Bytes())
	p.mu.Lock() // decide may be called already
	p.conn = c
	p.mu.Unlock()
	go p.wait()
	return true
}

// writeHead writes the head of a request as its client may have written it.
func writeHead(b *bytes.Buffer, r *http.Request) {
	fmt.Fprintf(b, "%s %s %s\r\nHost: %s\r\n", r.Method, r.RequestURI, r.Proto, r.Host)
	_ = r.Header.Write(b) // to memory
	if len(r.TransferEncoding) > 0 {
		b.WriteString("Transfer-Encoding: " + r.TransferEncoding[0] + "\r\n")
	}
	for name := range r.Trailer {
		b.WriteString("Trailer: " + name + "\r\n")
	}
	b.WriteString("\r\n")
}

// wait reads a little ahead until the request is decided on, and hands the connection
// back; or ends the request if the client goes away first.
func (p *parked) wait() {
	if p.watch() {
		_ = p.conn.SetReadDeadline(time.Time{})
		p.server.handed.hand(&conn{Conn: p.conn, handler: p.service, before: p.before, parked: p})
		return
	}
	p.leave()
	p.conn.Close()
	p.server.parked.Done()
}

// watch returns true when the request is decided on, and false when its client went away
// before that. A client that closed its side alone has gone, as for Go's HTTP server.
func (p *parked) watch() bool {
	left := ahead
	var buf [64]byte
	for !p.decided() {
		if left <= 0 {
			<-p.done
			continue
		}
		n, err := p.conn.Read(buf[:])
		p.before = append(p.before, buf[:n]...)
		left -= n
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return false
		}
	}
	return true
}

// await holds a request in its goroutine, as those of HTTP/2 are.
func (p *parked) await(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		p.leave()
		return &gate.Refusal{Reason: gate.WentAway, Text: "the client went away"}
	}
}

// leave ends the request of a client that went away.
func (p *parked) leave() {
	if p.service.Abandon(p.ticket) {
		return
	}
	if <-p.done; p.err == nil { // decided at the same moment
		p.service.Leave(p.ticket)
	}
}
