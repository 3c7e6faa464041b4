package quota_test

import (
	"slices"
	"testing"

	"berth.dev/berth/core/quota"
)

func TestSelection(t *testing.T) {
	a, b, c := quota.Kind{Product: "A"}, quota.Kind{Product: "B"}, quota.Kind{Product: "C"}
	list := []quota.Choice{{Kinds: []quota.Kind{a}, Count: 1}, {Kinds: []quota.Kind{b, c}, Count: 3}}
	for _, tt := range []struct {
		name string
		do   func(*quota.Selection) (got any)
		want any // what do returns
		has  []quota.Kind
	}{
		{"all choices are selected first", func(s *quota.Selection) any { return s.Len() }, 2, []quota.Kind{a, b, c}},
		{"one is selected alone", func(s *quota.Selection) any { return s.Select(1) }, 3, []quota.Kind{b, c}},
		{"all are selected again", func(s *quota.Selection) any { s.Select(1); return s.Select(-1) }, 0, []quota.Kind{a, b, c}},
		{"one that is not there is not selected", func(s *quota.Selection) any { s.Select(0); return s.Select(2) }, 0, []quota.Kind{a}},
		{"the next is the first", func(s *quota.Selection) any { s.Next(); return nil }, nil, []quota.Kind{a}},
		{"and then the one after it", func(s *quota.Selection) any { s.Next(); more := s.Fail(); s.Next(); return more }, true, []quota.Kind{b, c}},
		{"after the last, all are tried again", func(s *quota.Selection) any {
			s.Next()
			s.Fail()
			s.Next()
			return s.Fail()
		}, false, []quota.Kind{a, b, c}},
		{"and from the first", func(s *quota.Selection) any {
			for range 2 {
				s.Next()
				s.Fail()
			}
			s.Next()
			return nil
		}, nil, []quota.Kind{a}},
		{"nothing fails where all are selected", func(s *quota.Selection) any { return s.Fail() }, false, []quota.Kind{a, b, c}},
		{"what has failed stays known when choices are renewed", func(s *quota.Selection) any {
			s.Next()
			s.Fail()
			s.Renew(list)
			s.Next()
			return nil
		}, nil, []quota.Kind{b, c}},
		{"of fewer choices the last is the next", func(s *quota.Selection) any {
			s.Next()
			s.Fail()
			s.Renew(list[:1])
			s.Next()
			return nil
		}, nil, []quota.Kind{a}},
	} {
		s := quota.NewSelection(list)
		if got := tt.do(s); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
		if got := s.Kinds(); !slices.Equal(got, tt.has) {
			t.Errorf("%s: kinds %v, want %v", tt.name, got, tt.has)
		}
	}
	var none *quota.Selection
	if none.Next(); none.Len() != 0 || none.Select(0) != 0 || none.Select(-1) != 0 || none.Fail() || none.Kinds() != nil {
		t.Error("no Selection has a choice")
	}
}
