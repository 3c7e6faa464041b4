package rules

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/template"

	"berth.dev/berth/metrics/store"
)

// State is how an alert stands.
type State string

// The states of an alert.
const (
	Pending State = "pending" // its expression holds, not yet for long enough
	Firing  State = "firing"
)

// Alert is one thing that a rule has found.
type Alert struct {
	Rule        *Rule
	Labels      labels.Labels // with alertname and severity
	Annotations map[string]string
	State       State
	Since       time.Time // when its expression began to hold
	Value       float64
}

// Most is how many alerts of one rule there are at most: with more the rule fails.
const Most = 1000

// Evaluator evaluates rules over a store again and again, and writes into it what recording rules give, and the series ALERTS and ALERTS_FOR_STATE
// as Prometheus has them. Safe for concurrent use.
type Evaluator struct {
	engine *promql.Engine
	store  *store.Store
	data   storage.Queryable // that rules ask: the store, and what there may be beside it
	rules  []Rule

	mu     sync.Mutex
	active map[string]map[uint64]*Alert // by the name of the rule
	errs   map[string]error             // of the last round, by the name of a rule
	series map[uint64]*store.Series     // written in the last round
	last   time.Time
	took   time.Duration
	rounds int
}

// NewEvaluator evaluates rules over s. How long alerts have held goes on from what s has.
func NewEvaluator(engine *promql.Engine, s *store.Store, rules []Rule) *Evaluator {
	return &Evaluator{engine: engine, store: s, data: s, rules: rules, active: map[string]map[uint64]*Alert{}, errs: map[string]error{}, series: map[uint64]*store.Series{}}
}

// Ask has rules ask data in place of the store. It is called before the first Evaluate.
func (e *Evaluator) Ask(data storage.Queryable) { e.data = data }

// Evaluate looks at all rules at a moment, and returns what has begun to fire and what has ended: the latter with its State as it was.
func (e *Evaluator) Evaluate(ctx context.Context, at time.Time) (fires, ended []Alert) {
	began := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rounds++
	clear(e.errs)
	written := map[uint64]*store.Series{}
	for _, r := range Records() {
		vector, err := e.query(ctx, r.Expr, at)
		if err != nil {
			e.errs[r.Name] = err
			continue
		}
		var batch []store.Sample
		for _, s := range vector {
			named := labels.NewBuilder(s.Metric).Set(model.MetricNameLabel, r.Name).Labels()
			batch = e.put(batch, written, named, s.F)
		}
		e.store.Append(at, batch)
	}
	for i := range e.rules {
		f, g, err := e.rule(ctx, &e.rules[i], at)
		if err != nil { // it stays as it was
			e.errs[e.rules[i].Name] = err
		}
		fires, ended = append(fires, f...), append(ended, g...)
	}
	var batch []store.Sample
	for _, list := range e.active {
		for _, a := range list {
			batch = e.put(batch, written, labels.NewBuilder(a.Labels).Set(model.MetricNameLabel, "ALERTS").Set("alertstate", string(a.State)).Labels(), 1)
			batch = e.put(batch, written, labels.NewBuilder(a.Labels).Set(model.MetricNameLabel, "ALERTS_FOR_STATE").Labels(), float64(a.Since.Unix()))
		}
	}
	for hash, r := range e.series {
		if written[hash] == nil {
			batch = append(batch, store.Sample{Series: r, Value: store.Stale()})
		}
	}
	e.store.Append(at, batch)
	e.series, e.last, e.took = written, at, time.Since(began)
	return fires, ended
}

func (e *Evaluator) put(batch []store.Sample, written map[uint64]*store.Series, ls labels.Labels, v float64) []store.Sample {
	hash := ls.Hash()
	r := e.series[hash]
	if r == nil {
		var ok bool
		if r, ok = e.store.Series(ls); !ok {
			return batch
		}
	}
	written[hash] = r
	return append(batch, store.Sample{Series: r, Value: v})
}

func (e *Evaluator) query(ctx context.Context, expr string, at time.Time) (promql.Vector, error) {
	q, err := e.engine.NewInstantQuery(ctx, e.data, nil, expr, at)
	if err != nil {
		return nil, err
	}
	defer q.Close()
	got := q.Exec(ctx)
	if got.Err != nil {
		return nil, got.Err
	}
	switch v := got.Value.(type) {
	case promql.Vector:
		return slices.Clone(v), nil // the query has the rest
	case promql.Scalar:
		return promql.Vector{{F: v.V, T: v.T}}, nil
	}
	return nil, fmt.Errorf("gives a %s, and not a vector", got.Value.Type())
}

