package forecast_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/core/forecast"
)

var began = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

// submitted is a job with an estimate that was made at began.
func submitted(id string, gpus float64, estimated, by time.Duration) forecast.Submission {
	return forecast.Submission{ID: id, At: began, Outcome: forecast.Outcome{Queue: "a", GPUs: gpus, Estimated: estimated, By: by}}
}

func TestWhatCameOfEstimatesIsMeasured(t *testing.T) {
	o := &forecast.Outcomes{}
	for _, s := range []struct {
		forecast.Submission
		came time.Duration
	}{
		{submitted("exact", 1, time.Hour, 2*time.Hour), time.Hour},
		{submitted("late", 1, time.Hour, 2*time.Hour), 4 * time.Hour},
		{submitted("soon", 1, time.Hour, forecast.Never), 30 * time.Minute},
		{submitted("short", 1, 6*time.Minute, 10*time.Minute), time.Minute},
		{submitted("unknown", 1, forecast.Never, forecast.Never), time.Hour},
		{submitted("large", 8, 2*time.Hour, 3*time.Hour), 4 * time.Hour},
	} {
		o.Submitted(s.Submission)
		if _, ok := o.Started(s.ID, began.Add(s.came)); !ok || o.Has(s.ID) {
			t.Errorf("%s: it has no outcome, or waits still", s.ID)
		}
	}
	o.Submitted(submitted("gone", 1, time.Hour, time.Hour))
	o.Left("gone")
	o.Submitted(submitted("stepped", 1, time.Hour, time.Hour))
	if _, ok := o.Started("stepped", began.Add(-time.Hour)); ok || o.Has("stepped") {
		t.Error("a job counts that has started before it was estimated")
	}
	if _, ok := o.Started("never seen", began); ok {
		t.Error("a job without an estimate has an outcome")
	}
	small := func(o *forecast.Outcome) bool { return o.GPUs < forecast.Large }
	// Errors: 0, 0.75, 1, and 5 of 10 minutes.
	if diff := cmp.Diff(forecast.Measure{Started: 4, Unknown: 1, Error: 0.75, Bounded: 3, Within: 2}, forecast.MeasureOf(o.List(), small)); diff != "" {
		t.Errorf("small jobs -want +got\n%s", diff)
	}
	large := func(o *forecast.Outcome) bool { return o.GPUs >= forecast.Large }
	if diff := cmp.Diff(forecast.Measure{Started: 1, Error: 0.5, Bounded: 1}, forecast.MeasureOf(o.List(), large)); diff != "" {
		t.Errorf("large jobs -want +got\n%s", diff)
	}
	if got := forecast.MeasureOf(nil, small); got != (forecast.Measure{}) {
		t.Errorf("of nothing: %+v", got)
	}
}

// TestTheWorstCaseIsCorrected: after twenty jobs that waited twice as long as was estimated, the next has twice the bound.
func TestTheWorstCaseIsCorrected(t *testing.T) {
	o := &forecast.Outcomes{}
	for i := range 40 {
		id := fmt.Sprint(i)
		o.Submitted(submitted(id, 1, time.Hour, 70*time.Minute))
		want := 70 * time.Minute
		if i >= 20 {
			want = 2 * time.Hour
		}
		if got := o.Waiting()[0].By; got != want {
			t.Errorf("after %d jobs nine of ten are expected by %v, want %v", i, got, want)
		}
		o.Started(id, began.Add(2*time.Hour))
	}
	if by, ok := o.Correct(time.Hour, 8); ok {
		t.Errorf("large jobs are corrected by small ones, to %v", by)
	}
	if by, ok := (*forecast.Outcomes)(nil).Correct(time.Hour, 1); ok {
		t.Errorf("nothing corrects to %v", by)
	}
	o = &forecast.Outcomes{}
	for i := range 40 {
		o.Submitted(submitted(fmt.Sprint(i), 1, time.Hour, 2*time.Hour))
		o.Started(fmt.Sprint(i), began.Add(time.Minute))
	}
	if by, _ := o.Correct(time.Hour, 1); by != time.Hour {
		t.Errorf("nine of ten are expected by %v, before half of them", by)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	o := &forecast.Outcomes{}
	for i := range 3 * forecast.OutcomesKept {
		id := fmt.Sprint(i)
		o.Submitted(submitted(id, 1, time.Hour, time.Hour))
		o.Started(id, began.Add(time.Duration(i)*time.Second))
	}
	for i := range 2 * forecast.WaitingKept {
		o.Submitted(submitted(fmt.Sprint("w", i), 1, time.Hour, time.Hour))
	}
	list := o.List()
	if len(list) != forecast.OutcomesKept || list[0].Came != 2*forecast.OutcomesKept*time.Second {
		t.Errorf("%d are remembered, the first with %v", len(list), list[0].Came)
	}
	if n := len(o.Waiting()); n != forecast.WaitingKept {
		t.Errorf("%d are remembered that wait", n)
	}
	if !o.Unsaved() || o.Unsaved() {
		t.Error("news are not said once")
	}
	again := forecast.RememberedOutcomes(list, o.Waiting())
	if diff := cmp.Diff(list, again.List()); diff != "" || again.Unsaved() || len(again.Waiting()) != forecast.WaitingKept {
		t.Errorf("remembered again -want +got\n%s", diff)
	}
}
