package gang_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/core/gang"
	"berth.dev/berth/core/queue"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// podOf is member i of gang "g", which needs so many.
func podOf(i, least int) gang.Pod {
	return gang.Pod{
		Age: queue.Age{UID: fmt.Sprint("g-", i), Created: noon}, Name: fmt.Sprint("g-", i),
		Gang: gang.Spec{Key: "ns/g", Name: "g", Within: gang.Cluster, Least: least},
	}
}

// script runs events on a Machine, each at a time after noon, and prints what it
// says to each.
type script struct {
	m   *gang.Machine
	now time.Time
	log []string
}

func newScript() *script { return &script{m: gang.NewMachine(), now: noon} }

func (s *script) step(e gang.Event) gang.Actions {
	out := s.m.Step(e, s.now)
	s.log = append(s.log, fmt.Sprintf("%T: answer %+v, permit %v, release %v, return %v, wake %v", e, out.Answer, out.Permit, out.Release, out.Return, out.Wake))
	return out
}

// join has the members 0 to n-1 be seen, and then try to enter the queue.
func (s *script) join(n, least int) {
	for i := range n {
		s.step(gang.Seen{Pod: podOf(i, least)})
		s.step(gang.Enqueue{Pod: podOf(i, least)})
	}
}

// place plans for all members that have no place, on node "a", and has them arrive.
func (s *script) place(t *testing.T, arrive ...string) (last gang.Actions) {
	t.Helper()
	task, reason := s.m.Task("g-0", true, s.now)
	if task == nil {
		t.Fatalf("nothing to plan: %s", reason)
	}
	nodes := map[string]string{}
	for _, uid := range task.Members {
		nodes[uid] = "a"
	}
	s.step(gang.Placed{UID: "g-0", Task: task, Nodes: nodes})
	for _, uid := range arrive {
		last = s.step(gang.Arrived{UID: uid})
	}
	return last
}

