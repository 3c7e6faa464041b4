package gang_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/core/gang"
)

// jobPod is member i of a gang of three, of a controller, as it is on a node; "" is none.
func jobPod(i int, node string) gang.Pod {
	p := podOf(i, 3)
	p.Node, p.Replaced = node, true
	return p
}

// until lets time pass, and returns what is to be done when it is time for it.
func (s *script) until(d time.Duration) *gang.Evict {
	end := s.now.Add(d)
	first := s.m.Step(gang.Time{}, s.now)
	at, out := first.WakeAt, first.Evict
	for !at.IsZero() && !at.After(end) {
		s.now = at
		a := s.step(gang.Time{})
		if at = a.WakeAt; a.Evict != nil {
			out = a.Evict
		}
	}
	s.now = end
	return out
}

// partly has two of three members run, and the third exist.
func (s *script) partly(change func(p *gang.Pod)) {
	for i, node := range []string{"a", "b", ""} {
		p := jobPod(i, node)
		if change != nil {
			change(&p)
		}
		s.step(gang.Seen{Pod: p})
		if node == "" {
			s.step(gang.Enqueue{Pod: p})
		}
	}
}

func TestAGangThatRunsInPartIsReleased(t *testing.T) {
	both := []string{"g-0", "g-1"}
	for _, tt := range []struct {
		name  string
		after time.Duration // 0 is never
		play  func(s *script)
	}{
		{"after a minute", time.Minute, func(s *script) { s.partly(nil) }},
		{"after its grace, if it has one", 5 * time.Minute, func(s *script) {
			s.partly(func(p *gang.Pod) { p.Gang.Grace = 5 * time.Minute })
		}},
		{"never, if its grace does not end", 0, func(s *script) { s.partly(func(p *gang.Pod) { p.Gang.Grace = -1 }) }},
		{"never, if a pod that runs would not be created again", 0, func(s *script) {
			s.partly(func(p *gang.Pod) { p.Replaced = p.UID != "g-1" })
		}},
		{"never, as long as members are missing", 0, func(s *script) {
			s.partly(nil)
			s.step(gang.Gone{UID: "g-2"})
		}},
		{"never, if it has all that it needs", 0, func(s *script) {
			s.partly(nil)
			s.step(gang.Seen{Pod: jobPod(2, "c")})
		}},
		{"never, if it needs no more", 0, func(s *script) { s.partly(func(p *gang.Pod) { p.Gang.Least = 2 }) }},
		{"not while room is made for the rest", 0, func(s *script) {
			s.partly(nil)
			s.step(gang.Unfit{UID: "g-2", Refusal: &gang.Refusal{}})
			s.step(gang.Preempting{UID: "g-2"})
		}},
		{"a minute after it has lost a member, not after it began", time.Minute, func(s *script) {
			s.partly(nil)
			s.step(gang.Seen{Pod: jobPod(2, "c")})
			s.until(time.Hour)
			s.step(gang.Gone{UID: "g-2"})
			p := jobPod(3, "")
			s.step(gang.Seen{Pod: p})
			s.step(gang.Enqueue{Pod: p})
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScript()
			tt.play(s)
			if tt.after == 0 {
				if out := s.until(time.Hour); out != nil {
					t.Errorf("evicted: %+v", out)
				}
				return
			}
			if out := s.until(tt.after - time.Second); out != nil {
				t.Errorf("evicted too early: %+v", out)
			}
			out := s.until(2 * time.Second)
			if out == nil || !cmp.Equal(out.Members, both) || out.Why != "it runs with 2 of the 3 pods that it needs" {
				t.Errorf("evicted: %+v, want both that run", out)
			}
		})
	}
}

// TestAPodThatIsCreatedAfterTheGraceMayBePlaced has the missing pod of a gang be created when the
// grace is over: the gang is released a second later, and not if it has its place by then.
func TestAPodThatIsCreatedAfterTheGraceMayBePlaced(t *testing.T) {
	for _, bound := range []bool{false, true} {
		s := newScript()
		s.partly(nil)
		s.step(gang.Gone{UID: "g-2"})
		s.until(10 * time.Minute)
		s.step(gang.Seen{Pod: jobPod(3, "")})
		if out := s.step(gang.Enqueue{Pod: jobPod(3, "")}); out.Evict != nil || s.until(900*time.Millisecond) != nil {
			t.Errorf("released at once: %+v", out.Evict)
		}
		if bound {
			s.step(gang.Seen{Pod: jobPod(3, "c")})
		}
		if out := s.until(time.Second); (out == nil) != bound {
			t.Errorf("bound %v, evicted %+v", bound, out)
		}
	}
}

// TestAReleasedGangStartsAgainWhenAllHaveEnded: and none of it is planned before.
func TestAReleasedGangStartsAgainWhenAllHaveEnded(t *testing.T) {
	s := newScript()
	s.partly(nil)
	s.until(2 * time.Minute)
	const text = "gang g is released: its pods start again together when those that run have ended"
	if _, reason := s.m.Task("g-2", false, s.now); reason != text {
		t.Errorf("the one that waits has the message %q", reason)
	}
	s.step(gang.Gone{UID: "g-0"})
	for _, i := range []int{3, 4} {
		if out := s.step(gang.Enqueue{Pod: jobPod(i, "")}); out.Answer.Reason != text {
			t.Errorf("one that is new has the message %q", out.Answer.Reason)
		}
	}
	if out := s.step(gang.Gone{UID: "g-1"}); len(out.Wake) != 1 {
		t.Errorf("woken when the last has ended: %v, want a leader", out.Wake)
	}
	if task, reason := s.m.Task("g-2", false, s.now); task == nil || task.Need != 3 {
		t.Errorf("planned: %+v, %q; want all three", task, reason)
	}
}

