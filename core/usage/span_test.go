package usage

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

const whole = 720720

var epoch = time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)

func at(minutes int) time.Time { return epoch.Add(time.Duration(minutes) * time.Minute) }

func TestSpans(t *testing.T) {
	two := Up{Parts: 2 * whole, From: at(0), To: at(60)}
	for _, c := range []struct {
		name    string
		up      Up
		holds   []Hold
		strands []Strand
		want    string
	}{
		{"a node without pods is idle", two, nil, nil, "0-60 idle=2"},
		{"a pod holds from its binding to its end", two, []Hold{{"a", whole, at(10), at(20)}}, nil, "0-10 idle=2; 10-20 a=1 idle=1; 20-60 idle=2"},
		{"what goes on is counted until now", Up{Parts: 2 * whole, From: at(0)}, []Hold{{"a", 2 * whole, at(10), time.Time{}}}, nil, "0-10 idle=2; 10-90 a=2"},
		{"a node that is not up yet costs nothing", Up{Parts: whole, From: at(100)}, nil, nil, ""},
		{"what a pod held before the node was up does not count", two, []Hold{{"a", whole, at(-10), at(10)}}, nil, "0-10 a=1 idle=1; 10-60 idle=2"},
		{"nor what it holds after the node is gone", two, []Hold{{"a", whole, at(50), at(70)}}, nil, "0-50 idle=2; 50-60 a=1 idle=1"},
		{"shares of one GPU", two, []Hold{{"a", whole / 4, at(0), at(60)}, {"b", whole / 2, at(0), at(60)}}, nil, "0-60 a=0.25 b=0.5 idle=1.25"},
		{"one pod after the other at the same moment", two, []Hold{{"a", 2 * whole, at(0), at(30)}, {"b", 2 * whole, at(30), at(60)}}, nil, "0-30 a=2; 30-60 b=2"},
		{"two holds of one pod are one", two, []Hold{{"a", whole, at(0), at(30)}, {"a", whole, at(0), at(30)}}, nil, "0-30 a=2; 30-60 idle=2"},
		{"a hold that ends before it begins is none", two, []Hold{{"a", whole, at(30), at(20)}}, nil, "0-60 idle=2"},
		{"a cordoned node strands what is free", two, []Hold{{"a", whole, at(0), at(30)}}, []Strand{{Cordoned, 2 * whole, at(15), time.Time{}}}, "0-15 a=1 idle=1; 15-30 a=1 cordoned=1; 30-60 cordoned=2"},
		{"what is stranded for two reasons is stranded once", two, nil, []Strand{{NoCPU, 2 * whole, at(0), at(60)}, {Unhealthy, whole, at(0), at(60)}}, "0-60 unhealthy=1 no-cpu=1"},
		{"a GPU that is held is not stranded", two, []Hold{{"a", 2 * whole, at(0), at(60)}}, []Strand{{Unhealthy, whole, at(0), at(60)}}, "0-60 a=2"},
		{"pods that hold more than there is are lowered in proportion", two, []Hold{{"a", 2 * whole, at(0), at(60)}, {"b", 2 * whole, at(30), at(60)}}, nil, "0-30 a=2; 30-60 a=1 b=1 over=2"},
		{"a node without GPUs has no account", Up{From: at(0), To: at(60)}, nil, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := text(Spans(c.up, c.holds, c.strands, at(90))); got != c.want {
				t.Errorf("the spans are\n%s, want\n%s", got, c.want)
			}
		})
	}
}

// text is spans as the table above has them: minutes, and GPUs.
func text(spans []Span) (out string) {
	for i, s := range spans {
		if i > 0 {
			out += "; "
		}
		out += fmt.Sprintf("%v-%v", s.From.Sub(epoch).Minutes(), s.To.Sub(epoch).Minutes())
		for _, sh := range s.Shares {
			name := sh.Pod + string(sh.Reason)
			if sh.Line == Idle {
				name = "idle"
			}
			out += fmt.Sprintf(" %s=%v", name, float64(sh.Parts)/whole)
		}
		if s.Over > 0 {
			out += fmt.Sprintf(" over=%v", float64(s.Over)/whole)
		}
	}
	return out
}

