package controlplane

import (
	"context"
	"net/http"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	"berth.dev/berth/controller/meter"
	"berth.dev/berth/ledger"
)

// meterUser is who the meter is to the API server, and the name of its role.
const meterUser = "berth:meter"

// startMeter has the ledger written from when all else is ready, and served by the API server.
func (p *plane) startMeter(ctx context.Context, g *group, client kubernetes.Interface, at *lateHandler, ready <-chan struct{}) error {
	if err := grant(ctx, client, meterUser, meterUser, meter.Rules()); err != nil {
		return err
	}
	g.start(ctx, "the ledger", "meter", func(ctx context.Context) error {
		select {
		case <-ready:
		case <-ctx.Done():
			return nil
		}
		book, err := ledger.Open(ctx, p.Dir.Join("ledger", "ledger.db"))
		if err != nil {
			return err
		}
		defer book.Close()
		m := meter.New(book)
		at.set(m.Handler())
		defer at.set(nil)
		return m.Run(ctx, p.clientConfig(meterFile))
	})
	return nil
}

// lateHandler serves what is there only after a while.
type lateHandler struct{ now atomic.Pointer[http.Handler] }

// set has h serve from now on; nil is none.
func (l *lateHandler) set(h http.Handler) {
	if h == nil {
		l.now.Store(nil)
		return
	}
	l.now.Store(&h)
}

// ServeHTTP implements http.Handler.
func (l *lateHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h := l.now.Load(); h != nil {
		(*h).ServeHTTP(w, r)
		return
	}
	meter.Refuse(w, apierrors.NewServiceUnavailable("the ledger is not open yet; try again in a moment"))
}
