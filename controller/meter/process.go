package meter

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"berth.dev/berth/api"
	"berth.dev/berth/controller/proxy"
	"berth.dev/berth/controller/readings"
	"berth.dev/berth/controller/runtime"
	"berth.dev/berth/internal/rights"
	"berth.dev/berth/ledger"
)

// ProcessOptions configures `berth meter`.
type ProcessOptions struct {
	Options
	Kubeconfig        string // file; "" is the ServiceAccount of the pod that this runs in
	Dir               string // where the book is
	Addr              string // of the ledger, metrics, and health, as runtime.Web has it
	CertFile, KeyFile string // as runtime.Options has them
}

// RunProcess writes and serves the ledger of a cluster until ctx ends, and then returns nil. It returns an error if it cannot start, and
// if the book cannot be used any longer: started again it goes on, and salvages a book that is damaged.
func RunProcess(ctx context.Context, o *ProcessOptions) error {
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	cfg, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	if err := checkRights(ctx, cfg); err != nil {
		return err
	}
	book, err := ledger.Open(ctx, filepath.Join(o.Dir, "ledger.db"))
	if err != nil {
		return err
	}
	defer book.Close()
	m := New(book, o.Options)
	var followed atomic.Bool
	m.followed = func() {
		followed.Store(true)
		klog.InfoS("Writing the ledger", "file", filepath.Join(o.Dir, "ledger.db"))
	}
	kept := readings.New(ctx, readings.Options{File: filepath.Join(o.Dir, "readings"), Outside: o.Outside}, m)
	stop, err := runtime.Serve(ctx, &runtime.Web{
		Addr: o.Addr, CertFile: o.CertFile, KeyFile: o.KeyFile, TokenHeader: api.LedgerTokenHeader,
		Own: map[string]http.Handler{Path: m.Handler(subject), api.PrometheusPath: kept.Handler(api.PrometheusPath)},
		Ready: func() error {
			switch {
			case ctx.Err() != nil:
				return errors.New("stopping")
			case !followed.Load():
				return errors.New("the cluster has not been read yet")
			}
			return nil
		},
	}, cfg)
	if err != nil {
		return err
	}
	defer stop()
	reading, end := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() { kept.Run(reading) })
	defer done.Wait()
	defer end()
	return m.Run(ctx, cfg)
}

// checkRights returns an error that names the missing rights.
func checkRights(ctx context.Context, cfg *rest.Config) error {
	_, _, err := rights.Check(ctx, cfg, "deploy/meter.yaml",
		rights.Need{Rules: ProcessRules()}, rights.Need{Namespace: api.MetricsNamespace, Rules: proxy.ExporterRules()})
	return err
}

// subject is the user of a request whose token the API server has accepted; "" is that it is not known.
func subject(r *http.Request) string {
	parts := strings.Split(r.Header.Get("Authorization"), ".")
	if len(parts) != 3 {
		return ""
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return ""
	}
	var claims struct {
		Subject string `json:"sub"`
	}
	_ = json.Unmarshal(raw, &claims) // then nothing is known
	return claims.Subject
}
