package health_test

import (
	"slices"
	"testing"
	"time"

	"berth.dev/berth/core/health"
)

// run answers probes with what well says until the State has nothing to do or the
// end is reached, and gives when GPU-0 came back, zero if it did not.
func run(s *health.State, end time.Time, well func(time.Time) error) time.Time {
	for {
		now := s.Next()
		if now.IsZero() || now.After(end) {
			return time.Time{}
		}
		if s.Stale(now) {
			s.Inventory(node(), now)
		}
		for _, uuid := range s.Due(now) {
			if slices.Contains(s.Probed(uuid, well(now), now), "GPU-0") {
				return now
			}
		}
	}
}

func always(time.Time) error { return nil }

// A GPU stayed unhealthy until the plugin was started anew:
// NVIDIA/k8s-device-plugin#1014, #234, #111, #189, #415, #403,
// NVIDIA/gpu-operator#1065.
func TestAGPUComesBackWhenItIsProvenWell(t *testing.T) {
	for _, c := range []struct {
		name  string
		event health.Event
		sick  time.Duration // how long probes fail
		after time.Duration // when it is back
	}{
		// 15 s, then two gaps of 15 s.
		{"an Xid that asks for a reset", health.Event{UUID: "GPU-0", Xid: 48, GI: -1}, 0, 45 * time.Second},
		// 69 was an Xid of #189; NVIDIA asks to restart the application, so it never went.
		{"an application's Xid never marks", health.Event{UUID: "GPU-0", Xid: 69, GI: -1}, 0, 0},
		// 60 s, then four gaps of 60 s.
		{"an Xid that a person must look at", health.Event{UUID: "GPU-0", Xid: 999, GI: -1}, 0, 5 * time.Minute},
		// found in an inventory at 1 s, probed at 2, 4 and 6 s.
		{"a GPU that has fallen off the bus and is back", health.Event{UUID: "GPU-0", Xid: 79, GI: -1}, 0, 6 * time.Second},
		// probes fail at 15 s and 45 s; good at 105, 120 and 135 s.
		{"probes that fail make the wait longer", health.Event{UUID: "GPU-0", Xid: 48, GI: -1}, time.Minute, 135 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := begin(t, health.Policy{})
			s.Event(c.event, start)
			back := run(s, start.Add(24*time.Hour), func(now time.Time) error {
				if now.Before(start.Add(c.sick)) {
					return errSick
				}
				return nil
			})
			if c.after == 0 {
				back = start
			}
			if got := back.Sub(start); got != c.after || len(unhealthy(s)) > 0 {
				t.Errorf("back after %v, want %v; unhealthy: %v", got, c.after, unhealthy(s))
			}
		})
	}
}

func TestAGPUThatIsNeverWellNeverComesBack(t *testing.T) {
	s := begin(t, health.Policy{})
	s.Event(health.Event{UUID: "GPU-0", Xid: 64, GI: -1}, start)
	probes := 0
	run(s, start.Add(24*time.Hour), func(time.Time) error { probes++; return errSick })
	// 15 s doubles up to half an hour: 7 waits, then 48 a day.
	if len(unhealthy(s)) != 1 || probes < 40 || probes > 60 {
		t.Errorf("unhealthy: %v after %d probes of a day", unhealthy(s), probes)
	}
}

func TestFlappingIsDamped(t *testing.T) {
	s := begin(t, health.Policy{})
	now, last := start, time.Duration(0)
	for i := range 6 {
		s.Event(health.Event{UUID: "GPU-0", Xid: 48, GI: -1}, now)
		back := run(s, now.Add(24*time.Hour), always)
		took := back.Sub(now)
		if i > 0 && took != 2*last {
			t.Errorf("the %d. time took %v, want twice %v", i+1, took, last)
		}
		now, last = back, took
	}
	now = now.Add(time.Hour)
	s.Event(health.Event{UUID: "GPU-0", Xid: 48, GI: -1}, now)
	if took := run(s, now.Add(24*time.Hour), always).Sub(now); took != 45*time.Second {
		t.Errorf("after a quiet hour it took %v, want 45s", took)
	}
}

func TestAnAnswerFromBeforeAnEventDoesNotCount(t *testing.T) {
	s := begin(t, health.Policy{})
	s.Event(health.Event{UUID: "GPU-0", Xid: 48, GI: -1}, start)
	now := start.Add(45 * time.Second)
	for range 2 {
		probe(s, now, nil)
		now = s.Next()
	}
	if due := s.Due(now); !slices.Equal(due, []string{"GPU-0"}) {
		t.Fatalf("Due = %v", due)
	}
	s.Event(health.Event{UUID: "GPU-0", Xid: 48, GI: -1}, now) // while the third probe runs
	if got := s.Probed("GPU-0", nil, now.Add(time.Second)); got != nil || len(unhealthy(s)) != 1 {
		t.Errorf("Probed = %v, unhealthy %v", got, unhealthy(s))
	}
	if got := s.Probed("GPU-7", nil, now); got != nil {
		t.Errorf("Probed of an unknown GPU = %v", got)
	}
}

func TestAProbeIsAskedForOnceAMinute(t *testing.T) {
	s := begin(t, health.Policy{})
	s.Event(health.Event{UUID: "GPU-0", Xid: 48, GI: -1}, start)
	now := start.Add(15 * time.Second)
	asked := 0
	for range 60 {
		asked += len(s.Due(now))
		now = now.Add(time.Second)
	}
	if asked != 1 || len(s.Due(now)) != 1 {
		t.Errorf("asked %d times in a minute without an answer", asked)
	}
}
