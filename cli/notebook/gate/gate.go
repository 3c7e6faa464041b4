// Package gate is the door on this machine to one notebook: an HTTP server on the
// loopback addresses that hands requests on to the notebook. It answers only browsers
// and programs that know a secret which it printed, under its own address, and no
// page of another origin. What is behind it, and how that is reached, is not its
// affair.
package gate

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Notebook is what a Gate leads to.
type Notebook struct {
	// Dial connects to the notebook's server.
	Dial func(ctx context.Context) (net.Conn, error)
	// Token is what its server, a Jupyter, asks for; "" is nothing. It is added to what
	// programs send and to the pages that browsers ask for: from those Jupyter gives
	// a browser its own cookie, and goes on to check that browser's calls for forgery,
	// as it does not where a token comes with them.
	Token string
}

// Gate is a server for one notebook. Its methods may be called at the same time.
type Gate struct {
	port      int
	path      string
	listeners []net.Listener
	server    *http.Server
	keys      *keys
	to        atomic.Pointer[behind]
}

// behind is a connected notebook.
type behind struct {
	proxy     *httputil.ReverseProxy
	transport *http.Transport
}

const (
	headerTimeout = 10 * time.Second // for a request's headers
	idleTimeout   = 30 * time.Second // after which unused connections to a notebook end
)

// Open listens at a port of the loopback addresses; 0 is a free one. path, which
// begins and ends with a slash, is where the notebook's pages are. used is called with
// the next address each time one has been used.
func Open(port int, path string, used func(url string)) (*Gate, error) {
	listeners, port, err := listen(port)
	if err != nil {
		return nil, err
	}
	g := &Gate{port: port, path: path, listeners: listeners}
	g.keys = newKeys(func(token string) { used(g.address(token)) })
	g.server = &http.Server{Handler: g, ReadHeaderTimeout: headerTimeout, ErrorLog: log.New(io.Discard, "", 0)}
	for _, l := range listeners {
		go func() { _ = g.server.Serve(l) }() // it ends with Close
	}
	return g, nil
}

// Port is the port at which the gate listens.
func (g *Gate) Port() int { return g.port }

// URL is the address to open. It is good for one browser, or for one program that
// keeps the token.
func (g *Gate) URL() string { return g.address(g.keys.next()) }

func (g *Gate) address(token string) string {
	return "http://localhost:" + strconv.Itoa(g.port) + g.path + "?token=" + token
}

// Close ends the gate and all connections through it.
func (g *Gate) Close() error {
	g.Disconnect()
	return g.server.Close()
}

// Connect leads requests to a notebook from now on.
func (g *Gate) Connect(to Notebook) {
	t := &http.Transport{
		DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return to.Dial(ctx) },
		DisableCompression: true, IdleConnTimeout: idleTimeout, MaxIdleConnsPerHost: 8,
	}
	b := &behind{transport: t, proxy: &httputil.ReverseProxy{
		Transport: t, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host = "http", p.In.Host, p.In.Host
			g.keys.strip(p.Out, cookieName(g.port))
			if to.Token != "" && (wantsPage(p.In) || g.keys.ours(tokenOf(p.In))) {
				p.Out.Header.Set("Authorization", "token "+to.Token)
			}
		},
		ModifyResponse: func(r *http.Response) error {
			for _, name := range []string{"Origin", "Credentials", "Methods", "Headers"} {
				r.Header.Del("Access-Control-Allow-" + name) // other origins are not let in
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			if errors.Is(err, context.Canceled) {
				return // who asked has gone
			}
			refuse(w, http.StatusBadGateway, fmt.Sprintf("the notebook does not respond: %v", err))
		},
	}}
	g.swap(b)
}

// Disconnect leads requests nowhere until Connect is called again.
func (g *Gate) Disconnect() { g.swap(nil) }

func (g *Gate) swap(b *behind) {
	if was := g.to.Swap(b); was != nil {
		was.transport.CloseIdleConnections()
	}
}

// ServeHTTP implements http.Handler.
func (g *Gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if why := Foreign(r, g.port, "notebook", "berth notebook open NAME"); why != "" {
		refuse(w, http.StatusForbidden, why)
		return
	}
	switch g.keys.check(r, cookieName(g.port)) {
	case unknown:
		refuse(w, http.StatusForbidden, "open the last address that `berth notebook open` printed, with its token: each works for one browser or program, and a new one is printed when it is used")
		return
	case newcomer:
		g.setCookie(w, r)
		return
	case known:
	}
	to := g.to.Load()
	if to == nil {
		w.Header().Set("Retry-After", "2")
		refuse(w, http.StatusServiceUnavailable, "the notebook is restarting, or the connection to it was lost; reconnecting: reload the page in a while")
		return
	}
	if r.URL.Path == "/" && g.path != "/" && r.Method == http.MethodGet {
		http.Redirect(w, r, g.path, http.StatusSeeOther)
		return
	}
	to.proxy.ServeHTTP(w, r)
}

// setCookie sets the browser's cookie, and sends it on to the address without the
// token. It is a page that goes on, not a redirect: with a redirect a link on
// another page would not bring the cookie, which is for requests of this site alone.
func (g *Gate) setCookie(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // plain HTTP on loopback: Secure would keep the cookie from it
		Name: cookieName(g.port), Value: g.keys.admit(), Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
	on := without(r.URL)
	target := (&url.URL{Path: "/" + strings.TrimLeft(on.Path, "/"), RawQuery: on.RawQuery}).String()
	if target == "/" {
		target = g.path
	}
	page(w, target)
}

// newToken is a secret of 26 letters and digits, with at least 128 bits of chance.
func newToken() string { return rand.Text() }
