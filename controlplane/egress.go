package controlplane

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"berth.dev/berth/fleet/balancer"
)

// egress is where every connection of the API server to a node, pod, Service,
// webhook or aggregated API arrives: an HTTP CONNECT proxy on a unix socket.
// What is simulated is answered inside the process; addresses of real nodes are
// let through; nothing else leaves.
type egress struct {
	listener net.Listener
	network  network
	log      *slog.Logger
	conns    sync.WaitGroup
	mu       sync.Mutex
	open     map[net.Conn]struct{} // closed when the egress ends
}

// network decides where a connection goes.
type network interface {
	// Route returns what serves address (host:port) inside the process, or nil
	// and whether it may be dialed for real. The error says why it may not.
	Route(ctx context.Context, address string) (serve func(net.Conn), dial bool, err error)
}

// listenEgress opens the socket. It must be open before the API server starts.
// A socket that a killed process left there is removed: the caller holds the
// folder.
func listenEgress(sock string, n network, log *slog.Logger) (*egress, error) {
	if err := os.Remove(sock); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listen for the simulated network: %w", err)
	}
	l, err := net.Listen("unix", sock)
	if err != nil {
		return nil, fmt.Errorf("listen for the simulated network: %w", err)
	}
	if err := os.Chmod(sock, socketMode); err != nil {
		return nil, errors.Join(fmt.Errorf("listen for the simulated network: %w", err), l.Close())
	}
	e := &egress{listener: l, network: n, log: log, open: map[net.Conn]struct{}{}}
	e.conns.Go(e.accept)
	return e, nil
}

// Close ends the listener and all connections, and waits for them.
func (e *egress) Close() {
	e.listener.Close()
	e.mu.Lock()
	for c := range e.open {
		c.Close()
	}
	e.open = nil
	e.mu.Unlock()
	e.conns.Wait()
}

func (e *egress) accept() {
	for {
		c, err := e.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			e.log.Error("accept on the simulated network", "err", err)
			time.Sleep(100 * time.Millisecond) // out of file descriptors: wait for some to close
			continue
		}
		if !e.track(c) {
			return
		}
		e.conns.Go(func() {
			defer e.untrack(c)
			e.handle(c)
		})
	}
}

func (e *egress) track(c net.Conn) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.open == nil {
		c.Close()
		return false
	}
	e.open[c] = struct{}{}
	return true
}

func (e *egress) untrack(c net.Conn) {
	c.Close()
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.open, c)
}

// handle reads one CONNECT request and serves or forwards what follows.
func (e *egress) handle(c net.Conn) {
	c.SetDeadline(time.Now().Add(30 * time.Second))
	req, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil || req.Method != http.MethodConnect {
		fmt.Fprint(c, "HTTP/1.1 405 only CONNECT is supported here\r\n\r\n")
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	serve, dial, err := e.network.Route(ctx, req.Host)
	var out net.Conn
	if err == nil && dial {
		out, err = new(net.Dialer).DialContext(ctx, "tcp", req.Host)
	}
	if err != nil {
		e.log.Warn("no route on the simulated network", "to", req.Host, "err", err)
		fmt.Fprintf(c, "HTTP/1.1 502 %s\r\n\r\n", err)
		return
	}
	fmt.Fprint(c, "HTTP/1.1 200 OK\r\n\r\n")
	c.SetDeadline(time.Time{})
	if out != nil {
		balancer.Join(c, out)
		return
	}
	serve(c)
}

// serveHTTP serves one connection with h and returns when it has ended. cfg,
// if not nil, asks for TLS first.
func serveHTTP(c net.Conn, cfg *tls.Config, h http.Handler) {
	if cfg != nil {
		c = tls.Server(c, cfg)
	}
	l := &oneConn{conn: c, closed: make(chan struct{})}
	s := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: time.Minute,
		ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateClosed || s == http.StateHijacked {
				_ = l.Close()
			}
		},
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	handlers := &waiting{Handler: h}
	s.Handler = handlers
	_ = s.Serve(l) // returns when the connection has closed or was taken over
	handlers.Wait()
}

// waiting lets serveHTTP outlive a handler that took the connection over
// (SPDY, WebSocket): the connection ends when its handler does.
type waiting struct {
	http.Handler
	sync.WaitGroup
}

// ServeHTTP calls the handler and notes that it runs.
func (h *waiting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.Add(1)
	defer h.Done()
	h.Handler.ServeHTTP(w, r)
}

// oneConn is a listener that gives one connection and then waits for its end.
type oneConn struct {
	conn   net.Conn
	once   sync.Once
	given  bool
	closed chan struct{}
}

// Accept returns the connection once; the second call waits for Close.
func (l *oneConn) Accept() (net.Conn, error) {
	if !l.given {
		l.given = true
		return l.conn, nil
	}
	<-l.closed
	return nil, net.ErrClosed
}

// Close lets the second Accept return.
func (l *oneConn) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr is the connection's own.
func (l *oneConn) Addr() net.Addr { return l.conn.LocalAddr() }
