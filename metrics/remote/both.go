package remote

import (
	"maps"
	"slices"

	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"berth.dev/berth/metrics/store"
)

// Both asks a store, and a Prometheus as far as there is one.
type Both struct {
	Store *store.Store
	// Other returns the Prometheus that is used now; nil is none.
	Other func() *Prometheus
	// Failed is called when it does not answer.
	Failed func(error)
	// Lenient has its errors be warnings, so what the store has is answered.
	Lenient bool
	// Again is that the same expressions are evaluated again and again, a little later each time: answers are kept as far as they are needed again.
	Again bool
}

// Querier implements storage.Queryable.
func (b *Both) Querier(from, to int64) (storage.Querier, error) {
	own, err := b.Store.Querier(from, to)
	other := b.Other()
	if err != nil || other == nil {
		return own, err
	}
	q := &Querier{of: other, from: from, to: to, lenient: b.Lenient, again: b.Again, failed: b.Failed}
	return storage.NewMergeQuerier([]storage.Querier{own, q}, nil, store.Merge), nil
}

// set is series of an answer.
type set struct {
	list     []storage.Series
	at       int
	err      error
	warnings annotations.Annotations
}

// Next implements storage.SeriesSet.
func (s *set) Next() bool { s.at++; return s.at <= len(s.list) }

// At implements storage.SeriesSet.
func (s *set) At() storage.Series { return s.list[s.at-1] }

// Err implements storage.SeriesSet.
func (s *set) Err() error { return s.err }

// Warnings implements storage.SeriesSet.
func (s *set) Warnings() annotations.Annotations { return s.warnings }

func sortedKeys(m map[string]bool) []string { return slices.Sorted(maps.Keys(m)) }
