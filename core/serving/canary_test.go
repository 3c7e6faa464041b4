package serving_test

import (
	"strings"
	"testing"
	"time"

	"berth.dev/berth/core/serving"
)

func TestWhichRevisionKeepsAnswering(t *testing.T) {
	for _, tt := range []struct {
		name, all, newest string
		share             int // -1 is none
		stable            string
	}{
		{"a new revision with a share leaves the one before", "a@1 b", "b", 20, "a"},
		{"a share of 0 leaves it, too", "a@1 b", "b", 0, "a"},
		{"a share of 100 is that the new one takes its place", "a@1 b", "b", 100, ""},
		{"so is none", "a@1 b", "b", -1, ""},
		{"the first revision gets all", "a", "a", 20, ""},
		{"one that has been rolled out gets all", "a@1 b@2", "b", 20, ""},
		{"over a canary that another one follows", "a@1 b c", "c", 20, "a"},
		{"of two that were rolled out the last one stays", "a@1 b@2 c", "c", 20, "b"},
		{"a spec that goes back to the one before ends it", "a@2 b", "a", 20, ""},
		{"a spec that cannot be built has none", "a@1 b", "", 20, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &serving.Service{}
			if tt.share >= 0 {
				s.Canary = &tt.share
			}
			r, ok := serving.Stable(s, revisions(tt.all), tt.newest)
			if r.Name != tt.stable || ok != (tt.stable != "") {
				t.Errorf("%q (%v) keeps answering, want %q", r.Name, ok, tt.stable)
			}
		})
	}
}

func TestReplicasOfACanary(t *testing.T) {
	for _, tt := range []struct{ wanted, percent, n int }{{0, 50, 0}, {1, 0, 1}, {1, 20, 1}, {4, 50, 2}, {3, 50, 2}, {10, 20, 2}, {10, 21, 3}, {10, 99, 10}} {
		if n := serving.CanaryReplicas(tt.wanted, tt.percent); n != tt.n {
			t.Errorf("%d%% of %d replicas are %d, want %d", tt.percent, tt.wanted, n, tt.n)
		}
	}
}

// Over any 1,000 requests in a row, each share is exact within one.
func TestAShareIsExact(t *testing.T) {
	for percent := range 101 {
		var s serving.Share
		var got []bool
		for range 3000 {
			canary, ok, next := s.Choose(percent, true, true)
			if s = next; !ok {
				t.Fatal("no revision can take a request, although both can")
			}
			got = append(got, canary)
		}
		n := 0
		for i, canary := range got {
			if canary {
				n++
			}
			if i >= 1000 && got[i-1000] {
				n--
			}
			if i >= 999 && (n < percent*10-1 || n > percent*10+1) {
				t.Fatalf("%d of 1000 requests up to number %d go to a canary of %d%%", n, i, percent)
			}
		}
	}
}

// However replicas come and go, a request goes to a revision that can take it, and to none only if none can.
func TestARequestGoesToWhatCanTakeIt(t *testing.T) {
	var s serving.Share
	seed := uint32(1)
	missed, late := 0, 0
	for step := range 100_000 {
		seed = seed*1664525 + 1013904223
		stable, canary, percent := seed>>30&1 == 1, seed>>29&1 == 1, int(seed>>20%101)
		to, ok, next := s.Choose(percent, stable, canary)
		s = next
		switch usable := canary && percent > 0; {
		case ok != (stable || usable):
			t.Fatalf("step %d: a request is sent: %v, with stable %v and a canary of %d%% %v", step, ok, stable, percent, canary)
		case ok && to && !usable || ok && !to && !stable:
			t.Fatalf("step %d: a request goes to a revision that cannot take it", step)
		}
	}
	s = serving.Share{}
	for range 1000 { // without the canary
		_, _, s = s.Choose(20, true, false)
		missed++
	}
	for range 10 {
		to, _, next := s.Choose(20, true, true)
		if s = next; to {
			late++
		}
	}
	if late > 3 {
		t.Errorf("a canary that missed %d requests gets %d of the next 10", missed, late)
	}
}

// outcomes are those of answers that all took as long, some with errors.
func outcomes(answers, errors int, took time.Duration) (o serving.Outcomes) {
	o.Answers, o.Errors = answers, errors
	o.Times[serving.Step(took)] = answers - errors
	return o
}

