package explain_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"berth.dev/berth/core/explain"
)

// rows: NB-39 NB-66

// holds is a holder of a name that ends so many minutes after noon.
func holds(name string, by explain.EndKind, minutes int) explain.Holder {
	h := explain.Holder{Name: name, By: by}
	if by != explain.EndUnknown {
		h.Ends = noon.Add(time.Duration(minutes) * time.Minute)
	}
	return h
}

// atLeast is room once so many of the holders at some positions are gone.
func atLeast(n int, of ...int) func([]int) bool {
	return func(gone []int) bool {
		there := 0
		for _, i := range gone {
			if slices.Contains(of, i) {
				there++
			}
		}
		return there >= n
	}
}

func TestOpens(t *testing.T) {
	const (
		never    = explain.EndUnknown
		deadline = explain.EndDeadline
		leaving  = explain.EndTerminating
		rule     = explain.EndRule
		idle     = explain.EndIdle
	)
	tests := []struct {
		name    string
		ahead   int
		holders []explain.Holder
		room    func([]int) bool
		want    string
	}{
		{"nobody has an end", 0, []explain.Holder{holds("a/b", never, 0), holds("a/c", never, 0)}, atLeast(1, 0, 1), "unknown: none of the 2 workloads using these GPUs has a known end time"},
		{"one holder has none", 0, []explain.Holder{holds("a/b", never, 0)}, atLeast(1, 0), "unknown: a/b, which holds these GPUs, has no end that is known"},
		{"nobody holds anything", 0, nil, atLeast(1, 0), "unknown: no pod holds GPUs that it could use, so none will free any"},
		{"there is room already", 0, []explain.Holder{holds("a/b", never, 0)}, atLeast(0), "at any moment: there is capacity now, unless something other than GPUs blocks it"},
		{"the first deadline is enough", 0, []explain.Holder{holds("a/late", deadline, 90), holds("a/soon", deadline, 30)}, atLeast(1, 0, 1), "room at the latest at 12:30 UTC, when a/soon reaches its activeDeadlineSeconds"},
		{"only the one that holds enough is named", 0, []explain.Holder{holds("a/other", deadline, 10), holds("a/large", deadline, 20)}, atLeast(1, 1), "room at the latest at 12:20 UTC, when a/large reaches its activeDeadlineSeconds"},
		{
			"two must end, one of them is being deleted", 0,
			[]explain.Holder{holds("a/b", leaving, 1), holds("a/c", deadline, 20), holds("a/d", never, 0)},
			atLeast(2, 0, 1, 2),
			"room at the latest at 12:20 UTC, when a/c reaches its activeDeadlineSeconds, and when a/b, which is being deleted, has ended",
		},
		{
			"an idle notebook is less certain than a deadline", 0,
			[]explain.Holder{holds("a/train", deadline, 60), holds("b/lazy", idle, 10)},
			atLeast(1, 0, 1),
			"room at the latest at 13:00 UTC, when a/train reaches its activeDeadlineSeconds; perhaps at 12:10 UTC, if nobody uses b/lazy until then: it is stopped for that",
		},
		{"a deadline before it needs no idle notebook", 0, []explain.Holder{holds("a/train", deadline, 5), holds("b/lazy", idle, 10)}, atLeast(1, 0, 1), "room at the latest at 12:05 UTC, when a/train reaches its activeDeadlineSeconds"},
		{"an idle notebook alone is perhaps", 0, []explain.Holder{holds("a/b", never, 0), holds("b/lazy", idle, 10)}, atLeast(1, 1), "room perhaps at 12:10 UTC, if nobody uses b/lazy until then: it is stopped for that"},
		{"what should have ended has no end", 0, []explain.Holder{holds("a/stuck", deadline, -1), holds("a/gone", leaving, 0)}, atLeast(1, 0, 1), "unknown: none of the 2 workloads using these GPUs has a known end time"},
		{"one ends and that is not enough", 0, []explain.Holder{holds("a/b", deadline, 9), holds("a/c", never, 0)}, atLeast(2, 0, 1), "unknown: of the 2 that hold these GPUs only a/b has an end, and what it gives back is not enough for it"},
		{"pods of one owner are one holder", 0, []explain.Holder{holds("a/b", deadline, 9), holds("a/b", deadline, 8), holds("a/c", never, 0)}, atLeast(2, 0, 1), "room at the latest at 12:09 UTC, when a/b reaches its activeDeadlineSeconds"},
		{"all end and that is not enough", 2, []explain.Holder{holds("a/b", deadline, 9), holds("a/c", idle, 8)}, atLeast(3), "unknown: what the 2 that hold these GPUs give back at their ends is not enough for it and the 2 that are ahead of it"},
		{"with others ahead it is about then", 1, []explain.Holder{holds("a/b", deadline, 9), holds("a/c", deadline, 8)}, atLeast(2, 0, 1), "room about 12:09 UTC, when a/b and a/c reach their activeDeadlineSeconds; that is for it and the one that is ahead of it"},
		{"a rule of a queue is certain", 0, []explain.Holder{holds("a/b", rule, 9), holds("a/c", idle, 10)}, atLeast(1, 0, 1), "room at the latest at 12:09 UTC, when a/b reaches the maxRunTime of its queue"},
		{"another day is named", 0, []explain.Holder{holds("a/b", deadline, 24*60)}, atLeast(1, 0), "room at the latest at 2026-11-22 12:00 UTC, when a/b reaches its activeDeadlineSeconds"},
		{
			"many are counted", 0,
			[]explain.Holder{holds("a/1", deadline, 1), holds("a/2", deadline, 2), holds("a/3", deadline, 3), holds("a/4", deadline, 4), holds("a/5", deadline, 5)},
			atLeast(5, 0, 1, 2, 3, 4),
			"room at the latest at 12:05 UTC, when a/1, a/2, a/3 and 2 more reach their activeDeadlineSeconds",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := explain.EstimateStart(noon, tt.ahead, tt.holders, tt.room)
			if got := o.Text(noon); got != tt.want {
				t.Errorf("it says\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

// TestTimesOfRoomAreRoundedUp: said in minutes, a bound stays one.
func TestTimesOfRoomAreRoundedUp(t *testing.T) {
	h := explain.Holder{Name: "a/b", By: explain.EndDeadline, Ends: noon.Add(61 * time.Second)}
	o := explain.EstimateStart(noon, 0, []explain.Holder{h}, atLeast(1, 0))
	if got := o.Text(noon); !strings.HasPrefix(got, "room at the latest at 12:02 UTC, ") || !o.AtLatest.At.Equal(h.Ends) {
		t.Errorf("it says %q of %v", got, o.AtLatest.At)
	}
}

// TestOpensAgreesWithTryingAll compares with all sets of ends, on random holders of
// GPUs of a few nodes: the times are the first by which there is room, there is room
// with the holders that are named, and not without any of them.
func TestOpensAgreesWithTryingAll(t *testing.T) {
	for seed := range uint64(400) {
		chance := rand.New(rand.NewPCG(seed, 7))
		nodes, want := 1+chance.IntN(3), 1+chance.IntN(6)
		free, on, count := make([]int, nodes), []int{}, []int{}
		var holders []explain.Holder
		for i := range free {
			free[i] = chance.IntN(2)
		}
		for range chance.IntN(8) {
			h := holds(string(rune('a'+len(holders))), explain.EndKind(chance.IntN(4)), chance.IntN(12)-1)
			holders, on, count = append(holders, h), append(on, chance.IntN(nodes)), append(count, 1+chance.IntN(3))
		}
		room := func(gone []int) bool {
			left := slices.Clone(free)
			for _, i := range gone {
				left[on[i]] += count[i]
			}
			return slices.Max(left) >= want
		}
		o := explain.EstimateStart(noon, 0, holders, room)
		certain, all := tryAll(holders, room, false), tryAll(holders, room, true)
		if o.Now != room(nil) {
			t.Fatalf("seed %d: it fits now: %v, want %v", seed, o.Now, room(nil))
		}
		if o.Now {
			continue
		}
		if all.Equal(certain) {
			all = time.Time{}
		}
		if !o.AtLatest.At.Equal(certain) || !o.Perhaps.At.Equal(all) {
			t.Fatalf("seed %d: at the latest %v and perhaps %v, want %v and %v", seed, o.AtLatest.At, o.Perhaps.At, certain, all)
		}
		if none := certain.IsZero() && all.IsZero(); none != (o.Unknown != "") {
			t.Fatalf("seed %d: %q is said where there is no time: %v", seed, o.Unknown, none)
		}
		for _, b := range []explain.TimeBound{o.AtLatest, o.Perhaps} {
			rests(t, seed, &b, holders, room)
		}
	}
}

// rests checks that there is room with what a bound rests on, not without any of it,
// and that none of it ends later.
func rests(t *testing.T, seed uint64, b *explain.TimeBound, holders []explain.Holder, room func([]int) bool) {
	t.Helper()
	var gone []int
	for _, h := range b.Rests {
		gone = append(gone, slices.IndexFunc(holders, func(o explain.Holder) bool { return o.Name == h.Name }))
		if h.Ends.After(b.At) {
			t.Fatalf("seed %d: %s ends at %v, after %v", seed, h.Name, h.Ends, b.At)
		}
	}
	if len(gone) > 0 && !room(gone) {
		t.Fatalf("seed %d: there is no room without %v", seed, b.Rests)
	}
	for k := range gone {
		if room(slices.Delete(slices.Clone(gone), k, k+1)) {
			t.Fatalf("seed %d: %s is named, and there is room with it", seed, b.Rests[k].Name)
		}
	}
}

// tryAll is the first time by which there is room, by all sets of holders that end
// after noon; zero is never.
func tryAll(holders []explain.Holder, room func([]int) bool, idle bool) time.Time {
	var best time.Time
	for set := range 1 << len(holders) {
		var gone []int
		var last time.Time
		ok := true
		for i, h := range holders {
			if set&(1<<i) == 0 {
				continue
			}
			ok = ok && h.By != explain.EndUnknown && h.Ends.After(noon) && (idle || h.By != explain.EndIdle)
			gone, last = append(gone, i), slices.MaxFunc([]time.Time{last, h.Ends}, time.Time.Compare)
		}
		if ok && len(gone) > 0 && room(gone) && (best.IsZero() || cmp.Compare(last.UnixNano(), best.UnixNano()) < 0) {
			best = last
		}
	}
	return best
}
