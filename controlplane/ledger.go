package controlplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/metrics/legacyregistry"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"berth.dev/berth/api"
	"berth.dev/berth/controller/meter"
	"berth.dev/berth/controller/proxy"
	"berth.dev/berth/controller/readings"
	"berth.dev/berth/internal/pause"
	"berth.dev/berth/ledger"
)

// meterUser is who the meter is to the API server, and the name of its role.
const meterUser = "berth:meter"

// startMeter has the ledger written from when all else is ready, and served by the API server, unless there shall be none.
func (p *plane) startMeter(ctx context.Context, g *group, client kubernetes.Interface, parts *components, ready <-chan struct{}) error {
	if p.NoLedger {
		parts.ledger.set(http.NotFoundHandler())
		parts.prom.set(http.NotFoundHandler())
		return nil
	}
	if err := grant(ctx, client, meterUser, meterUser, meter.Rules()); err != nil {
		return err
	}
	if err := grantIn(ctx, client, api.MetricsNamespace, meterUser, proxy.ExporterRules()); err != nil {
		return err
	}
	g.start(ctx, "the ledger", "meter", func(ctx context.Context) error {
		select {
		case <-ready:
			parts.ledger.keep(ctx, p.log, func(ctx context.Context) error { return p.meter(ctx, parts) })
		case <-ctx.Done():
		}
		return nil
	})
	return nil
}

// meter opens the ledger, and writes and serves it until ctx ends.
func (p *plane) meter(ctx context.Context, parts *components) error {
	book, err := ledger.Open(ctx, p.Dir.Join("ledger", "ledger.db"))
	if err != nil {
		return err
	}
	defer book.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	m := meter.New(book, p.Ledger)
	parts.ledger.set(m.Handler(userOf))
	kept := readings.New(ctx, readings.Options{
		File: p.Dir.Join("metrics", "readings"), Outside: p.Ledger.Outside, More: prometheus.Gatherers{legacyregistry.DefaultGatherer, metrics.Registry},
	}, m)
	parts.prom.set(kept.Handler(api.PrometheusPath))
	var done sync.WaitGroup
	done.Go(func() { kept.Run(ctx) })
	defer done.Wait()
	defer stop()
	return m.Run(ctx, p.clientConfig(meterFile))
}

// userOf is the user that the API server knows a request to be of.
func userOf(r *http.Request) string {
	if u, ok := request.UserFrom(r.Context()); ok {
		return u.GetName()
	}
	return ""
}

// openAgain is after how long a ledger that cannot be opened is tried again.
const openAgain = 30 * time.Second

// keep runs what serves until ctx ends. If it fails it is tried again, and the answers say why until then: a cluster
// does not end because its ledger cannot be written.
func (l *lateHandler) keep(ctx context.Context, log *slog.Logger, run func(context.Context) error) {
	for {
		err := run(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("the meter has ended")
		}
		log.Error("the ledger is not written; it is tried again", "after", openAgain, "err", err)
		l.set(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			meter.Refuse(w, apierrors.NewServiceUnavailable(fmt.Sprintf("the ledger cannot be used: %v; it is tried again every %v", err, openAgain)))
		}))
		if !pause.For(ctx, openAgain) {
			return
		}
	}
}

// lateHandler serves what is there only after a while.
type lateHandler struct{ now atomic.Pointer[http.Handler] }

// set has h serve from now on.
func (l *lateHandler) set(h http.Handler) { l.now.Store(&h) }

// ServeHTTP implements http.Handler.
func (l *lateHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h := l.now.Load(); h != nil {
		(*h).ServeHTTP(w, r)
		return
	}
	meter.Refuse(w, apierrors.NewServiceUnavailable("the ledger is not open yet; try again in a moment"))
}