func TestACanaryIsJudged(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		name           string
		stable, canary serving.Outcomes
		limits, why    string
	}{
		{"as good as the one before", outcomes(100, 0, 20*ms), outcomes(25, 0, 20*ms), "", ""},
		{"too few answers", outcomes(100, 0, 20*ms), outcomes(19, 19, 20*ms), "", ""},
		{"a fifth are errors", outcomes(100, 0, 20*ms), outcomes(20, 4, 20*ms), "", "4 of its 20 answers were errors (20%), and 0 of 100 of the revision before (0%)"},
		{"two of 20 may be chance", outcomes(100, 0, 20*ms), outcomes(20, 2, 20*ms), "", ""},
		{"as many errors as the one before", outcomes(100, 30, 20*ms), outcomes(20, 7, 20*ms), "", ""},
		{"errors, and the one before was not asked", outcomes(0, 0, 0), outcomes(20, 20, 20*ms), "", "20 of its 20 answers were errors (100%), and 0 of 0"},
		{"three times as slow", outcomes(100, 0, 100*ms), outcomes(20, 0, 300*ms), "", "95% of its 20 answers took up to 330ms, and those of the revision before up to 110ms (100 answers)"},
		{"three times as slow, but by less than 50 ms", outcomes(100, 0, 10*ms), outcomes(20, 0, 30*ms), "", ""},
		{"slow, and nothing to compare it with", outcomes(10, 0, 100*ms), outcomes(20, 0, 300*ms), "", ""},
		{"slow, with a limit that allows it", outcomes(100, 0, 100*ms), outcomes(20, 0, 300*ms), "latency=4", ""},
		{"slow, where latency is not looked at", outcomes(100, 0, 100*ms), outcomes(20, 0, 300*ms), "latency=0", ""},
		{"errors, where they are not looked at", outcomes(100, 0, 20*ms), outcomes(20, 20, 20*ms), "errors=0", ""},
		{"a stricter limit, by more answers", outcomes(400, 0, 20*ms), outcomes(100, 2, 20*ms), "requests=100, errors=1", "2 of its 100 answers were errors"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, err := serving.ParseCanaryLimits(tt.limits)
			if err != nil {
				t.Fatal(err)
			}
			s := &serving.Split{Stable: tt.stable, Canary: tt.canary}
			if why := s.Judge(l); !strings.HasPrefix(why, tt.why) || (why == "") != (tt.why == "") {
				t.Errorf("the canary is backed out because %q, want %q", why, tt.why)
			}
		})
	}
}

func TestCanaryLimitsThatAreNone(t *testing.T) {
	for text, want := range map[string]string{
		"errors": `"errors" is not a limit`, "errors=-1": "is not a limit", "errors=NaN": "is not a limit", "requests=0": "whole number from 1", "requests=1.5": "whole number from 1",
		"latency=0.5": "from 1", "p95=3": "\"p95\" is not a limit; there are requests, errors, and latency",
	} {
		if _, err := serving.ParseCanaryLimits(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestFiguresOfSeveralPlacesAddUp(t *testing.T) {
	a := &serving.Split{Revision: "b", Percent: 20, Stable: outcomes(8, 1, time.Millisecond), Canary: outcomes(2, 2, time.Second)}
	if sum := a.Plus(nil).Plus(a); sum.Stable.Answers != 16 || sum.Canary.Errors != 4 || sum.Stable.Times[0] != 14 || a.Stable.Answers != 8 {
		t.Errorf("twice %+v are %+v", a, sum)
	}
	if sum := a.Plus(&serving.Split{Revision: "b", Percent: 30}); *sum != (serving.Split{}) {
		t.Errorf("figures of two shares add up to %+v", sum)
	}
}

func TestStepsOfTimes(t *testing.T) {
	was := time.Duration(0)
	for d := time.Millisecond; d < 10*time.Minute; d += d / 50 {
		var h serving.Histogram
		h[serving.Step(d)] = 1
		q := h.Quantile(0.95)
		if q < was || d < 2*time.Minute && (float64(q) < 0.95*float64(d) || float64(q) > 1.3*float64(d)) {
			t.Fatalf("%s is counted as %s, after %s", d, q, was)
		}
		was = q
	}
	if (&serving.Histogram{}).Quantile(0.95) != 0 {
		t.Error("there is a time of no answers")
	}
}

func TestWhatIsSaidOfACanary(t *testing.T) {
	ready := serving.Seen{Service: &serving.Service{}, Wanted: 2, Ready: 2}
	for _, tt := range []struct {
		name                   string
		canary                 serving.CanarySeen
		is                     serving.Truth
		reason, message, queue string
	}{
		{"one that answers", serving.CanarySeen{Percent: 20, Effective: 20, Ready: 1, Wanted: 1}, serving.True, "Canary", "2 of 2 replicas ready; the new revision gets 20% of the requests", ""},
		{"a canary that waits for a GPU", serving.CanarySeen{Percent: 20, Effective: 20, Wanted: 1, Waits: "no node has a free GPU"}, serving.False, "Canary", "; the new revision is to get 20% of the requests, and waits: no node has a free GPU", "no node has a free GPU"},
		{"one that starts", serving.CanarySeen{Percent: 20, Effective: 20, Wanted: 1}, serving.False, "Canary", ", and starts", ""},
		{"one whose model is wrong", serving.CanarySeen{Percent: 20, Effective: 20, Wanted: 1, Fault: &serving.Fault{Reason: "ModelLoadFailed", Message: "no model"}}, serving.False, "Canary", "of the requests: no model", ""},
		{"one that was backed out", serving.CanarySeen{Percent: 20, Ready: 1, Wanted: 1, BackedOut: "too slow"}, serving.False, "CanaryBackedOut", "; the new revision was backed out and gets no requests: too slow", ""},
		{"requests cannot be divided", serving.CanarySeen{Percent: 20, Effective: 20, Blocked: "no activator"}, serving.False, "Canary", "; the new revision waits: no activator", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := ready
			s.Canary = &tt.canary
			state := serving.StateOf(&s)
			if state.Predictor.Is != serving.True || state.Predictor.Reason != tt.reason || !strings.HasSuffix(state.Predictor.Message, tt.message) || state.Canary.Is != tt.is || state.Queued.Message != tt.queue {
				t.Errorf("it says %+v, and of the canary %+v", state, state.Canary)
			}
		})
	}
	ready.Service = &serving.Service{Stopped: true}
	ready.Canary = &serving.CanarySeen{}
	if state := serving.StateOf(&ready); state.Canary != nil {
		t.Errorf("a stopped service says of its canary %+v", state.Canary)
	}
}
