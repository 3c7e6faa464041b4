package devices_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api"
	"berth.dev/berth/scheduler/devices"
)

// limited is a pod that says how long it runs at most; "" is that it does not.
func limited(name, most, asks string) *v1.Pod {
	p := ranked(name, 0, asks)
	if most != "" {
		p.Annotations = map[string]string{api.AnnotationMaxRunTime: most}
	}
	return p
}

// begin notes on a pod that has a node that it has been bound now, as the API server does.
func (s *stream) begin(names ...string) {
	for _, name := range names {
		s.update(types.UID(name), func(p *v1.Pod) {
			p.Status.StartTime = &metav1.Time{Time: time.Now()}
			p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.Now()}}
		})
		s.change(s.pods[types.UID(name)])
	}
}

// keptUntil has the pod large wait for four GPUs, of which one is free and kept for it, and the others come free within an
// hour: those of stays, and that of late in half an hour.
func keptUntil(t *testing.T) *stream {
	m := newMaking(t, 4)
	m.reserveAfter = "10s"
	m.restart()
	s := &stream{making: m}
	s.born(limited("stays", "1h", "gpu=2"), limited("a", "", "gpu=1"), limited("b", "", "gpu=1"))
	s.begin("stays", "a", "b")
	time.Sleep(2 * time.Second)
	s.born(limited("large", "", "gpu=4"))
	time.Sleep(11 * time.Second)
	s.remove("a")
	s.born(limited("late", "30m", "gpu=1")) // overtakes
	s.begin("late")
	s.remove("b") // large is tried, and b's GPU is kept for it
	s.run()
	return s
}

func (s *stream) runs(name string) bool { return s.pods[types.UID(name)].Spec.NodeName != "" }

// TestKeptGPUsAreUsedByThoseThatEndBeforeTheyAreNeeded: backfill.
func TestKeptGPUsAreUsedByThoseThatEndBeforeTheyAreNeeded(t *testing.T) {
	for _, tt := range []struct {
		name, most string
		want       bool
	}{
		{"one that ends before", "50m", true},
		{"one that ends after", "70m", false},
		{"one of which nothing is known", "", false},
		{"one that says nonsense", "-5 years", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := keptUntil(t)
				s.born(limited("next", tt.most, "gpu=1"))
				if s.runs("next") != tt.want || s.runs("large") || len(s.evicted) > 0 {
					t.Fatalf("on nodes: %v, evicted: %v, and it was told %q; want it to run: %v", s.on(), s.evicted, s.answers["next"], tt.want)
				}
			})
		})
	}
}

// TestAReservationIsNotDelayedByThoseThatUseItBefore has short pods use what is kept, and large start when it was to.
func TestAReservationIsNotDelayedByThoseThatUseItBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := keptUntil(t)
		began := time.Now()
		s.born(limited("first", "10m", "gpu=1"))
		s.begin("first")
		time.Sleep(10 * time.Minute)
		s.remove("first")
		s.run()
		s.born(limited("second", "49m", "gpu=1"))
		if !s.runs("second") {
			t.Fatalf("the second does not run: %q", s.answers["second"])
		}
		s.begin("second")
		time.Sleep(20 * time.Minute)
		s.remove("late")
		s.run()
		s.born(limited("third", "31m", "gpu=1"))
		if s.runs("third") {
			t.Fatal("a pod that ends too late uses what is kept")
		}
		s.born(limited("fourth", "20m", "gpu=1"))
		if !s.runs("fourth") {
			t.Fatalf("the fourth does not run: %q", s.answers["fourth"])
		}
		s.begin("fourth")
		time.Sleep(20 * time.Minute)
		s.remove("fourth")
		s.run()
		time.Sleep(9 * time.Minute)
		s.remove("second")
		s.run()
		s.remove("stays")
		s.run()
		if !s.runs("large") || s.runs("third") {
			t.Errorf("after %v, when all was to be free: %v; large was told %q", time.Since(began), s.on(), s.answers["large"])
		}
	})
}

