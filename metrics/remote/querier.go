package remote

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"berth.dev/berth/metrics/store"
)

const (
	lookback = 5 * time.Minute  // of PromQL: how old the last sample of a series may be
	longest  = 26 * time.Hour   // that is asked for: the store has a day
	coarsest = time.Minute      // step of samples, for an expression without ranges that is evaluated less often
	finest   = 15 * time.Second // that of the store
)

// Querier asks a Prometheus.
type Querier struct {
	of       *Prometheus
	from, to int64
	lenient  bool // an error is a warning
	again    bool // the same is asked again and again, a little later each time
	failed   func(error)
}

// Close implements storage.Querier.
func (q *Querier) Close() error { return nil }

// Select implements storage.Querier.
func (q *Querier) Select(ctx context.Context, _ bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	targets, put := q.of.known()
	asked := matchers
	if q.again && hints != nil {
		asked = byName(matchers)
	}
	expr, ok := q.of.selector(targets, put, asked)
	if ok && q.again {
		_, ok = q.of.selector(targets, put, matchers) // which may name another job
	}
	if !ok {
		return &set{}
	}
	if down := q.of.isDown(); down != nil {
		return q.without(down)
	}
	list, err := q.found(ctx, hints, expr)
	if err != nil {
		q.failed(err)
		if !q.lenient {
			return &set{err: fmt.Errorf("ask Prometheus %s: %w", q.of.Name, err)}
		}
		return q.without(err)
	}
	slices.SortFunc(list, func(a, b one) int {
		return cmp.Or(labels.Compare(a.of.Labels, b.of.Labels), strings.Compare(a.of.text, b.of.text))
	})
	out := &set{}
	for i := 0; i < len(list); {
		same := list[i : i+1] // an exporter whose pod has another name has others there
		for i++; i < len(list) && labels.Equal(list[i].of.Labels, same[0].of.Labels); i++ {
			same = same[:len(same)+1]
		}
		if fits(same[0].of.Labels, matchers) {
			out.list = append(out.list, asOne(same))
		}
	}
	return out
}

// asOne is series with the same labels as one.
func asOne(list []one) storage.Series {
	parts := make([]storage.Series, len(list))
	for i, s := range list {
		parts[i] = store.NewSeries(s.of.Labels, s.points)
	}
	return store.Merge(parts...)
}

// byName are those matchers that name one metric; if there is none, all of them.
func byName(matchers []*labels.Matcher) []*labels.Matcher {
	for _, m := range matchers {
		if m.Name == model.MetricNameLabel && m.Type == labels.MatchEqual {
			return []*labels.Matcher{m}
		}
	}
	return matchers
}

// without is an answer of nothing, for people with a warning that says why.
func (q *Querier) without(why error) storage.SeriesSet {
	if !q.lenient {
		return &set{}
	}
	var w annotations.Annotations
	return &set{warnings: w.Add(fmt.Errorf("what Prometheus %s has read is missing: %w", q.of.Name, why))}
}

// got is a series of an answer.
type got struct {
	labels json.RawMessage // as the Prometheus has them
	points []store.Point
}

// one is a series with the labels of the store.
type one struct {
	of     *own
	points []store.Point
}

// found gets series of exporters as they are needed: only their labels, their last samples, or samples on the ticks of the store, with an end where one is missing.
func (q *Querier) found(ctx context.Context, hints *storage.SelectHints, expr string) ([]one, error) {
	if hints == nil {
		list, err := q.series(ctx, expr)
		return q.of.all(list), err
	}
	from, to := q.from, q.to
	if hints.Start != 0 || hints.End != 0 {
		from, to = hints.Start, hints.End
	}
	if hints.Range == 0 && to-from <= lookback.Milliseconds() {
		return q.moment(ctx, expr, to)
	}
	step := finest.Milliseconds()
	if hints.Range == 0 {
		step = max(step, min(hints.Step, coarsest.Milliseconds())/step*step)
	}
	from = max(from, to-longest.Milliseconds())
	first, last := (from+step-1)/step*step, to/step*step
	if first > last {
		return nil, nil
	}
	list, err := q.window(ctx, expr, first, last, step)
	for i := range list {
		list[i].points = withEnds(list[i].points, last, step)
	}
	return list, err
}