// rule looks at one alert.
func (e *Evaluator) rule(ctx context.Context, r *Rule, at time.Time) (fires, ended []Alert, err error) {
	vector, err := e.query(ctx, r.Expr, at)
	if err != nil {
		return nil, nil, err
	}
	if len(vector) > Most {
		return nil, nil, fmt.Errorf("it holds for %d series; at most %d are taken", len(vector), Most)
	}
	was, is := e.active[r.Name], map[uint64]*Alert{}
	for _, s := range vector {
		b := labels.NewBuilder(s.Metric).Del(model.MetricNameLabel).Set("alertname", r.Name).Set("severity", string(r.Severity))
		ls := b.Labels()
		hash := ls.Hash()
		a := was[hash]
		if a == nil {
			a = &Alert{Rule: r, Labels: ls, State: Pending, Since: e.since(r, ls, at)}
		}
		if a.Annotations == nil || a.Value != s.F { // they are made from the labels and the value
			a.Value, a.Annotations = s.F, e.annotations(ctx, r, ls, s.F, at)
		}
		if a.State == Pending && at.Sub(a.Since) >= r.For {
			a.State = Firing
			fires = append(fires, *a)
		}
		is[hash] = a
	}
	for hash, a := range was {
		if is[hash] == nil && a.State == Firing {
			ended = append(ended, *a)
		}
	}
	e.active[r.Name] = is
	return fires, ended, nil
}

// forgiven is how long nothing may have been evaluated for an alert to go on.
const forgiven = time.Hour

// since is when an alert began: what was written before this process started counts, without the time in which nothing was looked at.
func (e *Evaluator) since(r *Rule, ls labels.Labels, at time.Time) time.Time {
	if e.rounds > 2 || r.For == 0 {
		return at
	}
	began, seen, ok := e.store.Last(labels.NewBuilder(ls).Set(model.MetricNameLabel, "ALERTS_FOR_STATE").Labels())
	from := time.Unix(int64(began), 0)
	if !ok || at.Sub(seen) > forgiven || from.After(seen) {
		return at
	}
	return at.Add(from.Sub(seen))
}

// annotations fills in the texts of an alert.
func (e *Evaluator) annotations(ctx context.Context, r *Rule, ls labels.Labels, value float64, at time.Time) map[string]string {
	none := func(context.Context, string, time.Time) (promql.Vector, error) { return nil, nil }
	head := "{{$labels := .Labels}}{{$value := .Value}}"
	text, err := template.NewTemplateExpander(ctx, head+r.Summary, r.Name, template.AlertTemplateData(ls.Map(), nil, "", promql.Sample{F: value, Metric: ls}), model.TimeFromUnixNano(at.UnixNano()), none, &url.URL{}, nil).Expand()
	if err != nil {
		text = r.Name
	}
	return map[string]string{"summary": text, "runbook": r.Page()}
}

// Alerts returns what is pending and firing: what fires first, then by severity, name, and labels.
func (e *Evaluator) Alerts() []Alert {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []Alert
	for _, list := range e.active {
		for _, a := range list {
			out = append(out, *a)
		}
	}
	slices.SortFunc(out, func(a, b Alert) int {
		return cmp.Or(strings.Compare(string(a.State), string(b.State)), order(a.Rule.Severity)-order(b.Rule.Severity), strings.Compare(a.Rule.Name, b.Rule.Name), labels.Compare(a.Labels, b.Labels))
	})
	return out
}

func order(s Severity) int { return slices.Index([]Severity{Critical, Warning, Info}, s) }

// Round is what the last round of an evaluator was.
type Round struct {
	At   time.Time // zero is that there has been none
	Took time.Duration
	Errs map[string]error // by the name of the rule
}

// Last returns the last round.
func (e *Evaluator) Last() Round {
	e.mu.Lock()
	defer e.mu.Unlock()
	return Round{e.last, e.took, maps.Clone(e.errs)}
}

// Rules are those that are evaluated.
func (e *Evaluator) Rules() []Rule { return e.rules }
