package queue_test

import (
	"fmt"
	"testing"
	"time"

	"berth.dev/berth/core/queue"
)

// claimed is a Keeper in which "first" and then "second", which came a second later, have
// claims, with places for the pods named.
func claimed(t *testing.T) *queue.Keeper[string] { return claimedUntil(t, time.Time{}) }

// claimedUntil is claimed, with what is kept for first expected to be complete at a time.
func claimedUntil(t *testing.T, at time.Time) *queue.Keeper[string] {
	t.Helper()
	k := queue.NewKeeper[string](10 * time.Second)
	for i, id := range []string{"first", "second"} {
		k.Refused(large(id, float64(i)), when(float64(i)))
	}
	k.Bound(came("late", 5, 0), "late", "n0")
	for i, id := range []string{"first", "second"} {
		c, ok := k.Refused(large(id, float64(i)), when(20))
		if !ok {
			t.Fatalf("%s has no claim", id)
		}
		k.Keep(&c, id, []string{id + "-0", id + "-1"}, []string{"before " + id}, []string{"n" + fmt.Sprint(i)}, []time.Time{at, {}}[i])
	}
	return k
}

func TestPlacesAreKeptUntilTheClaimEnds(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(k *queue.Keeper[string]) (free bool)
		free bool
		left int
	}{
		{"when its pod is bound", func(k *queue.Keeper[string]) bool { return k.Bound(came("first", 0, 0), "first", "n0") }, true, 1},
		{"when its pod is gone", func(k *queue.Keeper[string]) bool { return k.Left("first") }, true, 1},
		{"when nothing can be kept", func(k *queue.Keeper[string]) bool { return k.Vain("first", when(21)) }, true, 1},
		{"not when another is bound", func(k *queue.Keeper[string]) bool { return k.Bound(came("other", 9, 0), "other", "n0") }, false, 2},
		{"when its lease is over", func(k *queue.Keeper[string]) bool { return len(k.Expire(when(80))) == 2 }, true, 0},
		{"not before its lease is over", func(k *queue.Keeper[string]) bool { return len(k.Expire(when(79.9))) > 0 }, false, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := claimed(t)
			if free := tt.do(k); free != tt.free || len(k.All()) != tt.left {
				t.Errorf("free: %v, and %v are kept; want %v, and %d", free, k.All(), tt.free, tt.left)
			}
		})
	}
}

func TestWhatIsKeptIsNotKeptFromThoseBefore(t *testing.T) {
	k := claimed(t)
	for ticket, want := range map[queue.Ticket]int{came("before", -1, 0): 4, came("middle", 0, 0): 2, came("after", 9, 0): 0, came("urgent", 9, 1): 4} {
		if got, guest := k.Open(ticket, time.Time{}); len(queue.Pods(got)) != want || guest {
			t.Errorf("%s comes before %v, as a guest: %v; want %d pods", ticket.UID, got, guest, want)
		}
	}
	if ends := k.Ends("second"); fmt.Sprint(ends) != "[before second]" || len(k.Ends("late")) > 0 {
		t.Errorf("the end of %v is waited for", ends)
	}
	if all := k.All(); all[0].Lead != "first" || all[1].Lead != "second" {
		t.Errorf("the order of turns: %v", all)
	}
}

func TestThePlacesOfTheLastClaimAreTriedLast(t *testing.T) {
	k := claimed(t)
	k.Expire(when(80))
	c, ok := k.Refused(large("first", 0), when(100))
	if !ok || fmt.Sprint(c.Tries()) != "[[n0] []]" {
		t.Errorf("%v %v", ok, c.Tries())
	}
	fresh, _ := claimed(t).Refused(large("second", 1), when(21))
	if fmt.Sprint(fresh.Tries()) != "[[]]" {
		t.Errorf("a first claim leaves out %v", fresh.Tries())
	}
}

// TestWhatIsKeptIsUsedUntilItIsNeeded: the GPUs of first are complete at 100 s, and when those of second are is not known.
func TestWhatIsKeptIsUsedUntilItIsNeeded(t *testing.T) {
	k := claimedUntil(t, when(100))
	for _, tt := range []struct {
		name  string
		turn  queue.Ticket
		ends  time.Time
		want  string
		guest bool
	}{
		{"by a pod that comes later and ends before", came("late", 9, 0), when(99), "[first]", true},
		{"by a pod that ends at that time", came("late", 9, 0), when(100), "[first]", true},
		{"not by a pod that ends after", came("late", 9, 0), when(101), "[]", false},
		{"not by a pod whose end is not known", came("late", 9, 0), time.Time{}, "[]", false},
		{"as its own by a pod that comes before", came("urgent", 9, 1), when(99), "[first second]", false},
		{"by a pod between the two", came("middle", 0, 0), when(99), "[first second]", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			open, guest := k.Open(tt.turn, tt.ends)
			ids := []string{}
			for _, kept := range open {
				ids = append(ids, kept.ID)
			}
			if fmt.Sprint(ids) != tt.want || guest != tt.guest {
				t.Errorf("open is what is kept for %v, as a guest: %v; want %s, %v", ids, guest, tt.want, tt.guest)
			}
		})
	}
}

func TestAllHaveEndedWithTheLastOfWhichTheEndIsKnown(t *testing.T) {
	for _, tt := range []struct {
		ends []time.Time
		want time.Time
	}{
		{nil, time.Time{}},
		{[]time.Time{when(20), when(30), when(25)}, when(30)},
		{[]time.Time{when(20), {}}, time.Time{}},
		{[]time.Time{when(20), when(10)}, time.Time{}}, // it is late, and nothing more is known of it
	} {
		if got := queue.AllEnded(tt.ends, when(10)); !got.Equal(tt.want) {
			t.Errorf("%v have ended at %v, want %v", tt.ends, got, tt.want)
		}
	}
}

// TestAClaimStaysWhileAGuestThatHasItsPlacesStarts: two pods get what is kept for first.
func TestAClaimStaysWhileAGuestThatHasItsPlacesStarts(t *testing.T) {
	k := claimedUntil(t, when(100))
	open, _ := k.Open(came("late", 9, 0), when(99))
	k.Enter([]string{"late-0", "late-1"}, open, []string{"first-0", "first-1"})
	if k.Vain("first", when(21)) || len(k.All()) != 2 {
		t.Errorf("the claim ends while the guest starts: %v is kept", k.All())
	}
	if _, again := k.Arrived("late-1"); again != nil {
		t.Errorf("when one of two has started %v look for places", again)
	}
	if leads, again := k.Arrived("late-0"); fmt.Sprint(leads, again) != "[first] [first-0 first-1]" {
		t.Errorf("when both have started %v are tried, which lead %v", leads, again)
	}
	if _, again := k.Arrived("late-0"); again != nil {
		t.Errorf("when it has started again %v look for places", again)
	}
	if !k.Vain("first", when(22)) || len(k.All()) != 1 {
		t.Errorf("the claim does not end when the guest has started: %v is kept", k.All())
	}
}
