package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAPartReplacesItsOwnSectionAndNoOther(t *testing.T) {
	old := page([]section{{"start", "begins\n\n| a | b |"}, {"pods", "old"}, {"build", "compiles"}})
	got := page(merge(readSections(old), section{"pods", "new"}))
	want := strings.Replace(old, "old", "new", 1)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestSectionsStandInTheOrderOfParts(t *testing.T) {
	got := merge([]section{{"build", "b"}, {"gone", "g"}, {"start", "s"}}, section{"gang", "new"})
	want := []section{{"start", "s"}, {"gang", "new"}, {"build", "b"}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(section{})); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		name string
		f    figure
		want string
	}{
		{"a figure without an aim has none", figure{values: []float64{1}}, ""},
		{"the median counts", figure{values: []float64{1, 2, 9}, aim: 2}, "reached"},
		{"each value counts where it says so", figure{values: []float64{1, 2, 9}, aim: 2, each: true}, "**missed**"},
		{"each value must be enough where it says so", figure{values: []float64{1, 2, 9}, least: 2, each: true}, "**missed**"},
		{"less than nothing is not too much", figure{values: []float64{-1}, aim: 5}, "reached"},
		{"too little misses", figure{values: []float64{1.1}, least: 1.15}, "**missed**"},
		{"a busy machine excuses a miss", figure{values: []float64{3}, aim: 2, busy: true}, "invalid: busy machine"},
		{"a busy machine does not spoil CPU time that is low enough", figure{values: []float64{2}, aim: 2, busy: true}, "reached"},
		{"a figure says why it does not count", figure{values: []float64{1}, aim: 2, void: "too few pods"}, "invalid: too few pods"},
		{"a busy machine spoils wall times", figure{values: []float64{2}, aim: 2, wall: true, busy: true}, "invalid: busy machine"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.f.verdict(); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestASectionSaysWhenItsLoadWasDivided(t *testing.T) {
	r := &report{divide: 10, figures: []figure{{what: "speed", values: []float64{3}, unit: "m/s", how: "by foot"}}}
	text := r.section(time.Unix(0, 0), time.Unix(90, 0))
	for _, want := range []string{"10th of the load", "took 1m30s", "| speed | 3 m/s | – |  | by foot |"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q lacks %q", text, want)
		}
	}
}
