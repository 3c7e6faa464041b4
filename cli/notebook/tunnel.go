package notebook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/streaming/pkg/httpstream"
)

// reasonWait is how long the reason is waited for why a pod takes no connection.
const reasonWait = time.Second

// tunnel makes connections to a port of a pod, each of which is two streams of one
// connection to the API server, as the protocol of port forwarding has it.
type tunnel struct {
	conn httpstream.Connection
	port int
	last atomic.Int64
}

func (t *tunnel) dial(context.Context) (net.Conn, error) {
	h := http.Header{}
	h.Set(v1.PortHeader, strconv.Itoa(t.port))
	h.Set(v1.PortForwardRequestIDHeader, strconv.FormatInt(t.last.Add(1), 10))
	h.Set(v1.StreamType, v1.StreamTypeError)
	errs, err := t.conn.CreateStream(h)
	if err != nil {
		return nil, fmt.Errorf("connect to port %d of the pod: %w", t.port, err)
	}
	_ = errs.Close() // nothing is written to it
	h.Set(v1.StreamType, v1.StreamTypeData)
	data, err := t.conn.CreateStream(h)
	if err != nil {
		t.conn.RemoveStreams(errs)
		return nil, fmt.Errorf("connect to port %d of the pod: %w", t.port, err)
	}
	c := &podConn{Stream: data, tunnel: t, errs: errs, why: make(chan string, 1)}
	go c.listen()
	return c, nil
}

// podConn is one connection to a pod. It has no deadlines, which HTTP's client
// does not set.
type podConn struct {
	httpstream.Stream // of the data

	tunnel *tunnel
	errs   httpstream.Stream
	why    chan string // why the pod ended it; "" is that it says nothing
	read   bool        // something has been read
}

// listen reads why the connection ends.
func (c *podConn) listen() {
	text, _ := io.ReadAll(io.LimitReader(c.errs, 1<<12)) // a stream that breaks says nothing
	c.why <- strings.TrimSpace(string(text))
	c.tunnel.conn.RemoveStreams(c.errs)
}

// Read reads what the pod sends. If it takes no connection, the error says why.
func (c *podConn) Read(b []byte) (int, error) {
	n, err := c.Stream.Read(b)
	if n > 0 || c.read || !errors.Is(err, io.EOF) {
		c.read = c.read || n > 0
		return n, err
	}
	select {
	case why := <-c.why:
		if why != "" {
			return 0, errors.New(why)
		}
	case <-time.After(reasonWait):
	}
	return 0, err
}

// Close ends the connection, also where the pod does not read.
func (c *podConn) Close() error {
	err := c.Stream.Reset()
	c.tunnel.conn.RemoveStreams(c.Stream)
	return err
}

// podAddr is the address of both ends, which is not known.
type podAddr struct{}

func (podAddr) Network() string { return "pod" }
func (podAddr) String() string  { return "pod" }

func (c *podConn) LocalAddr() net.Addr              { return podAddr{} }
func (c *podConn) RemoteAddr() net.Addr             { return podAddr{} }
func (c *podConn) SetDeadline(time.Time) error      { return nil }
func (c *podConn) SetReadDeadline(time.Time) error  { return nil }
func (c *podConn) SetWriteDeadline(time.Time) error { return nil }
