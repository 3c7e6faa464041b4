package queue_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/core/queue"
)

var start = time.Unix(1e9, 0)

func when(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }

// came is a pod that came at a second.
func came(uid string, seconds float64, priority int32) queue.Ticket {
	return queue.Ticket{Age: queue.Age{Created: when(seconds), UID: uid}, Priority: priority}
}

// large is a pod, alone in its line, that could use the nodes that begin with n.
func large(uid string, seconds float64) *queue.Waiter {
	return &queue.Waiter{Ticket: came(uid, seconds, 0), ID: uid, Line: "line of " + uid, Since: when(seconds), Uses: func(node string) bool { return node[0] == 'n' }}
}

func TestOnlyOneThatIsOvertakenGetsAReservation(t *testing.T) {
	for _, tt := range []struct {
		name string
		by   queue.Ticket
		node string
		at   float64 // when it is refused last
		want bool
	}{
		{"a later pod on a node that it could use", came("late", 5, 0), "n0", 10, true},
		{"the same before it has waited long enough", came("late", 5, 0), "n0", 9.9, false},
		{"a later pod of lower priority", came("late", 5, -1), "n0", 10, true},
		{"a later pod of higher priority", came("late", 5, 1), "n0", 10, false},
		{"an earlier pod", came("early", -5, 0), "n0", 10, false},
		{"a later pod on a node that it cannot use", came("late", 5, 0), "other", 10, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := queue.NewReserver(10 * time.Second)
			if _, ok := r.Refused(large("w", 0), when(0)); ok {
				t.Fatal("a claim at once")
			}
			r.Bound(tt.by, tt.by.UID, tt.node)
			if claim, ok := r.Refused(large("w", 0), when(tt.at)); ok != tt.want || ok && !claim.Until.Equal(when(tt.at+60)) {
				t.Errorf("claim %+v, %v; want %v", claim, ok, tt.want)
			}
		})
	}
}

func TestLeasesDoubleWithPausesBetween(t *testing.T) {
	r := queue.NewReserver(10 * time.Second)
	r.Refused(large("w", 0), when(0))
	r.Bound(came("late", 1, 0), "late", "n0")
	now, want := 10.0, 60.0
	for range 8 {
		claim, ok := r.Refused(large("w", 0), when(now))
		if !ok || !claim.Until.Equal(when(now+want)) {
			t.Fatalf("at %v s: claim until %v, %v; want a lease of %v s", now, claim.Until.Sub(start), ok, want)
		}
		r.Kept("w", []string{"n1"})
		if over := r.Expire(when(now + want - 0.1)); len(over) > 0 {
			t.Fatalf("the lease ends early: %v", over)
		}
		now += want
		if over := r.Expire(when(now)); len(over) != 1 || over[0].ID != "w" {
			t.Fatalf("at the end of its lease: %v", over)
		}
		if _, ok := r.Refused(large("w", 0), when(now+9.9)); ok {
			t.Fatal("another lease without a pause")
		}
		now, want = now+10, min(2*want, 3600)
	}
	if claim, _ := r.Refused(large("w", 0), when(now)); !cmp.Equal(claim.Avoid, []string{"n1"}) {
		t.Errorf("the next claim avoids %v, want what was kept in vain", claim.Avoid)
	}
}

func TestFewHaveAClaimAndOneOfThoseThatAskTheSame(t *testing.T) {
	r := queue.NewReserver(10 * time.Second)
	for i := range 6 {
		r.Refused(large(fmt.Sprint("w", i), 0), when(0))
	}
	r.Bound(came("late", 1, 0), "late", "n0")
	got := 0
	for i := range 6 {
		if _, ok := r.Refused(large(fmt.Sprint("w", i), 0), when(10)); ok {
			got++
		}
	}
	if got != 4 {
		t.Errorf("%d have a claim, want 4", got)
	}
	same := large("x", 0)
	same.Line = "line of w0"
	if _, ok := r.Refused(same, when(20)); ok {
		t.Error("two of a line have a claim")
	}
	r.Bound(came("w0", 0, 0), "w0", "n3")
	if _, ok := r.Refused(large("w4", 0), when(20)); !ok {
		t.Error("no claim is free when one of four has started")
	}
	if r.Left("w1"); len(r.Claims()) != 3 {
		t.Errorf("claims %v after one has gone", r.Claims())
	}
}

// BenchmarkBound shows that a binding takes the same time however many wait.
func BenchmarkBound(b *testing.B) {
	for _, n := range []int{0, 4000} {
		b.Run(fmt.Sprint(n, "-wait"), func(b *testing.B) {
			r := queue.NewReserver(10 * time.Second)
			for i := range n {
				r.Refused(large(fmt.Sprint("w", i), 0), when(0))
			}
			late := came("late", 1, 0)
			for b.Loop() {
				r.Bound(late, "late", "n0")
			}
		})
	}
}

// TestALeaseLastsUntilWhatIsKeptIsComplete: the first lease ends a minute after it began, at 20 s.
func TestALeaseLastsUntilWhatIsKeptIsComplete(t *testing.T) {
	for _, tt := range []struct {
		name string
		at   []float64 // when all is expected to be free, as it is noted one after the other; 0 is not known
		want float64
	}{
		{"nothing is known", []float64{0}, 80},
		{"before the lease ends", []float64{15}, 80},
		{"after it", []float64{500}, 560},
		{"not if it becomes sooner", []float64{500, 300}, 560},
		{"not beyond an hour", []float64{20 + 3600 - 60 + 1}, 80},
		{"not step by step beyond an hour", []float64{2000, 3500, 5000}, 3560},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := queue.NewReserver(10 * time.Second)
			r.Refused(large("first", 0), when(0))
			r.Bound(came("late", 5, 0), "late", "n0")
			if _, ok := r.Refused(large("first", 0), when(20)); !ok {
				t.Fatal("the first has no claim")
			}
			for i, at := range tt.at {
				if at == 0 {
					r.Expected("first", time.Time{})
					continue
				}
				if got := r.Expected("first", when(at)); !got.Equal(when(slices.Min(tt.at[:i+1]))) {
					t.Errorf("others may use its places until %v", got.Sub(when(0)))
				}
			}
			if got := r.Next(); !got.Equal(when(tt.want)) {
				t.Errorf("its lease ends at %v, want %v", got.Sub(when(0)), when(tt.want).Sub(when(0)))
			}
		})
	}
}
