package exporter

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
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

// ServeOptions say how to serve. Scrape is needed.
type ServeOptions struct {
	Address  string       // host:port; "" is DefaultAddress
	Listener net.Listener // goes before Address
	Scrape   func(context.Context) ([]byte, error)
	Health   func() error // why the agent is not well; nil is that it is
	Log      *slog.Logger // nil is none
}

// Serve serves /metrics, /health and / until ctx ends, and gives nil then; else
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
		o.Log.Info("metrics are served", "address", o.Listener.Addr().String())
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
	turns chan struct{}     // a value for each scrape that may be under way
	zips  chan *gzip.Writer // one is kept: it takes 800 KB
}

// Handler gives what Serve serves.
func Handler(o ServeOptions) http.Handler {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	h := &handler{o: o, turns: make(chan struct{}, mostScrapes), zips: make(chan *gzip.Writer, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", h.metrics)
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
	text, err := h.o.Scrape(ctx)
	if err != nil {
		h.o.Log.Warn("a scrape was not answered", "error", err)
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
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

// zip compresses with the least effort: the text is so alike that it shrinks to a
// twentieth.
func (h *handler) zip(w http.ResponseWriter, text []byte) {
	var z *gzip.Writer
	select {
	case z = <-h.zips:
		z.Reset(w)
	default:
		z, _ = gzip.NewWriterLevel(w, gzip.BestSpeed) // the level is right
	}
	_, _ = z.Write(text)
	_ = z.Close()
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
