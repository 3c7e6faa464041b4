package readings

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"k8s.io/klog/v2"

	"berth.dev/berth/internal/datadir"
	"berth.dev/berth/internal/pause"
	"berth.dev/berth/metrics/rules"
	"berth.dev/berth/metrics/scrape"
	"berth.dev/berth/metrics/store"
	"berth.dev/berth/metrics/web"
)

// The jobs of the series, as label job has them.
const (
	ExporterJob = "gpu-exporter"
	OwnJob      = "berth"
)

const (
	ownEvery  = 2               // ticks, for Berth's own series and the alerts
	moreEvery = 2               // of these, for the metrics of the process: there are thousands beside Berth's
	saveEvery = 5 * time.Minute // and at the end
	sendAgain = 10 * time.Second
)

// Source is what is read beside exporters.
type Source interface {
	// Series returns metrics in the text format; none is that nothing is known yet.
	Series(ctx context.Context, now time.Time) []byte
	// Exporters returns the nodes that have one, and how to ask it.
	Exporters(ctx context.Context) (nodes []string, text func(ctx context.Context, node string) ([]byte, error), err error)
}

// Options says where readings are kept, and who hears of alerts.
type Options struct {
	// File keeps them while the process is not running; "" is none. Its folder is made.
	File string
	// More is metrics of this process, of which those of Berth are kept; nil is none.
	More prometheus.Gatherer
	// Webhook is a URL that is sent what fires and what ends, as Alertmanager does; "" is none.
	Webhook string
}

// Readings is a day of them.
type Readings struct {
	o      Options
	source Source
	store  *store.Store
	reader *scrape.Scraper
	server *web.Server
	alerts *rules.Evaluator
	sender *rules.Sender // nil is none
	saved  error         // of the last snapshot
	rounds int           // of own series
	more   []byte        // metrics of the process, as they were last gathered
}

// New makes readings of what o.File has, or of nothing if it cannot be read, which is logged.
func New(ctx context.Context, o Options, source Source) *Readings {
	r := &Readings{o: o, source: source, store: load(ctx, o.File)}
	r.reader = scrape.New(r.store, scrape.Limits{}, time.Now)
	engine := web.NewEngine()
	r.alerts = rules.NewEvaluator(engine, r.store, rules.Rules())
	r.server = &web.Server{Engine: engine, Data: r.store, Names: r.reader.Names, Rules: r.alerts, Now: time.Now}
	if o.Webhook != "" {
		r.sender = rules.NewSender(o.Webhook, sendAgain)
	}
	return r
}

func load(ctx context.Context, path string) *store.Store {
	if path == "" {
		return store.New(store.Options{})
	}
	f, err := os.Open(path)
	if err == nil {
		defer f.Close() //nolint:errcheck // it was only read
		var s *store.Store
		if s, err = store.Load(f, store.Options{}); err == nil {
			return s
		}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		klog.FromContext(ctx).Error(err, "The readings that were kept cannot be read; new ones are gathered", "file", path)
	}
	return store.New(store.Options{})
}

// Handler serves the readings and alerts below a path, as package web does.
func (r *Readings) Handler(root string) http.Handler {
	return r.server.Handler(root)
}

// Run reads until ctx ends, and then keeps what there is.
func (r *Readings) Run(ctx context.Context) {
	if r.sender != nil {
		go r.sender.Run(ctx)
	}
	step := r.store.Step()
	saved := time.Now()
	for n := 0; ; n++ {
		at := r.store.Tick(time.Now())
		r.round(ctx, at, n%ownEvery == 0)
		if now := time.Now(); now.Sub(saved) >= saveEvery {
			saved = now
			r.save(ctx)
		}
		if !pause.For(ctx, time.Until(at.Add(step))) {
			break
		}
	}
	r.save(ctx)
}

// round reads all there is into samples of a moment.
func (r *Readings) round(ctx context.Context, at time.Time, own bool) {
	nodes, text, err := r.source.Exporters(ctx)
	if err == nil {
		targets := make([]scrape.Target, 0, len(nodes))
		for _, node := range nodes {
			targets = append(targets, scrape.Target{
				Job: ExporterJob, Instance: node + ":9400", Drop: []string{"berth_gpu_held"}, // Series has it, with who holds
				Fetch: func(ctx context.Context) ([]byte, error) { return text(ctx, node) },
			})
		}
		r.reader.Scrape(ctx, at, ExporterJob, targets)
	}
	if !own || ctx.Err() != nil {
		return
	}
	r.reader.Scrape(ctx, at, OwnJob, []scrape.Target{{Job: OwnJob, Instance: "meter", Fetch: r.own}})
	fires, ended := r.alerts.Evaluate(ctx, at)
	for _, a := range fires {
		klog.FromContext(ctx).Info("An alert fires", "alert", a.Rule.Name, "severity", a.Rule.Severity, "summary", a.Annotations["summary"])
	}
	if r.sender != nil {
		r.sender.Send(at, fires, ended)
	}
}

// own is what this process knows, in the text format.
func (r *Readings) own(ctx context.Context) ([]byte, error) {
	text := r.source.Series(ctx, time.Now())
	if text == nil {
		return nil, errors.New("the cluster has not been read yet")
	}
	if r.o.More == nil {
		return text, nil
	}
	if r.rounds++; r.rounds%moreEvery != 1 {
		return append(text, r.more...), nil
	}
	families, err := r.o.More.Gather()
	if len(families) == 0 && err != nil {
		return nil, fmt.Errorf("gather metrics of this process: %w", err)
	}
	b := &bytes.Buffer{}
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "berth_") || strings.HasPrefix(f.GetName(), "notebook_") {
			if _, err := expfmt.MetricFamilyToText(b, f); err != nil {
				return nil, err
			}
		}
	}
	r.more = b.Bytes()
	return append(text, r.more...), nil
}

// save writes the file of readings. The old file stays until all is written. A failure is logged once.
func (r *Readings) save(ctx context.Context) {
	if r.o.File == "" {
		return
	}
	err := write(r.o.File, r.store)
	if err != nil && r.saved == nil {
		klog.FromContext(ctx).Error(err, "Readings cannot be kept for the next start; it is tried again", "file", r.o.File, "every", saveEvery)
	}
	r.saved = err
}

func write(path string, s *store.Store) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return datadir.Replace(path, 0o600, func(w io.Writer) error { return s.Save(w) })
}
