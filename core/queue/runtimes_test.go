package queue_test

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"
	"time"

	"berth.dev/berth/core/queue"
)

func TestRunTimesAreThoseOfTheClosestWorkloads(t *testing.T) {
	r := queue.NewRunTimes()
	train, other := queue.Template{Name: "ann/train", Class: "1 GPU"}, queue.Template{Name: "bob/train", Class: "1 GPU"}
	if got := r.Of(train); got.Basis != queue.NoBasis || got.Mean() != 0 || got.Left(time.Hour, 0.9) != 0 {
		t.Errorf("before any has ended: %+v", got)
	}
	for range 5 {
		r.Ended(queue.Template{Name: "cid/serve", Class: "8 GPUs"}, 10*time.Hour)
	}
	if got := r.Of(train); got.Basis != queue.AllBasis || got.Mean() != 10*time.Hour {
		t.Errorf("with others of another class: basis %d, mean %v", got.Basis, got.Mean())
	}
	for i := range 5 {
		r.Ended(other, time.Duration(i+1)*time.Minute)
	}
	if got := r.Of(train); got.Basis != queue.ClassBasis || got.Mean() != 3*time.Minute {
		t.Errorf("with others of the class: basis %d, mean %v", got.Basis, got.Mean())
	}
	for range 5 {
		r.Ended(train, time.Hour)
	}
	if got := r.Of(train); got.Basis != queue.TemplateBasis || got.Mean() != time.Hour {
		t.Errorf("with its own: basis %d, mean %v", got.Basis, got.Mean())
	}
}

func TestWhatIsLeftIsThatOfRunsThatTookLonger(t *testing.T) {
	r, of := queue.NewRunTimes(), queue.Template{Name: "a", Class: "b"}
	for i := range 10 {
		r.Ended(of, time.Duration(i+1)*time.Minute)
	}
	runs := r.Of(of)
	for _, c := range []struct {
		ran      time.Duration
		quantile float64
		want     time.Duration
	}{
		{0, 0.9, 10 * time.Minute},
		{0, 0, time.Minute},
		{5 * time.Minute, 0, time.Minute},
		{5 * time.Minute, 0.5, 3 * time.Minute},
		{9*time.Minute + 30*time.Second, 0.9, 30 * time.Second},
		{10 * time.Minute, 0.5, 10 * time.Minute}, // longer than any
		{time.Hour, 0.5, time.Hour},
	} {
		if got := runs.Left(c.ran, c.quantile); got != c.want {
			t.Errorf("after %v, at %v: %v is left, want %v", c.ran, c.quantile, got, c.want)
		}
	}
}

// TestRunTimesAreThoseOfTheLastRuns compares with a list of everything.
func TestRunTimesAreThoseOfTheLastRuns(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	r, all := queue.NewRunTimes(), map[string][]time.Duration{}
	for range 3000 {
		name, ran := fmt.Sprint("t", rng.Intn(4)), time.Duration(rng.Intn(1000))*time.Second
		r.Ended(queue.Template{Name: name}, ran)
		all[name] = append(all[name], ran)
		last := slices.Sorted(slices.Values(all[name][max(0, len(all[name])-64):]))
		if len(last) < 5 {
			continue
		}
		var sum time.Duration
		for _, d := range last {
			sum += d
		}
		got := r.Of(queue.Template{Name: name})
		if got.Len() != len(last) || got.Mean() != sum/time.Duration(len(last)) || got.Left(-1, 0.5) != last[len(last)/2]+1 {
			t.Fatalf("%s: %d runs, mean %v, median %v; want those of %v", name, got.Len(), got.Mean(), got.Left(-1, 0.5)-1, last)
		}
	}
}

func TestTemplatesThatAreOldAreForgotten(t *testing.T) {
	r := queue.NewRunTimes()
	old, kept := queue.Template{Name: "old", Class: "c"}, queue.Template{Name: "kept", Class: "c"}
	for range 5 {
		r.Ended(old, time.Hour)
		r.Ended(kept, 2*time.Hour)
	}
	for i := range 5000 {
		r.Ended(queue.Template{Name: fmt.Sprint(i), Class: "c"}, time.Minute)
		if i%1000 == 0 {
			r.Ended(kept, 2*time.Hour)
		}
	}
	if got := r.Of(kept); got.Basis != queue.TemplateBasis || got.Mean() != 2*time.Hour {
		t.Errorf("of the one that ran in between: basis %d, mean %v", got.Basis, got.Mean())
	}
	if got := r.Of(old); got.Basis != queue.ClassBasis {
		t.Errorf("of the old one: basis %d", got.Basis)
	}
}

func TestReadRunTime(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 0, "90m": 90 * time.Minute, "1h30m": 90 * time.Minute, "1.5h": 90 * time.Minute, "soon": -1, "90": -1, "0s": -1, "-5m": -1} {
		got, err := queue.ReadRunTime(text)
		if max(want, 0) != got || (err != nil) != (want < 0) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}
