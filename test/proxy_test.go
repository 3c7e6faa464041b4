package test

import (
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

// proxy stands between one client and the API server. It can cut what goes through it: then every watch of that
// client ends, and requests under way have no answer. And it can hold up what the client sends, as a network that is
// away does: it arrives later, also if the client has ended by then.
type proxy struct {
	listener net.Listener
	mu       sync.Mutex
	target   string
	open     map[net.Conn]bool
	held     chan struct{} // closed when what the client sends may pass; nil is that it may
}

// hold holds up what the client sends, until release is called.
func (p *proxy) hold() (release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	held := make(chan struct{})
	p.held = held
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.held = nil
		close(held)
	}
}

// late is the API server, which gets what is written to it when nothing holds it up.
type late struct {
	net.Conn
	proxy *proxy
	held  atomic.Bool // something was
}

func (l *late) Write(b []byte) (int, error) {
	l.proxy.mu.Lock()
	held := l.proxy.held
	l.proxy.mu.Unlock()
	if held != nil {
		l.held.Store(true)
		<-held
	}
	return l.Conn.Write(b)
}

// newProxy makes a proxy, and a kubeconfig in dir that goes through it: the one
// given, with another address. It ends with the test.
func newProxy(t *testing.T, kubeconfig, dir string) (p *proxy, through string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p = &proxy{listener: l, open: map[net.Conn]bool{}}
	p.aim(t, kubeconfig)
	cfg, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cfg.Clusters {
		c.Server = "https://" + l.Addr().String()
	}
	through = filepath.Join(dir, "through-"+filepath.Base(l.Addr().String()))
	if err := clientcmd.WriteToFile(*cfg, through); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.Close()
		p.cut()
		_ = os.Remove(through)
	})
	go p.serve()
	return p, through
}

// aim makes new connections go to the API server of a kubeconfig.
func (p *proxy) aim(t *testing.T, kubeconfig string) {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(cfg.Host)
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = u.Host
}

// cut closes every connection. New ones are let through.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		c.Close()
	}
}

func (p *proxy) serve() {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		go p.carry(in)
	}
}

// carry joins a connection to one to the API server until either end closes.
func (p *proxy) carry(in net.Conn) {
	defer in.Close()
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	out, err := net.Dial("tcp", target)
	if err != nil {
		return // it is away
	}
	defer out.Close()
	p.mu.Lock()
	p.open[in], p.open[out] = true, true
	p.mu.Unlock()
	join := func(to io.Writer, from net.Conn) <-chan struct{} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = io.Copy(to, from) // cut, or the other side has gone
		}()
		return done
	}
	server := &late{Conn: out, proxy: p}
	sent, received := join(server, in), join(in, out)
	select {
	case <-sent:
	case <-received: // the API server has gone, or the client, while its last words are held up
	}
	if server.held.Load() {
		<-sent
		time.Sleep(time.Second) // the API server drops requests of connections that end
	}
	p.mu.Lock()
	delete(p.open, in)
	delete(p.open, out)
	p.mu.Unlock()
}
