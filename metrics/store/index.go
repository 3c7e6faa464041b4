package store

import (
	"maps"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
)

func (s *Store) eachSeries(f func(*Series)) {
	for _, list := range s.byHash {
		for _, r := range list {
			f(r)
		}
	}
}

// link puts a series in the index.
func (s *Store) link(r *Series) {
	r.linked = true
	s.count++
	s.byHash[r.hash] = append(s.byHash[r.hash], r)
	r.labels.Range(func(l labels.Label) {
		values := s.index[l.Name]
		if values == nil {
			values = map[string][]*Series{}
			s.index[l.Name] = values
		}
		values[l.Value] = append(values[l.Value], r)
	})
}

// unlink takes series out of the index.
func (s *Store) unlink(dead []*Series) {
	if len(dead) == 0 {
		return
	}
	touched := map[labels.Label]bool{}
	for _, r := range dead {
		r.linked = false
		s.count--
		s.byHash[r.hash] = slices.DeleteFunc(s.byHash[r.hash], func(o *Series) bool { return o == r })
		if len(s.byHash[r.hash]) == 0 {
			delete(s.byHash, r.hash)
		}
		r.labels.Range(func(l labels.Label) { touched[l] = true })
	}
	for l := range touched {
		values := s.index[l.Name]
		// A new list: readers may have the old one.
		left := slices.DeleteFunc(slices.Clone(values[l.Value]), func(r *Series) bool { return !r.linked })
		switch {
		case len(left) > 0:
			values[l.Value] = left
		default:
			delete(values, l.Value)
			if len(values) == 0 {
				delete(s.index, l.Name)
			}
		}
	}
}

// matching returns the series that all matchers fit, in no order.
func (s *Store) matching(matchers []*labels.Matcher) []*Series {
	candidates, found := []*Series(nil), -1
	for i, m := range matchers {
		if m.Type != labels.MatchEqual || m.Value == "" {
			continue
		}
		if list := s.index[m.Name][m.Value]; found < 0 || len(list) < len(candidates) {
			candidates, found = list, i
		}
	}
	if found >= 0 && len(matchers) == 1 {
		return slices.Clone(candidates)
	}
	var out []*Series
	fits := func(r *Series) {
		for i, m := range matchers {
			if i != found && !m.Matches(r.labels.Get(m.Name)) {
				return
			}
		}
		out = append(out, r)
	}
	if found < 0 {
		s.eachSeries(fits)
		return out
	}
	for _, r := range candidates {
		fits(r)
	}
	return out
}

// names are the label names of the series that fit, in order; without matchers, of all.
func (s *Store) names(matchers []*labels.Matcher) []string {
	if len(matchers) == 0 {
		return slices.Sorted(maps.Keys(s.index))
	}
	found := map[string]bool{}
	for _, r := range s.matching(matchers) {
		r.labels.Range(func(l labels.Label) { found[l.Name] = true })
	}
	return slices.Sorted(maps.Keys(found))
}

// values are those of one label, in order.
func (s *Store) values(name string, matchers []*labels.Matcher) []string {
	if len(matchers) == 0 {
		return slices.Sorted(maps.Keys(s.index[name]))
	}
	found := map[string]bool{}
	for _, r := range s.matching(matchers) {
		if v := r.labels.Get(name); v != "" {
			found[v] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}
