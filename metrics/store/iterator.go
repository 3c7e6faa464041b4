package store

import (
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// iterator goes through the samples of a series, chunk by chunk, and at last through a copy of its head.
type iterator struct {
	of     *selected
	next   int // of the chunks
	head   []byte
	headed bool // the head has been taken
	chunk  chunkenc.XORChunk
	inner  chunkenc.Iterator // of the chunk; nil is before the first
	spare  chunkenc.Iterator
	t      int64
	value  float64
	state  chunkenc.ValueType
	ended  bool
	err    error
}

func (it *iterator) begin(s *selected) {
	*it = iterator{of: s, head: it.head[:0], spare: it.spare}
}

// open goes to the next chunk with samples from a time on.
func (it *iterator) open(from int64) bool {
	s := it.of.store
	s.mu.RLock()
	defer s.mu.RUnlock()
	var raw []byte
	for raw == nil && it.next < len(it.of.chunks) {
		r := &it.of.chunks[it.next]
		it.next++
		switch {
		case int64(r.start)*s.step > it.of.to:
			return false
		case int64(r.end())*s.step >= from:
			raw = s.slabs.of(r)
		}
	}
	if raw == nil && !it.headed {
		it.headed = true
		if raw = it.copyHead(); raw == nil {
			return false
		}
	}
	if raw == nil {
		return false
	}
	it.chunk.Reset(raw)
	it.inner = it.chunk.Iterator(it.spare)
	it.spare = it.inner
	return true
}

// copyHead returns what has come since the series was selected. The head may have been put away by then: it is among the chunks.
func (it *iterator) copyHead() []byte {
	s, r := it.of.store, it.of.series
	if n := len(it.of.chunks); n < len(r.chunks) {
		var after uint32
		if n > 0 {
			after = it.of.chunks[n-1].end()
		}
		for i := range r.chunks {
			if c := &r.chunks[i]; c.start > after && int64(c.start)*s.step <= it.of.to {
				it.headed = false
				it.of.chunks, it.next = r.chunks, i+1
				return s.slabs.of(c)
			}
		}
	}
	if r.head == nil || int64(r.first)*s.step > it.of.to {
		return nil
	}
	it.head = append(it.head[:0], r.head.Bytes()...)
	return it.head
}

// Next implements chunkenc.Iterator.
func (it *iterator) Next() chunkenc.ValueType { return it.forward(it.of.from) }

// millis is a time in milliseconds since 1970.
type millis = int64

// Seek implements chunkenc.Iterator.
func (it *iterator) Seek(t millis) chunkenc.ValueType {
	if it.state == chunkenc.ValFloat && it.t >= t {
		return it.state
	}
	return it.forward(max(t, it.of.from))
}

// forward goes to the next sample from a time on.
func (it *iterator) forward(from int64) chunkenc.ValueType {
	if it.of.last {
		return it.only(from)
	}
	for !it.ended {
		if it.inner == nil && !it.open(from) {
			break
		}
		for it.inner.Next() == chunkenc.ValFloat {
			t, v := it.inner.At()
			if t > it.of.to {
				it.ended, it.state = true, chunkenc.ValNone
				return it.state
			}
			if t >= from && (it.state == chunkenc.ValNone || t > it.t) {
				it.t, it.value, it.state = t, v, chunkenc.ValFloat
				return it.state
			}
		}
		if err := it.inner.Err(); err != nil {
			it.err = err
			break
		}
		it.inner = nil
	}
	it.ended, it.state = true, chunkenc.ValNone
	return it.state
}

// only goes to the one sample that there is.
func (it *iterator) only(from int64) chunkenc.ValueType {
	if it.ended || it.of.t < from {
		it.ended, it.state = true, chunkenc.ValNone
		return it.state
	}
	it.ended, it.t, it.value, it.state = true, it.of.t, it.of.value, chunkenc.ValFloat
	return it.state
}

// At implements chunkenc.Iterator.
func (it *iterator) At() (t int64, value float64) { return it.t, it.value }

// AtT implements chunkenc.Iterator.
func (it *iterator) AtT() int64 { return it.t }

// AtHistogram implements chunkenc.Iterator: there are none.
func (it *iterator) AtHistogram(*histogram.Histogram) (int64, *histogram.Histogram) { return 0, nil }

// AtFloatHistogram implements chunkenc.Iterator: there are none.
func (it *iterator) AtFloatHistogram(*histogram.FloatHistogram) (int64, *histogram.FloatHistogram) {
	return 0, nil
}

// Err implements chunkenc.Iterator.
func (it *iterator) Err() error { return it.err }