// TestSpansAreTheWholeNode compares random nodes with a slow account that looks at each moment by itself, and checks
// that all that the node has is in each span exactly once.
func TestSpansAreTheWholeNode(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 20))
		up := Up{Parts: int64(1+r.IntN(8)) * whole, From: at(r.IntN(20)), To: at(60 + r.IntN(60))}
		var holds []Hold
		var strands []Strand
		for k := range r.IntN(12) {
			holds = append(holds, Hold{fmt.Sprint("p", k%9), whole / int64(1+r.IntN(4)) * int64(1+r.IntN(3)), at(r.IntN(120)), at(r.IntN(140))})
		}
		for range r.IntN(4) {
			strands = append(strands, Strand{reasons[r.IntN(len(reasons))], whole * int64(r.IntN(3)), at(r.IntN(120)), at(r.IntN(140))})
		}
		spans := Spans(up, holds, strands, at(100))
		next := up.From
		for _, s := range spans {
			sum := int64(0)
			for _, sh := range s.Shares {
				if sum += sh.Parts; sh.Parts <= 0 {
					t.Fatalf("seed %d: a share is %d", seed, sh.Parts)
				}
			}
			if sum != up.Parts || !s.From.Equal(next) || !s.From.Before(s.To) {
				t.Fatalf("seed %d: a span from %v to %v has %d parts; want %d, from %v", seed, s.From, s.To, sum, up.Parts, next)
			}
			if want := slow(up, holds, strands, s.From); !slices.Equal(s.Shares, want) {
				t.Fatalf("seed %d: at %v are %v, want %v", seed, s.From, s.Shares, want)
			}
			if last := s.To.Add(-time.Millisecond); !slices.Equal(s.Shares, slow(up, holds, strands, last)) {
				t.Fatalf("seed %d: shares change before %v, within a span", seed, s.To)
			}
			next = s.To
		}
		if end := at(100); up.To.Before(end) && !next.Equal(up.To) || !up.To.Before(end) && !next.Equal(end) {
			t.Fatalf("seed %d: the account ends at %v", seed, next)
		}
	}
}

// slow is the shares of a node at a moment, by looking at all that there is.
func slow(up Up, holds []Hold, strands []Strand, now time.Time) (out []Share) {
	is := func(from, to time.Time) bool { return !now.Before(from) && now.Before(to) }
	pods, held := map[string]int64{}, int64(0)
	for _, h := range holds {
		if is(h.From, h.To) {
			pods[h.Pod] += h.Parts
			held += h.Parts
		}
	}
	var names []string
	for name := range pods {
		names = append(names, name)
	}
	slices.Sort(names)
	var weights []int64
	for _, name := range names {
		weights = append(weights, pods[name])
	}
	if held > up.Parts {
		weights = Divide(up.Parts, weights)
	}
	for k, name := range names {
		if weights[k] > 0 {
			out = append(out, Share{Line{Pod: name}, weights[k]})
		}
	}
	free := max(0, up.Parts-held)
	for _, reason := range reasons {
		all := int64(0)
		for _, s := range strands {
			if s.Reason == reason && is(s.From, s.To) {
				all += s.Parts
			}
		}
		if n := min(free, all); n > 0 {
			out, free = append(out, Share{Line{Reason: reason}, n}), free-n
		}
	}
	if free > 0 {
		out = append(out, Share{Idle, free})
	}
	return out
}

func TestDivide(t *testing.T) {
	for _, c := range []struct {
		total   int64
		weights []int64
		want    []int64
	}{
		{10, []int64{1, 1, 1}, []int64{4, 3, 3}},
		{1, []int64{1, 1}, []int64{1, 0}},
		{0, []int64{1, 2}, []int64{0, 0}},
		{7, []int64{0, 0}, []int64{0, 0}},
		{100, []int64{0, 5, 0}, []int64{0, 100, 0}},
		{1 << 62, []int64{1 << 61, 1 << 61}, []int64{1 << 61, 1 << 61}},
	} {
		if got := Divide(c.total, c.weights); !slices.Equal(got, c.want) {
			t.Errorf("Divide(%d, %v) is %v, want %v", c.total, c.weights, got, c.want)
		}
	}
}
