package store

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
)

// Querier implements storage.Queryable. Times are milliseconds. It has to be closed.
func (s *Store) Querier(from, to int64) (storage.Querier, error) {
	s.readersMu.Lock()
	defer s.readersMu.Unlock()
	s.reader++
	s.readers[s.reader] = true
	return &querier{store: s, from: from, to: to, number: s.reader}, nil
}

// release returns memory that no reader has. The lock of the store is held.
func (s *Store) release() {
	if len(s.slabs.dying) == 0 {
		return
	}
	s.readersMu.Lock()
	oldest, newest := s.reader+1, s.reader
	for n := range s.readers {
		oldest = min(oldest, n)
	}
	s.readersMu.Unlock()
	s.slabs.free(oldest, newest)
}

type querier struct {
	store    *Store
	from, to int64
	number   uint64
}

// Close implements storage.Querier.
func (q *querier) Close() error {
	q.store.readersMu.Lock()
	defer q.store.readersMu.Unlock()
	delete(q.store.readers, q.number)
	return nil
}

// LabelValues implements storage.LabelQuerier.
func (q *querier) LabelValues(_ context.Context, name string, _ *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	q.store.mu.RLock()
	defer q.store.mu.RUnlock()
	return q.store.values(name, matchers), nil, nil
}

// LabelNames implements storage.LabelQuerier.
func (q *querier) LabelNames(_ context.Context, _ *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	q.store.mu.RLock()
	defer q.store.mu.RUnlock()
	return q.store.names(matchers), nil, nil
}

// Select implements storage.Querier. Series without samples in the time are left out.
func (q *querier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	if err := ctx.Err(); err != nil {
		return storage.ErrSeriesSet(err)
	}
	s := q.store
	from, to := q.from, q.to
	if hints != nil {
		from, to = hints.Start, hints.End
	}
	// Of an instant only the last sample counts, which is known without a chunk.
	instant := hints != nil && hints.Range == 0 && hints.Step == 0
	s.mu.RLock()
	defer s.mu.RUnlock()
	found := s.matching(matchers)
	set := &seriesSet{list: make([]selected, 0, len(found))}
	for _, r := range found {
		newest := int64(r.last) * s.step
		if r.last == 0 || newest < from || r.oldest(s.step) > to {
			continue
		}
		one := selected{store: s, series: r, from: from, to: to}
		if instant && newest <= to {
			one.last, one.t, one.value = true, newest, r.value
		} else {
			one.chunks = r.chunks
		}
		set.list = append(set.list, one)
	}
	if sorted {
		slices.SortFunc(set.list, func(a, b selected) int { return labels.Compare(a.series.labels, b.series.labels) })
	}
	if hints != nil && hints.Limit > 0 && len(set.list) > hints.Limit {
		set.list = set.list[:hints.Limit]
	}
	return set
}

// oldest is the time of the first sample.
func (r *Series) oldest(step int64) int64 {
	if len(r.chunks) > 0 {
		return int64(r.chunks[0].start) * step
	}
	return int64(r.first) * step
}

type seriesSet struct {
	list []selected
	at   int
}

// Next implements storage.SeriesSet.
func (s *seriesSet) Next() bool { s.at++; return s.at <= len(s.list) }

// At implements storage.SeriesSet.
func (s *seriesSet) At() storage.Series { return &s.list[s.at-1] }

// Err implements storage.SeriesSet.
func (s *seriesSet) Err() error { return nil }

// Warnings implements storage.SeriesSet.
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

// selected is a series of an answer: its full chunks as they were when it was selected.
type selected struct {
	store    *Store
	series   *Series
	chunks   []ref
	from, to int64
	last     bool // only its last sample
	t        int64
	value    float64
}

// Labels implements storage.Series.
func (s *selected) Labels() labels.Labels { return s.series.labels }

// Iterator implements storage.Series.
func (s *selected) Iterator(reuse chunkenc.Iterator) chunkenc.Iterator {
	it, ok := reuse.(*iterator)
	if !ok {
		it = &iterator{}
	}
	it.begin(s)
	return it
}

// Stale is the value that ends a series: PromQL has none of it from there on.
func Stale() float64 { return math.Float64frombits(value.StaleNaN) }

// Last returns the newest sample of a series that is not Stale: if that was the last, none.
func (s *Store) Last(ls labels.Labels) (v float64, at time.Time, ok bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, r := range s.byHash[ls.Hash()] {
		if labels.Equal(r.labels, ls) && r.last > 0 && !value.IsStaleNaN(r.value) {
			return r.value, time.UnixMilli(int64(r.last) * s.step).UTC(), true
		}
	}
	return 0, time.Time{}, false
}
