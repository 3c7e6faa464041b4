package queue_test

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"
	"time"

	"berth.dev/berth/core/queue"
)

// TestWhatIsRememberedAnswersAlike has random workloads end, and compares RunTimes with those made of its samples,
// also after more have ended for both.
func TestWhatIsRememberedAnswersAlike(t *testing.T) {
	for seed := range int64(20) {
		rnd, r := rand.New(rand.NewSource(seed)), queue.NewRunTimes()
		end := func(to ...*queue.RunTimes) {
			k := rnd.Intn(6)
			ran := time.Duration(rnd.Intn(10_000)) * time.Second
			for _, one := range to {
				one.Ended(queue.Template{Name: fmt.Sprint("t", k), Class: fmt.Sprint("c", k%2)}, ran)
			}
		}
		for range rnd.Intn(1500) {
			end(r)
		}
		again := queue.Remembered(r.Samples(100))
		for range 100 {
			end(r, again)
		}
		for k := range 8 {
			of := queue.Template{Name: fmt.Sprint("t", k), Class: fmt.Sprint("c", k%3)}
			for _, q := range []float64{0, 0.5, 0.9} {
				if a, b := r.Of(of), again.Of(of); a.Basis != b.Basis || a.Len() != b.Len() || a.Mean() != b.Mean() || a.Left(time.Hour, q) != b.Left(time.Hour, q) {
					t.Fatalf("seed %d, %v: %d of basis %d, then %d of basis %d", seed, of, a.Len(), a.Basis, b.Len(), b.Basis)
				}
			}
		}
	}
}

func TestTheTemplatesThatEndedLastAreRemembered(t *testing.T) {
	r := queue.NewRunTimes()
	for i := range 10 {
		r.Ended(queue.Template{Name: fmt.Sprint("t", i%5), Class: "c"}, time.Duration(i)*time.Second)
	}
	r.Ended(queue.Template{Name: "t1", Class: "c"}, time.Minute)
	var names []string
	for _, s := range r.Samples(3) {
		if s.Of == queue.TemplateBasis {
			names = append(names, s.Name)
		}
	}
	if want := []string{"t3", "t4", "t1"}; !slices.Equal(names, want) {
		t.Errorf("remembered are %v, want %v", names, want)
	}
}

func TestSamplesOfNoKnownBasisAreLeftOut(t *testing.T) {
	r := queue.Remembered([]queue.Sample{{Of: 77, Name: "a", Runs: []time.Duration{1, 2, 3, 4, 5}}, {Of: queue.ClassBasis, Name: "c", Runs: []time.Duration{-5, 1, 1, 1, 1}}})
	if got := r.Of(queue.Template{Name: "a", Class: "c"}); got.Basis != queue.ClassBasis || got.Len() != 5 || got.Left(0, 0) != 1 {
		t.Errorf("basis %d, %d runs, the shortest %v", got.Basis, got.Len(), got.Left(0, 0))
	}
}
