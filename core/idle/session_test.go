package idle_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"berth.dev/berth/core/idle"
)

// session plays one notebook whose pod was bound at noon, look by look, as the loop
// does: what is decided is on it at the next look.
type session struct {
	policy  idle.Policy
	now     time.Time
	stopsAt time.Time
	track   idle.Track
	read    func(now time.Time) idle.Readings
	ready   bool
}

func (s *session) look(elapsed time.Duration) idle.Decision {
	s.now = s.now.Add(elapsed)
	state := idle.State{Ready: s.ready, Since: noon, Started: noon, Activity: noon, StopsAt: s.stopsAt, Track: s.track, Elapsed: elapsed}
	if !s.track.Seen && s.track.EndsAt.IsZero() {
		state.Elapsed = 0
	}
	d := idle.Decide(s.now, s.policy, state, s.read(s.now))
	s.track = d.Track
	switch d.Do {
	case idle.Nothing:
	case idle.Warn, idle.Move:
		s.stopsAt = d.StopsAt
	case idle.Clear, idle.Stop:
		s.stopsAt = time.Time{}
	}
	return d
}

func busy(now time.Time) idle.Readings {
	return idle.Readings{Server: idle.Server{At: now, Result: idle.OK, Kernels: []idle.Kernel{{State: "busy", Activity: now}}}}
}

func unused(now time.Time) idle.Readings {
	return idle.Readings{Server: idle.Server{At: now, Result: idle.OK, Kernels: []idle.Kernel{{State: "idle", Activity: noon}}}}
}

func unread(time.Time) idle.Readings { return idle.Readings{} }

func TestASessionEnds(t *testing.T) {
	eight := idle.Policy{Never: true, Warning: 10 * time.Minute, Period: time.Minute, MaxSession: 8 * time.Hour}
	also := eight
	also.Never, also.After, also.By = false, time.Hour, idle.ByActivity
	for _, c := range []struct {
		name   string
		policy idle.Policy
		ready  bool
		read   func(time.Time) idle.Readings
		warned time.Duration // after noon
		ends   time.Duration
		why    string
	}{
		{"in use, without a policy for idle ones", eight, true, unread, 470 * time.Minute, 480 * time.Minute, "its session has lasted 8h, and may last 8h"},
		{"in use, beside a policy for idle ones", also, true, busy, 470 * time.Minute, 480 * time.Minute, "its session has lasted 8h"},
		{"not ready: it holds its GPUs all the same", eight, false, unread, 470 * time.Minute, 480 * time.Minute, "its session has lasted 8h"},
		{"idle sooner", also, true, unused, 51 * time.Minute, 61 * time.Minute, "nothing has happened in it for 1h"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &session{policy: c.policy, now: noon, ready: c.ready, read: c.read}
			var warned time.Duration
			for range 600 {
				d := s.look(time.Minute)
				after := s.now.Sub(noon)
				switch d.Do {
				case idle.Warn:
					warned = after
				case idle.Stop:
					if warned != c.warned || after != c.ends || !strings.Contains(d.Why, c.why) {
						t.Errorf("warned after %s and stopped after %s: %s; want %s, %s: %s", warned, after, d.Why, c.warned, c.ends, c.why)
					}
					return
				case idle.Nothing, idle.Move:
				case idle.Clear:
					t.Fatalf("after %s the warning is taken back: %s", after, d.Why)
				}
			}
			t.Error("never stopped")
		})
	}
}

// TestASessionThatIsLengthenedGoesOn: the warning goes when the limit does.
func TestASessionThatIsLengthenedGoesOn(t *testing.T) {
	s := &session{policy: idle.Policy{Never: true, Warning: 10 * time.Minute, Period: time.Minute, MaxSession: time.Hour}, now: noon, ready: true, read: unread}
	for range 55 {
		s.look(time.Minute)
	}
	if s.stopsAt != noon.Add(time.Hour) {
		t.Fatalf("after 55 minutes it stops at %s, want 13:00", s.stopsAt)
	}
	s.policy.MaxSession = 2 * time.Hour
	if d := s.look(time.Minute); d.Do != idle.Clear {
		t.Errorf("with two hours it is %q, want the warning taken back", d.Do)
	}
}

// TestNoSessionEndsUnwarned sets clocks and restarts processes at random: a
// stopped notebook was warned for the whole time before, and where nothing disturbs the
// session ends in time.
func TestNoSessionEndsUnwarned(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 9))
		p := idle.Policy{Never: seed%2 == 0, After: 90 * time.Minute, Warning: 10 * time.Minute, Period: time.Minute, MaxSession: 4 * time.Hour, By: idle.ByActivity}
		s := &session{policy: p, now: noon, ready: true, read: []func(time.Time) idle.Readings{busy, unread, unused}[seed%3]}
		disturbed, stood := seed%5 > 0, time.Duration(-1)
		var ran time.Duration
		for {
			if disturbed && rng.IntN(40) == 0 {
				s.now = s.now.Add(time.Duration(rng.Int64N(int64(2*time.Hour))) - time.Hour) // the wall clock is set
			}
			if disturbed && rng.IntN(40) == 0 {
				s.track = idle.Track{}
			}
			before := s.stopsAt
			d := s.look(time.Minute)
			ran += time.Minute
			if before.IsZero() {
				stood = 0
			} else {
				stood += time.Minute
			}
			if d.Do == idle.Stop {
				if stood < p.Warning {
					t.Fatalf("seed %d: stopped %s after the warning", seed, stood)
				}
				break
			}
			if most := p.MaxSession + p.Warning + 3*p.Period; !disturbed && ran > most {
				t.Fatalf("seed %d: runs for %s, and may run for %s", seed, ran, most)
			}
			if ran > 30*24*time.Hour {
				t.Fatalf("seed %d: never stopped", seed)
			}
		}
	}
}
