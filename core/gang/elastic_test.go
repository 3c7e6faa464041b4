package gang_test

import (
	"testing"
	"time"

	"berth.dev/berth/core/gang"
)

// runs has a gang of n members, of which least are enough, run with placed of them.
func (s *script) runs(t *testing.T, n, least, placed int) {
	t.Helper()
	s.join(n, least)
	for i := range placed {
		p := podOf(i, least)
		p.Node = "a"
		s.step(gang.Seen{Pod: p})
	}
}

// over is the number of GPUs beyond the minimum that a member is ranked by.
func over(out gang.Actions, uid string) int64 {
	for _, r := range out.Ranks {
		if r.UID == uid {
			return r.Over
		}
	}
	return -1
}

// member is podOf with one GPU.
func member(i, least int) gang.Pod {
	p := podOf(i, least)
	p.Milli = 1000
	return p
}

func TestMembersBeyondTheMinimum(t *testing.T) {
	for _, tt := range []struct {
		name  string
		check func(t *testing.T, s *script)
	}{
		{"they are numbered as they come", func(t *testing.T, s *script) {
			s.runs(t, 6, 2, 3)
			for i, want := range []int64{2000, 3000, 4000} {
				if out := s.step(gang.Enqueue{Pod: member(3+i, 2)}); out.Answer.Reason != "" || over(out, podOf(3+i, 2).UID) != want {
					t.Errorf("member %d gets %q, ranks %+v, want %d", 3+i, out.Answer.Reason, out.Ranks, want)
				}
			}
		}},
		{"they move up when the gang loses one", func(t *testing.T, s *script) {
			s.runs(t, 5, 2, 4)
			s.step(gang.Enqueue{Pod: member(4, 2)})
			if out := s.step(gang.Gone{UID: "g-0"}); over(out, "g-4") != 2000 {
				t.Errorf("ranks %+v, want 2000", out.Ranks)
			}
		}},
		{"they are needed, and leave their line, when the gang has too few", func(t *testing.T, s *script) {
			s.runs(t, 3, 2, 2)
			s.step(gang.Enqueue{Pod: member(2, 2)})
			out := s.step(gang.Gone{UID: "g-0"})
			if over(out, "g-2") != 0 || len(out.Leave) != 1 || len(out.Wake) != 1 {
				t.Errorf("ranks %+v, leave %v, wake %v", out.Ranks, out.Leave, out.Wake)
			}
		}},
		{"one that was let in as needed is numbered when it is refused as one more", func(t *testing.T, s *script) {
			s.runs(t, 3, 1, 1)
			s.step(gang.Enqueue{Pod: member(1, 1)})
			s.step(gang.Gone{UID: "g-0"}) // now its gang needs it
			other := member(2, 1)
			other.Node = "a"
			s.step(gang.Seen{Pod: other}) // and now it does not
			out := s.step(gang.Filtered{UID: "g-1"})
			if out.Answer.Whole || over(out, "g-1") != 1000 {
				t.Errorf("the answer is %+v, ranks %+v, want 1000", out.Answer, out.Ranks)
			}
			if out := s.step(gang.Enqueue{Pod: member(1, 1)}); over(out, "g-1") != 1000 {
				t.Errorf("called again, it ranks %+v, want the same", out.Ranks)
			}
		}},
		{"while another gang of the priority waits, only the minimum is planned", func(t *testing.T, s *script) {
			s.join(4, 2)
			if task, _ := s.m.Task("g-0", true, s.now); task.Most != 0 {
				t.Errorf("alone: at most %d", task.Most)
			}
			other := podOf(9, 1)
			other.Gang.Key, other.Priority = "ns/other", 1
			s.step(gang.Seen{Pod: other})
			if task, _ := s.m.Task("g-0", true, s.now); task.Most != 0 {
				t.Errorf("beside one of another priority: at most %d", task.Most)
			}
			other.Priority = 0
			s.step(gang.Seen{Pod: other})
			if task, _ := s.m.Task("g-0", true, s.now); task.Most != 2 {
				t.Errorf("beside an equal: at most %d, want 2", task.Most)
			}
		}},
		{"a gang that lacks what pods of its priority hold is tried when they leave it", func(t *testing.T, s *script) {
			s.join(2, 2)
			s.step(gang.Unfit{UID: "g-0", Refusal: &gang.Refusal{ShortMilli: 9000}})
			s.step(gang.NoVictims{UID: "g-0", ShortMilli: 2000})
			for i, e := range []gang.Freed{{Milli: 1000, Priority: 5}, {Milli: 1000, Priority: -1}} {
				e.UID, e.Ended = "g-0", true
				if out := s.step(e); !out.WakeAt.Equal(noon.Add(10 * time.Second)) {
					t.Errorf("end %d: wakes at %v", i, out.WakeAt)
				}
			}
			if out := s.step(gang.Freed{UID: "g-0", Ended: true, Milli: 1000}); !out.WakeAt.Before(noon.Add(time.Second)) {
				t.Errorf("after both it wakes at %v", out.WakeAt)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.check(t, newScript()) })
	}
}

func TestAtMostSoManyMembersArePlaced(t *testing.T) {
	for _, within := range []gang.Level{gang.Node, gang.Cluster} {
		p := planner(t, place{name: "a", gpus: 4}, place{name: "b", gpus: 8})
		plan, refusal, err := p.Plan(&gang.Gang{Name: "g", Members: members(6, 1), MinCount: 3, Most: 4, Within: within})
		if err != nil || refusal != nil || plan.Count != 4 {
			t.Errorf("within a %v: %+v, refused %+v, error %v; want four placed", within, plan, refusal, err)
		}
	}
}