func TestMachine(t *testing.T) {
	for _, tt := range []struct {
		name  string
		check func(t *testing.T, s *script)
	}{
		{"members wait outside of the queue until enough exist", func(t *testing.T, s *script) {
			s.join(1, 2)
			reason, wait := s.m.Waits("g-0")
			if want := "waiting for 1 more pod of gang g (1 of 2 exist)"; reason != want || wait != queue.Gang {
				t.Errorf("waits for %v: %q, want %q", wait, reason, want)
			}
			if out := s.step(gang.Seen{Pod: podOf(1, 2)}); len(out.Wake) != 1 {
				t.Errorf("the last one wakes %v, want one leader", out.Wake)
			}
		}},
		{"one member leads and the others wait for it", func(t *testing.T, s *script) {
			s.join(3, 3)
			if out := s.step(gang.Enqueue{Pod: podOf(0, 3)}); out.Answer.Reason != "" || len(out.Ranks) != 1 {
				t.Errorf("the leader is told %q, ranks %v", out.Answer.Reason, out.Ranks)
			}
			if out := s.step(gang.Enqueue{Pod: podOf(1, 3)}); out.Answer.Reason != "waiting for gang g to be placed" {
				t.Errorf("another is told %q", out.Answer.Reason)
			}
		}},
		{"the last to arrive lets all go", func(t *testing.T, s *script) {
			s.join(3, 3)
			if out := s.place(t, "g-0", "g-1"); !out.Answer.Wait {
				t.Error("the second of three need not wait")
			}
			if out := s.step(gang.Arrived{UID: "g-2"}); out.Answer.Wait || !cmp.Equal(out.Permit, []string{"g-0", "g-1"}) {
				t.Errorf("the third waits: %v, lets go %v", out.Answer.Wait, out.Permit)
			}
		}},
		{"a gang that does not fit is planned again when it needs fewer members, and not when it needs more", func(t *testing.T, s *script) {
			for i := range 3 {
				p := podOf(i, 3)
				p.Gang.Source = "job"
				s.step(gang.Seen{Pod: p})
				s.step(gang.Enqueue{Pod: p})
			}
			s.step(gang.Unfit{UID: "g-0", Refusal: &gang.Refusal{ShortMilli: 1000}})
			s.now = s.now.Add(time.Minute)
			if out := s.step(gang.Sized{Source: "job", Least: 2}); !cmp.Equal(out.Wake, []string{"g-0"}) {
				t.Errorf("2 instead of 3 wake %v, want the leader", out.Wake)
			}
			s.step(gang.Unfit{UID: "g-0", Refusal: &gang.Refusal{ShortMilli: 1000}})
			s.now = s.now.Add(time.Minute)
			if out := s.step(gang.Sized{Source: "job", Least: 3}); len(out.Wake) > 0 {
				t.Errorf("3 instead of 2 wake %v", out.Wake)
			}
		}},
		{"of two that may fit now the older one is planned first, though it was planned a moment ago", func(t *testing.T, s *script) {
			s.join(2, 2)
			younger := func(i int) gang.Pod {
				p := podOf(i, 2)
				p.UID, p.Created, p.Gang.Key = fmt.Sprint("h-", i), noon.Add(time.Second), "ns/h"
				return p
			}
			for i := range 2 {
				s.step(gang.Seen{Pod: younger(i)})
				s.step(gang.Enqueue{Pod: younger(i)})
			}
			refuse := func(leader string) {
				t.Helper()
				if task, reason := s.m.Task(leader, true, s.now); task == nil {
					t.Fatal(reason)
				}
				s.step(gang.Unfit{UID: leader, Refusal: &gang.Refusal{ShortMilli: 2000}, Cost: time.Second})
			}
			refuse("h-0")
			s.now = s.now.Add(time.Minute)
			refuse("g-0")
			for _, leader := range []string{"g-0", "h-0"} {
				s.step(gang.Freed{UID: leader, Ended: true, Milli: 2000})
			}
			s.now = s.now.Add(time.Millisecond)
			if out := s.step(gang.Time{}); !cmp.Equal(out.Wake, []string{"h-0", "g-0"}) {
				t.Errorf("what came free wakes %v, want the leader of the older one, too", out.Wake)
			}
			if _, reason := s.m.Task("g-0", true, s.now); reason != "" {
				t.Errorf("the older one waits: %q", reason)
			}
			s.step(gang.Freed{UID: "h-0", Ended: true, Milli: 2000})
			s.step(gang.Unfit{UID: "h-0", Refusal: &gang.Refusal{ShortMilli: 2000}})
			s.now = s.now.Add(time.Minute)
			s.step(gang.Freed{UID: "h-0", Ended: true, Milli: 2000})
			s.now = s.now.Add(time.Millisecond)
			if out := s.step(gang.Time{}); !cmp.Equal(out.Wake, []string{"h-0", "g-0"}) {
				t.Errorf("while the older one is being planned, what came free wakes %v, want its leader, too", out.Wake)
			}
			s.step(gang.Unfit{UID: "g-0", Refusal: &gang.Refusal{ShortMilli: 2000}, Cost: time.Second})
			s.step(gang.Freed{UID: "h-0", Ended: true, Milli: 2000})
			s.now = s.now.Add(time.Minute)
			if out := s.step(gang.Time{}); !cmp.Equal(out.Wake, []string{"h-0"}) {
				t.Errorf("for the younger one alone wakes %v", out.Wake)
			}
			refuse("h-0")
			s.now = s.now.Add(time.Minute)
			refuse("g-0")
			if out := s.step(gang.Unkept{}); !cmp.Equal(out.Wake, []string{"h-0", "g-0"}) {
				t.Errorf("places that are kept no longer wake %v, want the leader of the older one, too", out.Wake)
			}
		}},
		{"one more is planned near those that are on their way", func(t *testing.T, s *script) {
			for i := range 3 {
				p := podOf(i, 2)
				p.Gang.Within = gang.Rack
				s.step(gang.Seen{Pod: p})
				s.step(gang.Enqueue{Pod: p})
			}
			task, _ := s.m.Task("g-0", true, s.now)
			s.step(gang.Placed{UID: "g-0", Task: task, Nodes: map[string]string{"g-0": "a", "g-1": "b"}})
			s.step(gang.Arrived{UID: "g-0"})
			s.step(gang.Arrived{UID: "g-1"})
			if more, reason := s.m.Task("g-2", true, s.now); more == nil || !cmp.Equal(more.Near, []string{"a", "b"}) {
				t.Errorf("the third is planned as %+v (%s), want near nodes a and b, where no pod is bound yet", more, reason)
			}
		}},
		{"a member that is deleted sends the others back", func(t *testing.T, s *script) {
			s.join(3, 3)
			s.place(t, "g-0")
			want := []gang.Return{{UID: "g-0", Reason: "waiting for 1 more pod of gang g (2 of 3 exist)"}}
			if out := s.step(gang.Gone{UID: "g-2"}); !cmp.Equal(out.Return, want) || !cmp.Equal(out.Release, []string{"g-2", "g-1"}) {
				t.Errorf("returned %v, released %v", out.Return, out.Release)
			}
		}},
		{"a member that is lost before all have arrived is planned again after a second", func(t *testing.T, s *script) {
			s.join(2, 2)
			s.place(t, "g-0")
			out := s.step(gang.Unreserved{UID: "g-0"})
			if !out.WakeAt.Equal(noon.Add(time.Second)) || !cmp.Equal(out.Release, []string{"g-1"}) {
				t.Errorf("wakes at %v, released %v", out.WakeAt, out.Release)
			}
			if _, reason := s.m.Task("g-0", true, s.now); reason == "" {
				t.Error("it may be planned at once")
			}
			s.now = out.WakeAt
			if out := s.step(gang.Time{}); len(out.Wake) != 1 || !out.WakeAt.IsZero() {
				t.Errorf("woken: %v, next at %v", out.Wake, out.WakeAt)
			}
		}},
		{"a gang that does not fit is tried again when enough was given back", func(t *testing.T, s *script) {
			s.join(2, 2)
			s.step(gang.Unfit{UID: "g-0", Refusal: &gang.Refusal{ShortMilli: 2000}})
			if out := s.step(gang.Freed{UID: "g-0", Ended: true, Milli: 1000}); !out.WakeAt.Equal(noon.Add(10 * time.Second)) {
				t.Errorf("after one of two GPUs it wakes at %v", out.WakeAt)
			}
			if out := s.step(gang.Freed{UID: "g-0", Ended: true, Milli: 1000}); !out.WakeAt.Equal(noon.Add(50 * time.Millisecond)) {
				t.Errorf("after both it wakes at %v", out.WakeAt)
			}
			if wait := s.m.WaitOf("g-1"); wait != queue.Room {
				t.Errorf("the other member waits for %v", wait)
			}
		}},
		{"a gang that lacks only quota is tried again with each end of a pod while room is made for it", func(t *testing.T, s *script) {
			s.join(2, 2)
			if out := s.step(gang.Freed{UID: "g-0", Ended: true, Milli: 1000}); !out.WakeAt.IsZero() {
				t.Errorf("with no room being made it wakes at %v", out.WakeAt)
			}
			s.step(gang.Preempting{UID: "g-0"})
			for range 2 {
				out := s.step(gang.Freed{UID: "g-0", Ended: true, Milli: 1000})
				if out.WakeAt.IsZero() || out.WakeAt.After(s.now.Add(time.Second)) {
					t.Fatalf("it wakes at %v", out.WakeAt)
				}
				s.now = out.WakeAt
				if out := s.step(gang.Time{}); !cmp.Equal(out.Wake, []string{"g-0"}) {
					t.Errorf("woken: %v", out.Wake)
				}
			}
			s.place(t, "g-0")
			if out := s.step(gang.Freed{UID: "g-0", Ended: true, Milli: 1000}); !out.WakeAt.IsZero() {
				t.Errorf("with its places it wakes at %v", out.WakeAt)
			}
		}},
		{"a gang that does not fit is tried again with one more member, once", func(t *testing.T, s *script) {
			s.join(2, 2)
			s.step(gang.Unfit{UID: "g-0", Refusal: &gang.Refusal{ShortMilli: 2000}})
			s.step(gang.Seen{Pod: podOf(2, 2)})
			if out := s.step(gang.Enqueue{Pod: podOf(2, 2)}); !out.WakeAt.Equal(noon.Add(50 * time.Millisecond)) {
				t.Errorf("it wakes at %v", out.WakeAt)
			}
			s.now = noon.Add(50 * time.Millisecond)
			if out := s.step(gang.Time{}); !cmp.Equal(out.Wake, []string{"g-0"}) {
				t.Errorf("woken: %v", out.Wake)
			}
			s.step(gang.Unfit{UID: "g-0", Refusal: &gang.Refusal{ShortMilli: 2000}})
			if out := s.step(gang.Enqueue{Pod: podOf(2, 2)}); !out.WakeAt.IsZero() {
				t.Errorf("with no more members than before it wakes at %v", out.WakeAt)
			}
		}},
		{"a member that a filter refuses has the gang planned without that node, at once", func(t *testing.T, s *script) {
			s.join(2, 2)
			s.place(t)
			out := s.step(gang.Filtered{UID: "g-1"})
			if !out.Answer.Whole || !cmp.Equal(out.Wake, []string{"g-1"}) {
				t.Errorf("answer %+v, woken %v", out.Answer, out.Wake)
			}
			task, _ := s.m.Task("g-1", true, s.now)
			if task == nil || !cmp.Equal(task.Avoid, map[string][]string{"g-1": {"a"}}) {
				t.Errorf("task %+v", task)
			}
		}},
		{"the places of a gang of which no member is bound are kept for ten seconds", func(t *testing.T, s *script) {
			s.join(2, 2)
			s.place(t, "g-0", "g-1")
			for tries, pause := 0, 100*time.Millisecond; s.now.Sub(noon) < 10*time.Second; tries, pause = tries+1, min(2*pause, 1500*time.Millisecond) {
				s.step(gang.Answered{UID: "g-1", Refused: true})
				out := s.step(gang.Unreserved{UID: "g-1"})
				node, away := s.m.Kept("g-1")
				if node != "a" || (away != nil) != (tries >= 2) || !out.WakeAt.Equal(s.now.Add(pause)) {
					t.Fatalf("try %d: kept on %q, to plan %v, next in %v, want %v", tries, node, away, out.WakeAt.Sub(s.now), pause)
				}
				s.now = out.WakeAt
				if out := s.step(gang.Time{}); !cmp.Equal(out.Wake, []string{"g-1"}) {
					t.Fatalf("try %d: woken %v", tries, out.Wake)
				}
				s.step(gang.Arrived{UID: "g-1"})
			}
			if out := s.step(gang.Unreserved{UID: "g-1"}); !cmp.Equal(out.Release, []string{"g-1"}) {
				t.Errorf("after ten seconds %v is released", out.Release)
			}
		}},
		{"the place of a member without which its gang cannot run is kept for good", func(t *testing.T, s *script) {
			s.join(2, 2)
			s.place(t, "g-0", "g-1")
			p := podOf(0, 2)
			p.Node = "a"
			s.step(gang.Seen{Pod: p})
			for range 10 {
				s.step(gang.Answered{UID: "g-1", Refused: true})
				if out := s.step(gang.Unreserved{UID: "g-1"}); len(out.Release) > 0 || out.WakeAt.Sub(s.now) > 1500*time.Millisecond {
					t.Fatalf("after %v %v is released, next in %v", s.now.Sub(noon), out.Release, out.WakeAt.Sub(s.now))
				}
				s.now = s.now.Add(time.Minute)
				s.step(gang.Time{})
				s.step(gang.Arrived{UID: "g-1"})
			}
		}},
		{"a gang for which places were kept until others end, and went to others, is planned again at once", func(t *testing.T, s *script) {
			s.join(2, 2)
			s.step(gang.Unfit{UID: "g-0", Refusal: &gang.Refusal{ShortMilli: 2000}})
			s.step(gang.Preempting{UID: "g-0", Reserved: true})
			if out := s.step(gang.HoldLost{UID: "g-1"}); !cmp.Equal(out.Wake, []string{"g-0"}) {
				t.Errorf("woken: %v", out.Wake)
			}
		}},
		{"a gang whose hold went to others is planned again", func(t *testing.T, s *script) {
			s.join(2, 2)
			s.place(t, "g-0")
			if out := s.step(gang.HoldLost{UID: "g-1"}); len(out.Return) != 1 || len(out.Wake) != 1 {
				t.Errorf("returned %v, woken %v", out.Return, out.Wake)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScript()
			tt.check(t, s)
			if t.Failed() {
				for _, line := range s.log {
					t.Log(line)
				}
			}
		})
	}
}

// chance makes random events of two gangs.
func chance(rng *rand.Rand, m *gang.Machine, now time.Time) gang.Event {
	p := podOf(rng.IntN(4), 2)
	if rng.IntN(2) == 0 {
		p.UID, p.Name, p.Gang.Key, p.Gang.Name = "h"+p.UID, "h"+p.Name, "ns/h", "h"
	}
	uid := p.UID
	switch rng.IntN(20) {
	case 0:
		return gang.Gone{UID: uid}
	case 1:
		return gang.Left{UID: uid}
	case 2:
		p.Node = "a"
		return gang.Seen{Pod: p}
	case 3:
		p.Invalid = "no number"
		return gang.Seen{Pod: p}
	case 4, 5, 6:
		return gang.Enqueue{Pod: p}
	case 7, 8:
		if task, _ := m.Task(uid, true, now); task != nil {
			nodes := map[string]string{}
			for i, other := range task.Members {
				nodes[other] = fmt.Sprint("n", i)
			}
			return gang.Placed{UID: uid, Task: task, Nodes: nodes}
		}
		return gang.Filtered{UID: uid}
	case 9, 10, 13, 14, 15, 16:
		return gang.Arrived{UID: uid}
	case 11:
		return gang.Unreserved{UID: uid}
	case 12:
		return gang.Unfit{UID: uid, Refusal: &gang.Refusal{ShortMilli: 1000}}
	}
	return gang.Time{}
}

// TestEqualEventsGiveEqualActions replays random events on a second Machine, and
// holds that a Machine forgets a gang with its last member, and that the time that
// it wants to be woken at does not stay in the past.
func TestEqualEventsGiveEqualActions(t *testing.T) {
	passed := 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 14))
		one, two := gang.NewMachine(), gang.NewMachine()
		now := noon
		for range 200 {
			e := chance(rng, one, now)
			a, b := one.Step(e, now), two.Step(e, now)
			if diff := cmp.Diff(a, b); diff != "" {
				t.Fatalf("seed %d, %T %+v\n%s", seed, e, e, diff)
			}
			if _, ok := e.(gang.Time); ok && !a.WakeAt.IsZero() && !a.WakeAt.After(now) {
				t.Fatalf("seed %d: at %v it wants to be woken at %v", seed, now, a.WakeAt)
			}
			passed += len(a.Permit)
			now = now.Add(time.Duration(rng.IntN(1000)) * time.Millisecond)
		}
		var last gang.Actions
		for i := range 4 {
			one.Step(gang.Gone{UID: fmt.Sprint("g-", i)}, now)
			last = one.Step(gang.Gone{UID: fmt.Sprint("hg-", i)}, now)
		}
		if !last.WakeAt.IsZero() || len(one.HeldBack()) > 0 {
			t.Fatalf("seed %d: it knows of members when all have gone: %v", seed, one.HeldBack())
		}
	}
	if passed < 100 {
		t.Errorf("%d members passed: too few to show anything", passed)
	}
}
