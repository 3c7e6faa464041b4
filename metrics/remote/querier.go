package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"time"

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
	failed   func(error)
}

// Close implements storage.Querier.
func (q *Querier) Close() error { return nil }

// Select implements storage.Querier.
func (q *Querier) Select(ctx context.Context, _ bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	targets, put := q.of.known()
	expr, ok := q.of.selector(targets, put, matchers)
	if !ok {
		return &set{}
	}
	if down := q.of.isDown(); down != nil {
		return q.without(down)
	}
	list, err := q.ask(ctx, hints, expr)
	if err != nil {
		q.failed(err)
		if !q.lenient {
			return &set{err: fmt.Errorf("ask Prometheus %s: %w", q.of.Name, err)}
		}
		return q.without(err)
	}
	out := &set{}
	for i, is := range q.of.all(list) {
		if is.ok && fits(is.Labels, matchers) {
			out.list = append(out.list, store.NewSeries(is.Labels, list[i].points))
		}
	}
	slices.SortStableFunc(out.list, func(a, b storage.Series) int { return labels.Compare(a.Labels(), b.Labels()) })
	out.list = slices.CompactFunc(out.list, func(a, b storage.Series) bool { return labels.Equal(a.Labels(), b.Labels()) })
	return out
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

// ask gets series as they are needed: only their labels, their last samples, or samples on the ticks of the store, with an end where one is missing.
func (q *Querier) ask(ctx context.Context, hints *storage.SelectHints, expr string) (out []got, err error) {
	from, to := q.from, q.to
	if hints == nil {
		return q.series(ctx, expr)
	}
	if hints.Start != 0 || hints.End != 0 {
		from, to = hints.Start, hints.End
	}
	if hints.Range == 0 && to-from <= lookback.Milliseconds() {
		list, err := q.of.at(ctx, expr, time.UnixMilli(to))
		for _, s := range list {
			out = append(out, got{s.Metric, []store.Point{store.Point(s.Value)}})
		}
		return out, err
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
	list, err := q.of.over(ctx, expr, first, last, step)
	for _, s := range list {
		out = append(out, got{s.Metric, withEnds(s.Values, last, step)})
	}
	return out, err
}

// withEnds are samples with an end where the next one is missing.
func withEnds(list samples, last, step int64) []store.Point {
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
