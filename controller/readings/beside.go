package readings

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"

	"berth.dev/berth/controller/proxy"
	"berth.dev/berth/internal/pause"
	"berth.dev/berth/metrics/remote"
)

const (
	lookEvery = 30 * time.Second // for a Prometheus, and what it reads
	lookPace  = 2 * time.Second  // at least, from one look to the next
	// evaluation is how long the alerts may take while a Prometheus is asked for them: the next round of readings does not wait.
	evaluation = 8 * time.Second
)

// readBy counts exporters by who reads them.
var readBy = prometheus.NewDesc("berth_readings_exporters", "Exporters of GPUs, by who reads them: berth, or a prometheus that is asked for what it has.", []string{"by"}, nil) //nolint:gochecknoglobals // a constant

// beside is the Prometheus that reads the same exporters.
type beside struct {
	transport http.RoundTripper // of requests to a URL
	at        string            // as Outside.Prometheus
	source    Source
	kick      chan struct{}
	seen      map[string]*remote.Prometheus // by name; only look has it

	mu     sync.Mutex
	used   *remote.Prometheus        // nil is none
	down   bool                      // it does not answer
	reads  map[string]bool           // instances that it reads
	wanted map[string]remote.Devices // what exporters have, by instance
}

func newBeside(at string, by http.RoundTripper, source Source) *beside {
	return &beside{at: at, transport: by, source: source, kick: make(chan struct{}, 1), seen: map[string]*remote.Prometheus{}, wanted: map[string]remote.Devices{}}
}

// now returns the Prometheus that is asked; nil is none.
func (b *beside) now() *remote.Prometheus {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// has reports whether a Prometheus reads an exporter, so it is not read here.
func (b *beside) has(instance string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reads[instance]
}

// note keeps what exporters have, as they were last read here: devices returns it of one. It reports whether there are others than before.
func (b *beside) note(instances []string, devices func(instance string) map[string]int) (others bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	wanted := map[string]remote.Devices{}
	for _, i := range instances {
		if wanted[i] = b.wanted[i]; !b.reads[i] {
			wanted[i] = devices(i)
		}
		others = others || len(b.wanted[i]) == 0 && len(wanted[i]) > 0
	}
	b.wanted = wanted
	return others
}

// soon has it looked at before its time.
func (b *beside) soon() {
	select {
	case b.kick <- struct{}{}:
	default:
	}
}

// run looks at what there is until ctx ends, the first time when soon is called.
func (b *beside) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.kick:
		case <-time.After(lookEvery):
		}
		b.look(ctx, time.Now())
		if !pause.For(ctx, lookPace) {
			return
		}
	}
}

// candidates are those that may be asked, the one that is used first.
func (b *beside) candidates(ctx context.Context) ([]*remote.Prometheus, error) {
	var list []proxy.Prometheus
	if b.at == FindPrometheus {
		var err error
		if list, err = b.source.Prometheuses(ctx); err != nil {
			return nil, err
		}
	} else if u, err := url.Parse(b.at); err == nil {
		list = []proxy.Prometheus{{Name: u.Host, Get: proxy.PrometheusAt(&http.Client{Transport: b.transport}, strings.TrimSuffix(u.String(), "/"))}}
	}
	var out []*remote.Prometheus
	for i := range list {
		p := b.seen[list[i].Name]
		if p == nil {
			p = remote.New(list[i].Name, remote.Ask(list[i].Get), remote.Options{Job: ExporterJob, Own: []string{ExporterJob, OwnJob}, Drop: dropped})
			b.seen[list[i].Name] = p
		}
		out = append(out, p)
	}
	used := b.now()
	slices.SortStableFunc(out, func(x, y *remote.Prometheus) int { return rank(x == used) - rank(y == used) })
	return out, nil
}

func rank(first bool) int {
	if first {
		return 0
	}
	return 1
}

// look finds the Prometheus that reads the most exporters. The one that is used stays if no other reads more. If it does not answer, what it read is read here.
func (b *beside) look(ctx context.Context, now time.Time) {
	b.mu.Lock()
	wanted := b.wanted
	b.mu.Unlock()
	list, why := b.candidates(ctx)
	var best *remote.Prometheus
	var reads map[string]bool
	for _, p := range list {
		found, err := p.Look(ctx, now, wanted)
		if p.SetDown(err); err != nil {
			klog.FromContext(ctx).V(2).Info("A Prometheus cannot be asked", "prometheus", p.Name, "err", err.Error())
			if p == b.now() {
				why = err
			}
			continue
		}
		if best == nil && p == b.now() || len(found) > len(reads) {
			best, reads = p, found
		}
	}
	if ctx.Err() == nil {
		b.use(ctx, best, reads, why)
	}
}

// use notes what a look has found, and says what is new.
func (b *beside) use(ctx context.Context, best *remote.Prometheus, reads map[string]bool, why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	log, was, before := klog.FromContext(ctx), b.used, len(b.reads)
	switch b.reads = reads; {
	case best == nil && was != nil:
		if why == nil {
			why = errors.New("its pod is not there")
		}
		was.SetDown(why)
		if !b.down {
			log.Info("The Prometheus is gone that read exporters of GPUs: they are read here again", "prometheus", was.Name, "exporters", before, "why", why.Error())
		}
		b.down = true
		return
	case best == nil:
		return
	case best != was || b.down || before != len(reads):
		log.Info("A Prometheus reads exporters of GPUs: it is asked, and they are not read here", "prometheus", best.Name, "exporters", len(reads), "of", len(b.wanted))
	}
	b.used, b.down = best, false
}

// Describe implements prometheus.Collector.
func (b *beside) Describe(ch chan<- *prometheus.Desc) { ch <- readBy }

// Collect implements prometheus.Collector.
func (b *beside) Collect(ch chan<- prometheus.Metric) {
	b.mu.Lock()
	defer b.mu.Unlock()
	there := 0
	for instance := range b.reads {
		if _, is := b.wanted[instance]; is {
			there++
		}
	}
	ch <- prometheus.MustNewConstMetric(readBy, prometheus.GaugeValue, float64(len(b.wanted)-there), "berth")
	ch <- prometheus.MustNewConstMetric(readBy, prometheus.GaugeValue, float64(there), "prometheus")
}
