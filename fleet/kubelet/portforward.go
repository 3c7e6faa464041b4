package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

// headerTimeout is how long a forwarded connection may take over the head of a
// request.
const headerTimeout = 30 * time.Second

// servePortForward is /portForward/{namespace}/{pod}.
func (s *Server) servePortForward(w http.ResponseWriter, r *http.Request, node string) {
	o := &portforward.V4Options{}
	if wsstream.IsWebSocketRequest(r) {
		var err error
		if o, err = portforward.NewV4Options(r); err != nil {
			refuse(w, http.StatusBadRequest, "%v", err)
			return
		}
	}
	ns, pod := r.PathValue("namespace"), r.PathValue("pod")
	cs := s.rt.Containers(node, ns, pod)
	switch uid := r.PathValue("uid"); {
	case len(cs) == 0:
		refuse(w, http.StatusNotFound, "pod does not exist")
		return
	case uid != "" && uid != cs[0].UID:
		refuse(w, http.StatusNotFound, "pod not found")
		return
	case len(running(cs)) == 0:
		refuse(w, http.StatusInternalServerError, "pod not found (%q)", pod+"_"+ns)
		return
	}
	portforward.ServePortForward(w, r, forwarder{s, node, ns}, pod, cs[0].UID, o, idleTimeout,
		30*time.Second, portforward.SupportedProtocols)
}

// forwarder connects streams to ports of the pods in one namespace of a node.
type forwarder struct {
	s               *Server
	node, namespace string
}

// PortForward serves one connection until either side closes it.
func (f forwarder) PortForward(ctx context.Context, pod, _ string, port int32, stream io.ReadWriteCloser) error {
	if address, ok := f.s.HostAddr(f.node, f.namespace, pod, int(port)); ok {
		return dialInto(ctx, address, stream)
	}
	h := f.s.PodHandler(f.node, f.namespace, pod, int(port))
	if h == nil {
		return fmt.Errorf("dial tcp4 127.0.0.1:%d: connect: connection refused: %s", port, f.declared(pod))
	}
	if f.s.Around != nil {
		h = f.s.Around(f.namespace, pod, h)
	}
	return serveStream(ctx, h, stream)
}

// declared says which ports the pod has, for who asked for another.
func (f forwarder) declared(pod string) string {
	var ports []string
	for _, c := range f.s.rt.Containers(f.node, f.namespace, pod) {
		if c.Hosted {
			return "the host process of container " + c.Name + " serves the container's first declared port, once it runs"
		}
		for _, p := range c.Ports {
			ports = append(ports, strconv.Itoa(p))
		}
	}
	if len(ports) == 0 {
		return "no container of this pod declares a port, and a simulated container listens only at the ports it declares"
	}
	return "a simulated container listens only at the ports it declares: " + strings.Join(slices.Compact(ports), ", ")
}

// serveStream answers HTTP on one stream. It returns once the server has
// closed the connection, what it wrote is on its way, and the client has closed
// its side.
func serveStream(ctx context.Context, h http.Handler, stream io.ReadWriteCloser) error {
	requests, in := net.Pipe()
	answers, out := net.Pipe()
	l := newOneConn(duplex{Conn: requests, out: answers})
	srv := &http.Server{Handler: h, ReadHeaderTimeout: headerTimeout, BaseContext: func(net.Listener) context.Context { return ctx }}
	var wg sync.WaitGroup
	wg.Go(func() { _ = srv.Serve(l) }) // until the connection is closed
	wg.Go(func() {
		_, _ = io.Copy(in, stream) // until the client has said all, or has gone
		in.Close()                 // the server answers what it has read, and then closes
	})
	_, err := io.Copy(stream, out)
	out.Close()
	_ = errors.Join(stream.Close(), srv.Close()) // both have ended
	wg.Wait()
	return err
}

// duplex is a connection whose two directions end on their own, as those of
// TCP do: a client that has said all may still read the answer.
type duplex struct {
	net.Conn // what is read
	out      net.Conn
}

// Write writes to the other direction.
func (d duplex) Write(b []byte) (int, error) { return d.out.Write(b) }

// Close closes both directions.
func (d duplex) Close() error { return errors.Join(d.Conn.Close(), d.out.Close()) }

// SetDeadline sets both deadlines.
func (d duplex) SetDeadline(t time.Time) error {
	return errors.Join(d.Conn.SetReadDeadline(t), d.out.SetWriteDeadline(t))
}

// SetWriteDeadline sets the deadline of writes.
func (d duplex) SetWriteDeadline(t time.Time) error { return d.out.SetWriteDeadline(t) }

// oneConn is a listener that hands out one connection and then waits.
type oneConn struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
	addr  net.Addr
}

func newOneConn(c net.Conn) *oneConn {
	l := &oneConn{conns: make(chan net.Conn, 1), done: make(chan struct{}), addr: c.LocalAddr()}
	l.conns <- c
	return l
}

// Accept returns the connection the first time, and net.ErrClosed after Close.
func (l *oneConn) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close ends Accept; the connection handed out stays open.
func (l *oneConn) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Addr is the address of the connection.
func (l *oneConn) Addr() net.Addr { return l.addr }
