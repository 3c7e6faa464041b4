package proxy_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"berth.dev/berth/activator/gate"
	"berth.dev/berth/activator/proxy"
)

// rig is a service behind a proxy, with the server that clients talk to.
type rig struct {
	t       testing.TB
	service *proxy.Service
	server  *proxy.Server
	address string
	woken   chan struct{}
}

func newRig(t testing.TB, limits gate.Limits) *rig {
	t.Helper()
	r := &rig{t: t, woken: make(chan struct{}, 1)}
	transports := proxy.NewTransports(nil)
	t.Cleanup(transports.Close)
	wake := func() { // which must not block
		select {
		case r.woken <- struct{}{}:
		default:
		}
	}
	r.service = proxy.New("shop/iris", limits, transports, wake, slog.New(slog.DiscardHandler))
	r.server = proxy.NewServer(log.New(io.Discard, "", 0))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.address = l.Addr().String()
	r.server.Serve(l, r.service)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = r.server.Drain(ctx, func() { r.service.Close("the test is over") })
	})
	return r
}

// url is the address of a path of the service.
func (r *rig) url(path string) string { return "http://" + r.address + path }

// pod starts a backend of HTTP/1.1 and HTTP/2, and returns its address.
func pod(t testing.TB, h http.Handler) (*httptest.Server, string) {
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Start()
	t.Cleanup(s.Close)
	return s, s.Listener.Addr().String()
}

// client returns a client of HTTP/1.1, or of HTTP/2 without TLS.
func client(t testing.TB, http2 bool) *http.Client {
	tr := &http.Transport{Protocols: new(http.Protocols), MaxIdleConnsPerHost: 1000}
	tr.Protocols.SetHTTP1(!http2)
	tr.Protocols.SetUnencryptedHTTP2(http2)
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: time.Minute}
}

// result is how a request ended.
type result struct {
	status int
	text   string
	header http.Header
	err    error
}

func (r result) String() string { return fmt.Sprintf("%d %q %v", r.status, r.text, r.err) }

func finish(resp *http.Response, err error) result {
	if err != nil {
		return result{err: err}
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return result{resp.StatusCode, string(raw), resp.Header, err}
}

// post sends a body and returns how that ended.
func post(c *http.Client, url, body string) result {
	return finish(c.Post(url, "application/json", strings.NewReader(body)))
}

// start sends a body and returns at once.
func start(c *http.Client, url, body string) <-chan result {
	done := make(chan result, 1)
	go func() { done <- post(c, url, body) }()
	return done
}

// until waits until the figures of the service are as wanted.
func (r *rig) until(what string, ok func(gate.Stats) bool) {
	r.t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(r.service.Stats()); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("not reached: %s; the figures are %+v", what, r.service.Stats())
		}
	}
}

func held(n int) func(gate.Stats) bool { return func(s gate.Stats) bool { return s.Held == n } }

func echo(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s %s", name, r.Proto, r.RequestURI, raw)
	})
}
