package devices_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/scheduler/devices"
)

// stream is small pods that come and go, one after the other, so the GPUs are
// always taken before a larger pod has enough of them.
type stream struct {
	*making
	made int
	ends map[string]time.Time
}

// born creates pods now.
func (s *stream) born(pods ...*v1.Pod) {
	for _, p := range pods {
		p.CreationTimestamp = metav1.NewTime(time.Now())
		s.add(p)
	}
	s.run()
}

// small makes one more pod with one GPU.
func (s *stream) small() {
	s.made++
	s.born(ranked(fmt.Sprint("small-", s.made), 0, "gpu=1"))
}

// until lets small pods run for a time each, and one more come whenever one ends, until
// stop says so. It returns how long that took.
func (s *stream) until(runs, most time.Duration, stop func() bool) (time.Duration, bool) {
	began := time.Now()
	for time.Since(began) < most {
		if stop() {
			return time.Since(began), true
		}
		s.small() // waits: all is taken
		time.Sleep(time.Second)
		synctest.Wait()
		s.drain()
		for name, p := range s.pods {
			if !strings.HasPrefix(string(name), "small-") || p.Spec.NodeName == "" {
				continue
			}
			if _, known := s.ends[string(name)]; !known {
				s.ends[string(name)] = time.Now().Add(runs + time.Duration(len(s.ends)%4)*time.Second)
			}
			if !time.Now().Before(s.ends[string(name)]) {
				s.remove(string(name))
				s.run()
			}
		}
	}
	return most, false
}

func newStream(t *testing.T, after string, nodes ...int) *stream {
	s := &stream{making: newMaking(t, nodes...), ends: map[string]time.Time{}}
	s.reserveAfter, s.inLines = after, true
	s.restart()
	for _, n := range nodes {
		for range n {
			s.small()
		}
	}
	time.Sleep(2 * time.Second)
	return s
}

// TestALargePodIsNotPassedForEver has a pod with four GPUs wait while pods with one come
// after it and take what is freed.
func TestALargePodIsNotPassedForEver(t *testing.T) {
	for _, tt := range []struct {
		after string
		want  bool
	}{{"10s", true}, {"0s", false}} {
		t.Run("after "+tt.after, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStream(t, tt.after, 4, 4)
				large := ranked("large", 0, "gpu=4")
				s.born(large)
				took, got := s.until(5*time.Second, 3*time.Minute, func() bool { return s.pods["large"].Spec.NodeName != "" })
				t.Logf("after %v: bound %v", took, got)
				if got != tt.want {
					t.Errorf("bound: %v after %v, want %v", got, took, tt.want)
				}
				if tt.want && took > 30*time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// TestALargeGangIsNotPassedForEver is the same for a gang of eight.
func TestALargeGangIsNotPassedForEver(t *testing.T) {
	for _, tt := range []struct {
		after string
		want  bool
	}{{"10s", true}, {"0s", false}} {
		t.Run("after "+tt.after, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStream(t, tt.after, 4, 4, 4)
				s.born(gangOf("g", 8, 8, "gpu=1")...)
				took, got := s.until(5*time.Second, 3*time.Minute, func() bool { return len(s.bound("g")) == 8 })
				t.Logf("after %v: bound %v", took, got)
				if got != tt.want {
					t.Errorf("bound: %v after %v, want %v", s.bound("g"), took, tt.want)
				}
				if tt.want && took > 40*time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// TestWhatIsKeptGoesToHigherPriorityAndIsGivenUp has a pod keep GPUs that do not come free:
// the conditions of others name it, one of higher priority gets them all the same, and when the
// lease ends they are used again.
func TestWhatIsKeptGoesToHigherPriorityAndIsGivenUp(t *testing.T) {
	never := ranked("urgent", 10, "gpu=1")
	never.Spec.PreemptionPolicy = new(v1.PreemptNever)
	gang := gangOf("urgent", 1, 1, "gpu=1")[0]
	gang.Spec.Priority, gang.Spec.PreemptionPolicy, gang.Name, gang.UID = new(int32(10)), new(v1.PreemptNever), "urgent", "urgent"
	for name, urgent := range map[string]*v1.Pod{
		"a pod": ranked("urgent", 10, "gpu=1"), "a pod that never preempts": never, "a gang that never preempts": gang,
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { keptFromLater(t, urgent) }) })
	}
}

// keptFromLater is TestWhatIsKeptGoesToHigherPriorityAndIsGivenUp for one urgent pod.
func keptFromLater(t *testing.T, urgent *v1.Pod) {
	m := newMaking(t, 4)
	m.reserveAfter = "10s"
	m.restart()
	s := &stream{making: m}
	s.born(ranked("stays", 0, "gpu=2"), ranked("a", 0, "gpu=1"), ranked("b", 0, "gpu=1"))
	time.Sleep(2 * time.Second)
	s.born(ranked("large", 0, "gpu=4"))
	time.Sleep(11 * time.Second)
	s.remove("a")
	s.born(ranked("late", 0, "gpu=1")) // overtakes
	s.remove("b")                      // large is tried, and b's GPU is kept for it
	s.run()
	s.born(ranked("later", 0, "gpu=1"))
	if got := s.answers["later"]; !strings.Contains(got, "GPUs are being kept for d/large, which has waited longer") {
		t.Errorf("the pod that is kept out has the message %q", got)
	}
	m.refuses = func(pod *v1.Pod, _ *info) bool { return pod.Name == "elsewhere" }
	s.born(ranked("elsewhere", 0, "gpu=1")) // and its volume is not on the node
	if got := s.answers["elsewhere"]; got == "" || strings.Contains(got, "kept") {
		t.Errorf("the pod that may not use the node at all has the message %q", got)
	}
	s.remove("elsewhere")
	s.born(urgent)
	if s.pods["urgent"].Spec.NodeName == "" || len(s.evicted) > 0 {
		t.Errorf("urgent is on %v, evicted %v", s.on(), s.evicted)
	}
	s.remove("urgent")
	s.run()
	if s.pods["later"].Spec.NodeName != "" {
		t.Error("a later pod gets what is kept")
	}
	time.Sleep(time.Minute)
	synctest.Wait()
	s.run()
	if s.pods["later"].Spec.NodeName == "" {
		t.Errorf("what was kept is not used again when the lease is over: %v", s.out)
	}
}

// TestTheReservationOfAGangEndsWithItsLastPod: its lease need not end.
func TestTheReservationOfAGangEndsWithItsLastPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(t, "10s", 4, 4)
		for i := range 4 {
			s.born(gangOf(fmt.Sprint("g", i), 8, 8, "gpu=1")...)
		}
		s.born(gangOf("next", 8, 8, "gpu=1")...)
		claims := func() int { return len(devices.Claims(s.room)) }
		if _, all := s.until(5*time.Second, 3*time.Minute, func() bool { return claims() > 0 }); !all {
			t.Fatal("no gang has a reservation")
		}
		for i := range 8 {
			for g := range 4 {
				s.remove(fmt.Sprintf("g%d-%d", g, i))
			}
		}
		s.run()
		if ids := devices.Claims(s.room); len(ids) > 0 {
			t.Errorf("reservations of gangs without pods: %v", ids)
		}
	})
}
