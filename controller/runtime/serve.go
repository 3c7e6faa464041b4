package runtime

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"

	"berth.dev/berth/internal/listen"
)

// ends is how long requests under way may take when the server stops.
const ends = 2 * time.Second

// serve serves metrics, health and profiles on l until stop is called. synced
// blocks until every object has been seen, or is false.
func serve(ctx context.Context, l net.Listener, plain bool, o Options, cfg *rest.Config, synced func(context.Context) bool) (stop func(), err error) {
	var seen atomic.Bool
	stop, err = serveOn(ctx, l, plain, &Web{CertFile: o.CertFile, KeyFile: o.KeyFile, Ready: func() error {
		switch {
		case ctx.Err() != nil:
			return errors.New("stopping")
		case !seen.Load():
			return errors.New("caches are not synced yet")
		}
		return nil
	}}, cfg)
	if err == nil {
		go func() { seen.Store(synced(ctx)) }()
	}
	return stop, err
}

// Web is what a process serves beside its work: metrics, health, profiles, and what is its own.
type Web struct {
	Addr              string // as Options.MetricsAddr
	CertFile, KeyFile string // as in Options
	Ready             func() error
	Own               map[string]http.Handler // by the path below which each serves
	// TokenHeader is a header with the token of those who ask through the API server's proxy, which removes Authorization; "" is none.
	TokenHeader string
}

// Serve is the function Serve for w with what only the caller knows: when it is ready, and what is its own.
func (w Web) Serve(ctx context.Context, ready func() error, own map[string]http.Handler, cfg *rest.Config) (stop func(), err error) {
	w.Ready, w.Own = ready, own
	return Serve(ctx, &w, cfg)
}

// Serve serves until stop is called. With TLS the API server is asked who a caller is and what they may get, except for health.
func Serve(ctx context.Context, w *Web, cfg *rest.Config) (stop func(), err error) {
	l, plain, err := listen.On(w.Addr)
	if err != nil || l == nil {
		return func() {}, err
	}
	stop, err = serveOn(ctx, l, plain, w, cfg)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return stop, nil
}

func serveOn(ctx context.Context, l net.Listener, plain bool, w *Web, cfg *rest.Config) (stop func(), err error) {
	m := endpoints(w.Ready)
	for path, own := range w.Own {
		m.Handle(path, own)
	}
	var handler http.Handler = m
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	if !plain {
		if handler, err = asked(handler, cfg); err == nil {
			handler = proxied(handler, w.TokenHeader)
			l, err = encrypted(serving, l, w.CertFile, w.KeyFile)
		}
		if err != nil {
			cancel()
			return nil, fmt.Errorf("serve metrics: %w", err)
		}
	}
	klog.InfoS("Serving metrics and health", "address", l.Addr().String(), "tls", !plain)
	end := listen.Serve(l, handler, ends)
	return func() {
		defer cancel()
		end()
	}, nil
}

// proxied takes the token of requests that come through the API server's proxy from a header; "" is none.
func proxied(handler http.Handler, header string) http.Handler {
	if header == "" {
		return handler
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token := r.Header.Get(header); token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		handler.ServeHTTP(w, r)
	})
}

// healthPaths answer everybody: probes have no identity.
var healthPaths = []string{"/healthz", "/livez", "/readyz"}

// endpoints serves metrics, health and profiles, at upstream's paths. ready says why
// it is not.
func endpoints(ready func() error) *http.ServeMux {
	m := http.NewServeMux()
	for _, path := range healthPaths {
		m.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			if path == "/readyz" {
				if err := ready(); err != nil {
					http.Error(w, err.Error(), http.StatusServiceUnavailable)
					return
				}
			}
			fmt.Fprint(w, "ok")
		})
	}
	m.Handle("/metrics", promhttp.HandlerFor(inTurn{metrics.Registry, legacyregistry.DefaultGatherer}, promhttp.HandlerOpts{}))
	m.HandleFunc("/debug/pprof/", pprof.Index)
	m.HandleFunc("/debug/pprof/profile", pprof.Profile)
	m.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	m.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return m
}

// inTurn gathers from several registries: which of two has client-go's metrics
// depends on what else is in the program. Of families with the same name the first
// is taken.
type inTurn []prometheus.Gatherer

// Gather implements prometheus.Gatherer.
func (list inTurn) Gather() ([]*dto.MetricFamily, error) {
	var all []*dto.MetricFamily
	var errs []error
	have := map[string]bool{}
	for _, g := range list {
		got, err := g.Gather()
		errs = append(errs, err)
		for _, f := range got {
			if !have[f.GetName()] {
				have[f.GetName()] = true
				all = append(all, f)
			}
		}
	}
	return all, errors.Join(errs...)
}

// asked asks the API server who a caller is and what they may, but for health.
func asked(handler http.Handler, cfg *rest.Config) (http.Handler, error) {
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, err
	}
	filter, err := filters.WithAuthenticationAndAuthorization(cfg, client)
	if err != nil {
		return nil, err
	}
	guarded, err := filter(klog.Background(), handler)
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if slices.Contains(healthPaths, r.URL.Path) {
			handler.ServeHTTP(w, r)
			return
		}
		guarded.ServeHTTP(w, r)
	}), nil
}

// encrypted puts TLS over l, with the certificate of two files, which are read again
// when they change, or with one made now. Watching the files ends with ctx.
func encrypted(ctx context.Context, l net.Listener, certFile, keyFile string) (net.Listener, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	if certFile == "" {
		host, _, _ := strings.Cut(l.Addr().String(), ":")
		certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey(host, []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"localhost"})
		if err != nil {
			return nil, err
		}
		pair, err := tls.X509KeyPair(certPEM, keyPEM)
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{pair}
		return tls.NewListener(l, c), nil
	}
	watcher, err := certwatcher.New(certFile, keyFile)
	if err != nil {
		return nil, err
	}
	c.GetCertificate = watcher.GetCertificate
	go func() {
		if err := watcher.Start(ctx); err != nil {
			klog.ErrorS(err, "Changes of the certificate will not be noticed", "file", certFile)
		}
	}()
	return tls.NewListener(l, c), nil
}
