package readings

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"k8s.io/klog/v2"

	"berth.dev/berth/internal/datadir"
	"berth.dev/berth/internal/pause"
	"berth.dev/berth/metrics/remote"
	"berth.dev/berth/metrics/rules"
	"berth.dev/berth/metrics/scrape"
	"berth.dev/berth/metrics/send"
	"berth.dev/berth/metrics/store"
	"berth.dev/berth/metrics/web"
)

const (
	ownEvery  = 2               // ticks, for Berth's own series and the alerts
	moreEvery = 2               // of these, for the metrics of the process: there are thousands beside Berth's
	saveEvery = 5 * time.Minute // and at the end
	sendAgain = 10 * time.Second
	ownRoom   = 10000 // series that exporters leave for Berth's own
)

// dropped are metrics of exporters that the meter has with who holds.
var dropped = []string{"berth_gpu_held"}

// Readings is a day of them.
type Readings struct {
	o          Options
	source     Source
	store      *store.Store
	reader     *scrape.Scraper
	server     *web.Server
	alerts     *rules.Evaluator
	sender     *rules.Sender // nil is none
	out        send.Senders
	beside     *beside              // nil is that no Prometheus is looked for
	counts     *prometheus.Registry // of sent samples, and of who reads exporters
	saved      error                // of the last snapshot
	rounds     int                  // of own series
	evaluation time.Duration        // that alerts may take while a Prometheus is asked
	more       []byte               // metrics of the process, as they were last gathered
}

// New makes readings of what o.File has, or of nothing if it cannot be read, which is logged.
func New(ctx context.Context, o Options, source Source) *Readings {
	r := &Readings{o: o, source: source, store: load(ctx, o.File), counts: prometheus.NewRegistry(), evaluation: evaluation}
	r.counts.MustRegister(room{r.store})
	r.reader = scrape.New(r.store, scrape.Limits{}, time.Now)
	engine := web.NewEngine()
	r.alerts = rules.NewEvaluator(engine, r.store, rules.Rules())
	r.server = &web.Server{Engine: engine, Data: r.store, Names: r.reader.Names, Rules: r.alerts, Now: time.Now}
	if o.Webhook != "" {
		r.sender = rules.NewSender(o.Webhook, o.Transport, sendAgain)
	}
	if o.Prometheus != "" {
		r.beside = newBeside(o.Prometheus, o.Transport, source)
		r.counts.MustRegister(r.beside)
		both := remote.Both{Store: r.store, Other: r.beside.now, Failed: func(error) { r.beside.soon() }}
		strict, lenient := both, both
		strict.Again, lenient.Lenient = true, true
		r.alerts.Ask(&strict)
		r.server.Data = &lenient
	}
	r.receivers(ctx)
	return r
}

// receivers makes what sends samples out, and has the store tell it of them.
func (r *Readings) receivers(ctx context.Context) {
	log := func(text string, err error, pairs ...any) {
		if err != nil {
			klog.FromContext(ctx).Error(err, text, pairs...)
			return
		}
		klog.FromContext(ctx).Info(text, pairs...)
	}
	add := func(list []string, sender func(*url.URL) *send.Sender) {
		for _, address := range list {
			if u, err := url.Parse(address); err == nil { // the command has checked it
				r.out = append(r.out, sender(u))
			}
		}
	}
	add(r.o.RemoteWrite, func(u *url.URL) *send.Sender { return send.RemoteWrite(u, r.o.Transport, log) })
	add(r.o.OTLP, func(u *url.URL) *send.Sender { return send.OTLP(u, r.o.Transport, r.reader.Counter, log) })
	if len(r.out) > 0 {
		r.counts.MustRegister(r.out)
		r.store.Follow(func(at time.Time, samples []store.Sample) {
			for _, s := range r.out {
				s.Put(at, samples)
			}
		})
	}
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
	for _, s := range r.out {
		go s.Run(ctx)
	}
	if r.beside != nil {
		go r.beside.run(ctx)
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
	r.exporters(ctx, at)
	if !own || ctx.Err() != nil {
		return
	}
	r.reader.Scrape(ctx, at, OwnJob, []scrape.Target{{Job: OwnJob, Instance: "meter", Fetch: r.own, Samples: math.MaxInt}}) // the store has room for some
	fires, ended := r.evaluate(ctx, at)
	for _, a := range fires {
		klog.FromContext(ctx).Info("An alert fires", "alert", a.Rule.Name, "severity", a.Rule.Severity, "summary", a.Annotations["summary"])
	}
	if r.sender != nil {
		r.sender.Send(at, fires, ended)
	}
}

// exporters reads those that no Prometheus reads.
func (r *Readings) exporters(ctx context.Context, at time.Time) {
	nodes, text, err := r.source.Exporters(ctx)
	if err != nil {
		return
	}
	targets := make([]scrape.Target, 0, len(nodes))
	var all []string
	for _, node := range nodes {
		instance := node + ":9400"
		all = append(all, instance)
		if r.beside != nil && r.beside.has(instance) {
			continue
		}
		targets = append(targets, scrape.Target{
			Job: ExporterJob, Instance: instance, Drop: dropped, Leaves: ownRoom,
			Fetch: func(ctx context.Context) ([]byte, error) { return text(ctx, node) },
		})
	}
	r.reader.Scrape(ctx, at, ExporterJob, targets)
	if r.beside != nil && len(all) > 0 {
		if r.beside.note(all, func(instance string) map[string]int { return r.reader.Devices(ExporterJob, instance) }) {
			r.beside.soon()
		}
	}
}

// evaluate looks at the alerts. A Prometheus that is asked for them has bounded time: what it does not answer in time stays as it was.
func (r *Readings) evaluate(ctx context.Context, at time.Time) (fires, ended []rules.Alert) {
	if r.beside != nil && r.beside.now() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.evaluation)
		defer cancel()
	}
	return r.alerts.Evaluate(ctx, at)
}

// own is what this process knows, in the text format, its counts first.
func (r *Readings) own(ctx context.Context) ([]byte, error) {
	series := r.source.Series(ctx, time.Now())
	if series == nil {
		return nil, errors.New("the cluster has not been read yet")
	}
	text, err := gathered(r.counts)
	if err != nil {
		return nil, err
	}
	if text = append(text, series...); r.o.More == nil {
		return text, nil
	}
	if r.rounds++; r.rounds%moreEvery == 1 {
		if r.more, err = gathered(r.o.More); err != nil {
			return nil, err
		}
	}
	return append(text, r.more...), nil
}

// gathered are the metrics of Berth among those of a process, in the text format.
func gathered(from prometheus.Gatherer) ([]byte, error) {
	families, err := from.Gather()
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
	return b.Bytes(), nil
}

// room counts what a store has, and what it had no room for.
type room struct{ of *store.Store }

var (
	roomSeries  = prometheus.NewDesc("berth_readings_series", "Series that are kept.", nil, nil)                                             //nolint:gochecknoglobals // a constant
	roomRefused = prometheus.NewDesc("berth_readings_refused_total", "Samples that were left out, as there were too many series.", nil, nil) //nolint:gochecknoglobals // a constant
)

// Describe implements prometheus.Collector.
func (c room) Describe(to chan<- *prometheus.Desc) { to <- roomSeries; to <- roomRefused }

// Collect implements prometheus.Collector.
func (c room) Collect(to chan<- prometheus.Metric) {
	series, refused := c.of.Room()
	to <- prometheus.MustNewConstMetric(roomSeries, prometheus.GaugeValue, float64(series))
	to <- prometheus.MustNewConstMetric(roomRefused, prometheus.CounterValue, float64(refused))
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