// TestWhatAGuestDoesNotTakeIsKeptWhileItStarts: two GPUs are kept, and the next pod takes one of them. The other is not for a pod that
// is tried before the first has its node.
func TestWhatAGuestDoesNotTakeIsKeptWhileItStarts(t *testing.T) {
	for _, tt := range []struct {
		name  string
		tried []types.UID // while the guest has no node
	}{
		{"another is tried", []types.UID{"unknown"}},
		{"the host is tried, and another after it", []types.UID{"large", "unknown"}},
	} {
		t.Run(tt.name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { guestStarts(t, tt.tried) }) })
	}
}

// guestStarts has some pods tried after a guest has its hold and before it has a node.
func guestStarts(t *testing.T, tried []types.UID) {
	t.Helper()
	s := keptUntil(t)
	s.remove("late")
	s.run()
	s.born(limited("unknown", "", "gpu=1"))
	time.Sleep(time.Second)
	guest := limited("guest", "30m", "gpu=1")
	guest.CreationTimestamp = metav1.NewTime(time.Now())
	s.add(guest)
	s.active = nil
	s.cycle(guest) // it gets a hold
	for _, uid := range tried {
		s.active = slices.DeleteFunc(s.active, func(other types.UID) bool { return other == uid })
		s.enqueue(uid)
		s.active = slices.DeleteFunc(s.active, func(other types.UID) bool { return other == uid })
		s.cycle(s.pods[uid])
	}
	s.run()
	if !s.runs("guest") || s.runs("unknown") {
		t.Fatalf("on nodes: %v; the one of which nothing is known was told %q", s.on(), s.answers["unknown"])
	}
	s.begin("guest")
	s.born(limited("second", "20m", "gpu=1"))
	if !s.runs("second") || s.runs("unknown") {
		t.Fatalf("on nodes: %v, after a second guest, which was told %q", s.on(), s.answers["second"])
	}
}

// TestThoseThatOverrunGetNoMoreOfWhatIsKept, and keep what they have.
func TestThoseThatOverrunGetNoMoreOfWhatIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := keptUntil(t)
		s.born(limited("late-again", "50m", "gpu=1"))
		s.begin("late-again")
		time.Sleep(61 * time.Minute)
		s.remove("stays")
		s.run()
		s.remove("late")
		s.run()
		if len(s.evicted) > 0 || !s.runs("late-again") {
			t.Errorf("the pod that runs too long was stopped: %v", s.evicted)
		}
		s.born(limited("another", "1m", "gpu=1"))
		if s.runs("another") {
			t.Error("a pod of the same template uses what is kept again")
		}
		s.remove("late-again")
		if s.run(); !s.runs("large") {
			t.Errorf("large does not start when the last has ended: %q", s.answers["large"])
		}
	})
}

// TestAGangStartsThoughOthersUseWhatIsKeptForIt is the same for a gang of four.
func TestAGangStartsThoughOthersUseWhatIsKeptForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMaking(t, 4)
		m.reserveAfter = "10s"
		m.restart()
		s := &stream{making: m}
		s.born(limited("stays", "50m", "gpu=2"), limited("a", "", "gpu=1"), limited("b", "", "gpu=1"))
		s.begin("stays", "a", "b")
		time.Sleep(2 * time.Second)
		s.born(gangOf("g", 4, 4, "gpu=1")...)
		time.Sleep(11 * time.Second)
		s.remove("a")
		s.born(limited("late", "5m", "gpu=1")) // overtakes
		s.begin("late")
		s.remove("b") // the gang is tried, and b's GPU is kept for it
		s.run()
		for range 60 {
			time.Sleep(time.Second)
			synctest.Wait()
			s.run()
			if len(devices.Claims(s.room)) > 0 {
				break
			}
		}
		time.Sleep(time.Minute)
		s.remove("late") // two are kept
		s.run()
		s.born(limited("long", "", "gpu=1"))
		s.born(limited("short", "10m", "gpu=1"))
		if s.run(); s.runs("long") || !s.runs("short") {
			t.Fatalf("on nodes: %v; short was told %q", s.on(), s.answers["short"])
		}
		s.begin("short")
		time.Sleep(9 * time.Second)
		s.remove("short")
		s.run()
		s.remove("stays")
		s.run()
		if len(s.bound("g")) != 4 || s.runs("long") {
			t.Errorf("when all have ended on nodes: %v; what they were told: %v", s.on(), s.answers)
		}
	})
}
