package store

import (
	"cmp"
	"slices"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// Point is a value at a time.
type Point struct {
	T int64 // milliseconds since 1970
	V float64
}

// NewSeries is a series of points in the order of their times.
func NewSeries(ls labels.Labels, points []Point) storage.Series {
	return &storage.SeriesEntry{Lset: ls, SampleIteratorFn: func(chunkenc.Iterator) chunkenc.Iterator { return &pointIterator{list: points, at: -1} }}
}

// Merge is several series with the same labels as one. If two points have the same time, the one counts that does not end the series.
func Merge(series ...storage.Series) storage.Series {
	if len(series) == 1 {
		return series[0]
	}
	return &storage.SeriesEntry{Lset: series[0].Labels(), SampleIteratorFn: func(chunkenc.Iterator) chunkenc.Iterator { return merged(series) }}
}

func merged(series []storage.Series) *pointIterator {
	var all []Point
	for _, s := range series {
		it := s.Iterator(nil)
		for it.Next() == chunkenc.ValFloat {
			t, v := it.At()
			all = append(all, Point{t, v})
		}
		if err := it.Err(); err != nil {
			return &pointIterator{err: err, at: -1}
		}
	}
	ends := func(p Point) int {
		if value.IsStaleNaN(p.V) {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(all, func(a, b Point) int { return cmp.Or(cmp.Compare(a.T, b.T), ends(a)-ends(b)) })
	return &pointIterator{list: slices.CompactFunc(all, func(a, b Point) bool { return a.T == b.T }), at: -1}
}

// pointIterator goes through points.
type pointIterator struct {
	list []Point
	at   int
	err  error
}

// Next implements chunkenc.Iterator.
func (p *pointIterator) Next() chunkenc.ValueType {
	p.at = min(p.at+1, len(p.list))
	return p.state()
}

// Seek implements chunkenc.Iterator.
func (p *pointIterator) Seek(t millis) chunkenc.ValueType {
	p.at = max(p.at, 0)
	for p.at < len(p.list) && p.list[p.at].T < t {
		p.at++
	}
	return p.state()
}

func (p *pointIterator) state() chunkenc.ValueType {
	if p.at >= len(p.list) {
		return chunkenc.ValNone
	}
	return chunkenc.ValFloat
}

// At implements chunkenc.Iterator.
func (p *pointIterator) At() (int64, float64) { return p.list[p.at].T, p.list[p.at].V }

// AtT implements chunkenc.Iterator.
func (p *pointIterator) AtT() int64 { return p.list[p.at].T }

// AtHistogram implements chunkenc.Iterator; there are none.
func (p *pointIterator) AtHistogram(*histogram.Histogram) (int64, *histogram.Histogram) {
	return 0, nil
}

// AtFloatHistogram implements chunkenc.Iterator; there are none.
func (p *pointIterator) AtFloatHistogram(*histogram.FloatHistogram) (int64, *histogram.FloatHistogram) {
	return 0, nil
}

// Err implements chunkenc.Iterator.
func (p *pointIterator) Err() error { return p.err }