// moment gets the last samples at a time.
func (q *Querier) moment(ctx context.Context, expr string, at int64) ([]one, error) {
	if q.again {
		if list, ok := q.of.kept.moment(expr, at); ok {
			return list, nil
		}
	}
	answer, err := q.of.at(ctx, expr, time.UnixMilli(at))
	if err != nil {
		return nil, err
	}
	points, list := make([]store.Point, len(answer)), make([]got, len(answer))
	for i := range answer {
		points[i] = store.Point(answer[i].Value)
		list[i] = got{answer[i].Metric, points[i : i+1 : i+1]}
	}
	out := q.of.all(list)
	if q.again {
		q.of.kept.keepMoment(expr, at, out)
	}
	return out, nil
}

// window gets the samples at the ticks from a time to another. If the same is asked again later, only what may have changed is got.
func (q *Querier) window(ctx context.Context, expr string, first, last, step int64) ([]one, error) {
	if !q.again {
		return q.ticks(ctx, expr, first, last, step)
	}
	key := windowKey{expr, last - first, step}
	from, version := q.of.kept.since(key, first, last)
	var list []one
	var err error
	if from <= last {
		if list, err = q.ticks(ctx, expr, from, last, step); err != nil {
			return nil, err
		}
	}
	list, ok := q.of.kept.join(key, version, first, from, last, list)
	if !ok {
		return q.ticks(ctx, expr, first, last, step)
	}
	return list, nil
}

func (q *Querier) ticks(ctx context.Context, expr string, first, last, step int64) ([]one, error) {
	answer, err := q.of.over(ctx, expr, first, last, step)
	list := make([]got, 0, len(answer))
	for i := range answer {
		if s := &answer[i]; len(s.Values) > 0 {
			list = append(list, got{s.Metric, s.Values})
		}
	}
	return q.of.all(list), err
}

// withEnds are samples with an end where the next one is missing.
func withEnds(list []store.Point, last, step int64) []store.Point {
	out := make([]store.Point, 0, len(list)+1)
	for _, s := range list {
		if n := len(out); n > 0 && s.T > out[n-1].T+step {
			out = append(out, store.Point{T: out[n-1].T + step, V: store.Stale()})
		}
		out = append(out, s)
	}
	if n := len(out); n > 0 && out[n-1].T+step <= last {
		out = append(out, store.Point{T: out[n-1].T + step, V: store.Stale()})
	}
	return out
}

// series asks for the labels of series.
func (q *Querier) series(ctx context.Context, expr string) (out []got, err error) {
	from := max(q.from, q.to-longest.Milliseconds())
	list, err := get[[]json.RawMessage](ctx, q.of, "api/v1/series", url.Values{"match[]": {expr}, "start": {seconds(from)}, "end": {seconds(q.to)}})
	for _, ls := range list {
		out = append(out, got{labels: ls})
	}
	return out, err
}

func fits(ls labels.Labels, matchers []*labels.Matcher) bool {
	for _, m := range matchers {
		if !m.Matches(ls.Get(m.Name)) {
			return false
		}
	}
	return true
}

// LabelValues implements storage.LabelQuerier.
func (q *Querier) LabelValues(ctx context.Context, name string, _ *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return q.collect(ctx, matchers, func(ls labels.Labels, add func(string)) { add(ls.Get(name)) })
}

// LabelNames implements storage.LabelQuerier.
func (q *Querier) LabelNames(ctx context.Context, _ *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return q.collect(ctx, matchers, func(ls labels.Labels, add func(string)) { ls.Range(func(l labels.Label) { add(l.Name) }) })
}

// collect gathers texts of the labels of series, in order.
func (q *Querier) collect(ctx context.Context, matchers []*labels.Matcher, of func(ls labels.Labels, add func(string))) ([]string, annotations.Annotations, error) {
	seen := map[string]bool{}
	s := q.Select(ctx, true, nil, matchers...)
	for s.Next() {
		of(s.At().Labels(), func(text string) { seen[text] = true })
	}
	delete(seen, "")
	return sortedKeys(seen), s.Warnings(), s.Err()
}
