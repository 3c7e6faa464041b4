package exporter_test

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"berth.dev/berth/agent/exporter"
)

// answer is a response that has been read.
type answer struct {
	status int
	header http.Header
	text   string
}

func request(t *testing.T, h http.Handler, path, encoding string) answer {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	if encoding != "" {
		r.Header.Set("Accept-Encoding", encoding)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	from := io.Reader(w.Body)
	if w.Header().Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(w.Body)
		if err != nil {
			t.Fatal(err)
		}
		from = z
	}
	text, err := io.ReadAll(from)
	if err != nil {
		t.Fatal(err)
	}
	return answer{w.Code, w.Header(), string(text)}
}

func TestHandler(t *testing.T) {
	var sick error
	h := exporter.Handler(exporter.ServeOptions{
		Scrape: func(context.Context) ([]byte, error) { return []byte("up 1\n"), nil },
		Health: func() error { return sick },
	})
	for _, c := range []struct {
		name, path, accept string
		status             int
		kind, encoding     string
		want               string
	}{
		{"metrics as Prometheus wants them", "/metrics", "", 200, "text/plain; version=0.0.4; charset=utf-8", "", "up 1\n"},
		{"compressed if asked", "/metrics", "br, gzip;q=0.5", 200, "text/plain; version=0.0.4; charset=utf-8", "gzip", "up 1\n"},
		{"compressed once more by the same writer", "/metrics", "*", 200, "text/plain; version=0.0.4; charset=utf-8", "gzip", "up 1\n"},
		{"not compressed if refused", "/metrics", "gzip;q=0", 200, "text/plain; version=0.0.4; charset=utf-8", "", "up 1\n"},
		{"health", "/health", "", 200, "text/plain; charset=utf-8", "", "OK\n"},
		{"a page that leads on", "/", "", 200, "text/html; charset=utf-8", "", `<a href="/metrics">`},
		{"nothing else", "/debug/pprof", "", 404, "text/plain; charset=utf-8", "", "404 page not found\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := request(t, h, c.path, c.accept)
			if r.status != c.status || r.header.Get("Content-Type") != c.kind || r.header.Get("Content-Encoding") != c.encoding || !strings.Contains(r.text, c.want) {
				t.Errorf("%s = %+v", c.path, r)
			}
		})
	}
	sick = errors.New("no driver: NVML library not found")
	if r := request(t, h, "/health", ""); r.status != http.StatusServiceUnavailable || r.text != "no driver: NVML library not found\n" {
		t.Errorf("/health of a sick agent = %d", r.status)
	}
}

// TestTheRecordIsServedBesideTheMetrics to those that the guard lets through, and is not there if none is kept.
func TestTheRecordIsServedBesideTheMetrics(t *testing.T) {
	guarded := 0
	o := exporter.ServeOptions{
		Scrape: func(context.Context) ([]byte, error) { return []byte("up 1\n"), nil },
		Guard: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { guarded++; next.ServeHTTP(w, r) })
		},
	}
	if r := request(t, exporter.Handler(o), "/record", ""); r.status != http.StatusNotFound {
		t.Errorf("without a record: %+v", r)
	}
	o.Record = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("gone\n")) })
	if r := request(t, exporter.Handler(o), "/record?since=2026-11-28T12:00:00Z", ""); r.status != http.StatusOK || r.text != "gone\n" || guarded != 1 {
		t.Errorf("with one: %+v, guarded %d times", r, guarded)
	}
}

func TestAScrapeThatFailsSaysWhy(t *testing.T) {
	h := exporter.Handler(exporter.ServeOptions{
		Scrape: func(context.Context) ([]byte, error) { return nil, errors.New("read the GPUs: NVML library not found") },
	})
	if r := request(t, h, "/metrics", "gzip"); r.status != http.StatusInternalServerError || r.text != "read the GPUs: NVML library not found\n" {
		t.Errorf("/metrics = %d", r.status)
	}
}

func TestScrapesAtOnceAreBounded(t *testing.T) {
	begun, end := make(chan bool), make(chan bool)
	h := exporter.Handler(exporter.ServeOptions{Scrape: func(context.Context) ([]byte, error) {
		begun <- true
		<-end
		return []byte("up 1\n"), nil
	}})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { request(t, h, "/metrics", "") })
		<-begun
	}
	if r := request(t, h, "/metrics", ""); r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") != "1" {
		t.Errorf("the ninth scrape = %d", r.status)
	}
	close(end)
	wg.Wait()
}

func TestServeEndsWithItsContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, 8, 0, 1)
	r.options.MinAge = 0
	c := exporter.NewCollector(r.sources, r.options)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- exporter.Serve(ctx, exporter.ServeOptions{Listener: l, Scrape: c.Scrape}) }()
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			c.Xids.Note(r.uuid(i), 48, start)
			got, err := http.Get("http://" + l.Addr().String() + "/metrics")
			if err != nil {
				t.Error(err)
				return
			}
			defer got.Body.Close()
			p := expfmt.NewTextParser(model.LegacyValidation)
			if families, err := p.TextToMetricFamilies(got.Body); err != nil || len(families) < 25 {
				t.Errorf("/metrics: %d families, %v", len(families), err)
			}
		})
	}
	wg.Wait()
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Serve = %v", err)
	}
	if err := exporter.Serve(t.Context(), exporter.ServeOptions{Address: "127.0.0.1:-1", Scrape: c.Scrape}); err == nil || !strings.Contains(err.Error(), "serve metrics: ") {
		t.Errorf("Serve at no port = %v", err)
	}
}
