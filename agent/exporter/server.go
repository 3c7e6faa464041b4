package exporter

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"berth.dev/berth/kube/record"
)

// DefaultAddress is where dcgm-exporter listens.
const DefaultAddress = ":9400"

// contentType is that of Prometheus' text format.
const contentType = "text/plain; version=0.0.4; charset=utf-8"

const (
	// mostScrapes is how many scrapes may be under way or wait; Prometheus, its
	// twin and a person with curl are three.
	mostScrapes = 8
	// scrapeTime bounds one scrape: Prometheus gives up after 10 s.
	scrapeTime = 9 * time.Second
)

// ServeOptions say how to serve. Scrape or Page is needed.
type ServeOptions struct {
	Address  string       // host:port; "" is DefaultAddress
	Listener net.Listener // goes before Address
	TLS      *tls.Config  // nil is HTTP without it
	// Guard lets those through who may read the path that they ask for; nil is everyone. Health names
	// no pod, and is for everyone.
	Guard  func(http.Handler) http.Handler
	Scrape func(context.Context) ([]byte, error)
	// Page goes before Scrape: the text is not read after done.
	Page   func(context.Context) (text []byte, done func(), err error)
	Record http.Handler // serves record.Path to those that Guard lets through; nil is not there
	Health func() error // why the agent is not well; nil is that it is
	Log    *slog.Logger // nil is none
}

// Serve serves /metrics, the record, /health and / until ctx ends, and gives nil then; else
// why it could not listen. Requests that are under way then have a second.
func Serve(ctx context.Context, o ServeOptions) error {
	if o.Listener == nil {
		if o.Address == "" {
			o.Address = DefaultAddress
		}
		l, err := net.Listen("tcp", o.Address)
		if err != nil {
			return fmt.Errorf("serve metrics: %w; another exporter may have the port: stop dcgm-exporter on this node, or choose another one", err)
		}
		o.Listener = l
	}
	server := &http.Server{
		Handler: Handler(o), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: scrapeTime + 10*time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
	}
	if o.Log != nil {
		server.ErrorLog = slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug)
		o.Log.Info("metrics are served", "address", o.Listener.Addr().String(), "tls", o.TLS != nil)
	}
	if o.TLS != nil {
		o.Listener = tls.NewListener(o.Listener, o.TLS)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(o.Listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve metrics: %w", err)
	case <-ctx.Done():
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if server.Shutdown(late) != nil {
		_ = server.Close()
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve metrics: %w", err)
	}
	return nil
}

// handler answers requests.
type handler struct {
	o     ServeOptions
	turns chan struct{} // a value for each scrape that may be under way
	zips  chan *zipped  // one is kept: its tables take most of a megabyte
}

// Handler returns what Serve serves.
func Handler(o ServeOptions) http.Handler {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Page == nil {
		o.Page = func(ctx context.Context) ([]byte, func(), error) {
			text, err := o.Scrape(ctx)
			return text, func() {}, err
		}
	}
	h := &handler{o: o, turns: make(chan struct{}, mostScrapes), zips: make(chan *zipped, 1)}
	mux := http.NewServeMux()
	guard := o.Guard
	if guard == nil {
		guard = func(everyone http.Handler) http.Handler { return everyone }
	}
	mux.Handle("GET /metrics", guard(http.HandlerFunc(h.metrics)))
	if o.Record != nil {
		mux.Handle("GET "+record.Path, guard(o.Record))
	}
	mux.HandleFunc("GET /health", h.health)
	mux.HandleFunc("GET /{$}", index)
	return mux
}

func (h *handler) metrics(w http.ResponseWriter, r *http.Request) {
	select {
	case h.turns <- struct{}{}:
		defer func() { <-h.turns }()
	default:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many scrapes at once; wait for one to end", http.StatusServiceUnavailable)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), scrapeTime)
	defer cancel()
	text, done, err := h.o.Page(ctx)
	if err != nil {
		h.o.Log.Warn("a scrape failed", "error", err)
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer done()
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Vary", "Accept-Encoding")
	if !acceptsGzip(r.Header.Get("Accept-Encoding")) {
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		_, _ = w.Write(text) // an error is the client's, who is gone
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	h.zip(w, text)
}

// zipped is a compressor and what it has made.
type zipped struct {
	bytes.Buffer
	w *gzip.Writer
}

// zip writes gzip: the text is so alike that it shrinks to a tenth.
func (h *handler) zip(w http.ResponseWriter, text []byte) {
	var z *zipped
	select {
	case z = <-h.zips:
	default:
		z = &zipped{}
		z.w, _ = gzip.NewWriterLevel(z, gzip.BestSpeed) // the level is right
	}
	z.Reset()
	z.w.Reset(z)
	_, _ = z.w.Write(text) // a buffer takes everything
	_ = z.w.Close()
	w.Header().Set("Content-Length", strconv.Itoa(z.Len()))
	_, _ = w.Write(z.Bytes()) // an error is the client's, who is gone
	select {
	case h.zips <- z:
	default:
	}
}

// acceptsGzip reads an Accept-Encoding: gzip, or everything, without q=0.
func acceptsGzip(header string) bool {
	for part := range strings.SplitSeq(header, ",") {
		coding, params, _ := strings.Cut(part, ";")
		if coding = strings.TrimSpace(strings.ToLower(coding)); coding != "gzip" && coding != "*" {
			continue
		}
		q, ok := strings.CutPrefix(strings.ReplaceAll(strings.ToLower(params), " ", ""), "q=")
		if v, err := strconv.ParseFloat(q, 64); !ok || err == nil && v > 0 {
			return true
		}
	}
	return false
}

func (h *handler) health(w http.ResponseWriter, _ *http.Request) {
	if h.o.Health != nil {
		if err := h.o.Health(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("OK\n"))
}

func index(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write([]byte(`<!DOCTYPE html>
<title>berth agent</title>
<p>Berth's node agent. <a href="/metrics">metrics</a> <a href="/health">health</a>
`))
}
