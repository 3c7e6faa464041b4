package scrape

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"berth.dev/berth/metrics/store"
)

// Target is what serves metrics.
type Target struct {
	// Job and Instance are labels of all its series, whatever it says itself.
	Job, Instance string
	// Fetch returns its metrics. It ends with the context.
	Fetch func(context.Context) ([]byte, error)
	// Drop names metrics that are left out.
	Drop []string
	// Samples is as Limits.Samples, of this target alone; 0 is that one.
	Samples int
	// Leaves is how many series of the store it leaves for other targets.
	Leaves int
}

func (t *Target) key() string { return t.Job + "\x00" + t.Instance }

// Limits bounds what one target may send. Zero values are the defaults.
type Limits struct {
	Samples  int           // 20,000; with more, none is taken
	Labels   int           // of a series: 40
	Text     int           // bytes of the labels of a series: 4,096
	Names    int           // metrics of all targets whose type and help are kept: 2,000
	Patience time.Duration // for one answer: 5 seconds
	AtOnce   int           // targets that are asked at the same time: 4
}

func (l *Limits) defaults() {
	for at, value := range map[*int]int{&l.Samples: 20000, &l.Labels: 40, &l.Text: 4096, &l.Names: 2000, &l.AtOnce: 4} {
		if *at <= 0 {
			*at = value
		}
	}
	if l.Patience <= 0 {
		l.Patience = 5 * time.Second
	}
}

// Metadata is what an exporter says of a metric.
type Metadata struct {
	Type string `json:"type"`
	Help string `json:"help"`
	Unit string `json:"unit"`
}

// Scraper reads targets into a store. Safe for concurrent use.
type Scraper struct {
	store  *store.Store
	limits Limits
	now    func() time.Time

	mu      sync.Mutex
	targets map[string]*known
	names   map[string]Metadata
}

// known is what is remembered of a target between two answers.
type known struct {
	mu     sync.Mutex // of one answer at a time
	series map[string]*one
	own    *store.Series // up
	took   *store.Series // scrape_duration_seconds
	count  *store.Series // scrape_samples_scraped
	round  uint64
	err    error
}

// one is a series of a target.
type one struct {
	series *store.Series
	name   string
	round  uint64
}

// New makes a scraper. now is the clock, for how long answers take.
func New(s *store.Store, l Limits, now func() time.Time) *Scraper {
	l.defaults()
	return &Scraper{store: s, limits: l, now: now, targets: map[string]*known{}, names: map[string]Metadata{}}
}

// Scrape reads all targets of a job into samples of one moment. It returns when all have answered or their time is over. A target that is
// missing since the last time ends: its series do, and no up is left.
func (s *Scraper) Scrape(ctx context.Context, at time.Time, job string, targets []Target) {
	s.retire(at, job, targets)
	slots := make(chan struct{}, s.limits.AtOnce)
	var all sync.WaitGroup
	for i := range targets {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			s.one(ctx, at, &targets[i])
		})
	}
	all.Wait()
}

// one asks a target.
func (s *Scraper) one(ctx context.Context, at time.Time, t *Target) {
	ctx, cancel := context.WithTimeout(ctx, s.limits.Patience)
	defer cancel()
	began := s.now()
	text, err := t.Fetch(ctx)
	s.take(at, t, text, err, s.now().Sub(began))
}

// Take reads what a target has said into samples of a moment: err is that it has said nothing.
func (s *Scraper) Take(at time.Time, t *Target, text []byte, err error) {
	s.take(at, t, text, err, 0)
}

func (s *Scraper) take(at time.Time, t *Target, text []byte, err error, took time.Duration) {
	k := s.known(t)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.round++
	var batch []store.Sample
	if err == nil {
		batch, err = s.parse(k, t, text)
	}
	up, count := 1.0, float64(len(batch))
	if k.err = err; err != nil {
		up, batch = 0, nil
		k.round++ // then all series of the last round are gone
	}
	batch = k.stale(batch)
	for series, v := range map[*store.Series]float64{k.own: up, k.took: took.Seconds(), k.count: count} {
		if series != nil {
			batch = append(batch, store.Sample{Series: series, Value: v})
		}
	}
	s.store.Append(at, batch)
}

// known returns what is remembered of a target.
func (s *Scraper) known(t *Target) *known {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.targets[t.key()]
	if k == nil {
		k = &known{series: map[string]*one{}}
		own := func(name string) *store.Series {
			r, _ := s.store.Series(labels.FromStrings(model.MetricNameLabel, name, "job", t.Job, "instance", t.Instance)) // without room there is none
			return r
		}
		k.own, k.took, k.count = own("up"), own("scrape_duration_seconds"), own("scrape_samples_scraped")
		s.targets[t.key()] = k
	}
	return k
}

// stale ends the series that the last answer did not have.
func (k *known) stale(batch []store.Sample) []store.Sample {
	for text, o := range k.series {
		if o.round != k.round {
			batch = append(batch, store.Sample{Series: o.series, Value: store.Stale()})
			delete(k.series, text)
		}
	}
	return batch
}

// retire ends the targets of a job that are not among those there are.
func (s *Scraper) retire(at time.Time, job string, targets []Target) {
	there := map[string]bool{}
	for i := range targets {
		there[targets[i].key()] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, k := range s.targets {
		if of, _, _ := cutKey(key); of != job || there[key] {
			continue
		}
		k.mu.Lock()
		k.round++
		batch := k.stale(nil)
		for _, r := range []*store.Series{k.own, k.took, k.count} {
			if r != nil {
				batch = append(batch, store.Sample{Series: r, Value: store.Stale()})
			}
		}
		k.mu.Unlock()
		s.store.Append(at, batch)
		delete(s.targets, key)
	}
}

// Names are the metrics that were read, with what their exporters say of them.
func (s *Scraper) Names() map[string]Metadata {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.names)
}

// Devices returns what a target last had of each GPU: by UUID, how many metrics.
func (s *Scraper) Devices(job, instance string) map[string]int {
	s.mu.Lock()
	k := s.targets[job+"\x00"+instance]
	s.mu.Unlock()
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	type metric struct{ uuid, name string }
	seen, out := map[metric]bool{}, map[string]int{}
	for _, o := range k.series {
		m := metric{o.series.Labels().Get("UUID"), o.name}
		if m.uuid != "" && !seen[m] {
			seen[m] = true
			out[m.uuid]++
		}
	}
	return out
}

// Counter reports whether exporters say of a metric that it is a counter.
func (s *Scraper) Counter(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names[name].Type == "counter"
}

// State is how a target is.
type State struct {
	Job, Instance string
	Series        int
	Err           error // of its last answer
}

// States returns how the targets are, in the order of job and instance.
func (s *Scraper) States() (out []State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(s.targets)) {
		k := s.targets[key]
		job, instance, _ := cutKey(key)
		k.mu.Lock()
		out = append(out, State{job, instance, len(k.series), k.err})
		k.mu.Unlock()
	}
	return out
}