// TestAGangThatCannotBeReleasedSaysWhy, and it is tried again later.
func TestAGangThatCannotBeReleasedSaysWhy(t *testing.T) {
	s := newScript()
	s.partly(nil)
	s.until(2 * time.Minute)
	s.step(gang.NotEvicted{Gang: "ns/g", Why: "a disruption budget keeps its pod g-0"})
	if got, want := s.m.Stuck("g-2"), "the gang is not released, because a disruption budget keeps its pod g-0"; got != want {
		t.Errorf("says %q, want %q", got, want)
	}
	if task, _ := s.m.Task("g-2", false, s.now); task == nil || task.Need != 1 {
		t.Errorf("planned: %+v, want the one that is missing", task)
	}
	if out := s.until(time.Minute); out == nil || len(out.Members) != 2 {
		t.Errorf("evicted later: %+v", out)
	}
}

// TestAGangIsReleasedWhenTheAPIServerRejectsOneTooLate: soon, as it has done no work. What was
// rejected is bound first the next time, and on another node if there is one.
func TestAGangIsReleasedWhenTheAPIServerRejectsOneTooLate(t *testing.T) {
	s := newScript()
	for i := range 3 {
		s.step(gang.Seen{Pod: jobPod(i, "")})
		s.step(gang.Enqueue{Pod: jobPod(i, "")})
	}
	s.place(t, "g-0", "g-1", "g-2")
	s.step(gang.Seen{Pod: jobPod(0, "a")})
	s.step(gang.Seen{Pod: jobPod(1, "a")})
	s.step(gang.Answered{UID: "g-2", Refused: true, Reason: "no"})
	s.step(gang.Unreserved{UID: "g-2"})
	if out := s.until(4 * time.Second); out != nil {
		t.Errorf("evicted too early: %+v", out)
	}
	out := s.until(2 * time.Second)
	if out == nil || len(out.Members) != 2 || !strings.Contains(out.Why, "because the API server rejects its pod g-2 on node a: no") {
		t.Fatalf("evicted: %+v, want both that run", out)
	}
	s.step(gang.Gone{UID: "g-0"})
	s.step(gang.Gone{UID: "g-1"})
	s.step(gang.Gone{UID: "g-2"})
	for i := range 3 {
		s.step(gang.Seen{Pod: jobPod(i, "")})
		s.step(gang.Enqueue{Pod: jobPod(i, "")})
	}
	task, reason := s.m.Task("g-0", false, s.now)
	if task == nil || !cmp.Equal(task.Avoid, map[string][]string{"g-0": {"a"}, "g-1": {"a"}, "g-2": {"a"}}) {
		t.Fatalf("planned: %+v, %q; want to avoid node a", task, reason)
	}
	s.step(gang.Unfit{UID: "g-0", Refusal: &gang.Refusal{}})
	if task, _ = s.m.Task("g-0", false, s.now); task == nil || len(task.Avoid) > 0 {
		t.Errorf("planned: %+v, want node a too where no other has room", task)
	}
	s.until(time.Second)
	s.place(t, "g-0", "g-1", "g-2")
	if first := s.m.First("g-0"); first != "g-2" {
		t.Errorf("%q is bound first, want g-2", first)
	}
	s.step(gang.Seen{Pod: jobPod(2, "a")})
	if first := s.m.First("g-0"); first != "" {
		t.Errorf("%q is bound first when one is bound", first)
	}
}

// TestALeaderIsWokenWhenItsGangNoLongerRuns: it has been tried as one more member before.
func TestALeaderIsWokenWhenItsGangNoLongerRuns(t *testing.T) {
	s := newScript()
	s.join(3, 1)
	task, _ := s.m.Task("g-1", true, s.now)
	s.step(gang.Placed{UID: "g-1", Task: task, Nodes: map[string]string{"g-0": "a"}})
	p := podOf(0, 1)
	p.Node = "a"
	s.step(gang.Seen{Pod: p})
	if out := s.step(gang.Gone{UID: "g-0"}); len(out.Wake) != 1 {
		t.Errorf("woken: %v, want a leader", out.Wake)
	}
}

// TestAPlanCountsMembersWhosePlacesAreKept: two are rejected, and one comes that was not planned
// with them.
func TestAPlanCountsMembersWhosePlacesAreKept(t *testing.T) {
	s := newScript()
	s.join(3, 3)
	s.place(t, "g-0", "g-1", "g-2")
	for _, uid := range []string{"g-0", "g-1"} {
		s.step(gang.Answered{UID: uid, Refused: true})
		s.step(gang.Unreserved{UID: uid})
	}
	s.step(gang.Gone{UID: "g-2"})
	p := podOf(3, 3)
	s.step(gang.Seen{Pod: p})
	s.step(gang.Enqueue{Pod: p})
	task, reason := s.m.Task("g-3", false, s.now)
	if task == nil || task.Need != 1 {
		t.Fatalf("planned: %+v, %q; want the one that came", task, reason)
	}
	if out := s.step(gang.Placed{UID: "g-3", Task: task, Nodes: map[string]string{"g-3": "a"}}); len(out.Release) > 0 {
		t.Errorf("released: %v, want the plan to stand", out.Release)
	}
}
