package idle_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"berth.dev/berth/core/idle"
)

// world is one notebook in true time, which no one in it knows: its wall clock is
// set now and then, and its process starts anew.
type world struct {
	rng    *rand.Rand
	policy idle.Policy
	now    time.Duration // true time
	offset time.Duration // of the wall clock

	hasGPU bool
	// used is the true time of the last activity.
	used time.Duration
	// kernelUntil and gpuUntil are until when they are busy.
	kernelUntil, gpuUntil time.Duration
	kernel, api           time.Time // stamps, by the wall clock of their time
	failsUntil            time.Duration
	calm                  bool // nothing goes wrong
	// settled is since when nothing disturbs: no failure, start or step of the clock.
	settled time.Duration

	recorded, stopsAt time.Time
	track             idle.Track
	looked            time.Duration
	warnedAt          time.Duration
}

var epoch = time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)

func (w *world) wall() time.Time { return epoch.Add(w.now + w.offset) }

// chance is true about once in n periods.
func (w *world) chance(n int) bool { return w.rng.IntN(n) == 0 }

func (w *world) some(most time.Duration) time.Duration {
	return time.Duration(w.rng.Int64N(int64(most) + 1))
}

// live lets true time pass until the next look, with what happens in it. quiet
// lets nothing begin.
func (w *world) live(quiet bool) {
	until := w.now + w.policy.Period*9/10 + w.some(w.policy.Period/10)
	for w.now < until {
		step := min(until-w.now, w.policy.Period/8)
		w.now += step
		if w.kernelUntil > 0 {
			w.used = max(w.used, min(w.now, w.kernelUntil))
			if w.now >= w.kernelUntil {
				w.kernel, w.kernelUntil = epoch.Add(w.kernelUntil+w.offset), 0
				w.api = w.kernel
			}
		}
		if w.gpuUntil > 0 {
			w.used = max(w.used, min(w.now, w.gpuUntil))
			if w.now >= w.gpuUntil {
				w.gpuUntil = 0
			}
		}
		if quiet {
			continue
		}
		switch {
		case w.chance(300): // a cell is run
			w.kernel, w.api, w.used = w.wall(), w.wall(), w.now
			w.kernelUntil = w.now + w.some(5*w.policy.Period)
		case w.chance(600): // a file is saved
			w.api, w.used = w.wall(), w.now
		case w.hasGPU && w.chance(600): // something works in the background
			w.gpuUntil, w.used = w.now+3*w.policy.Period+w.some(6*w.policy.Period), w.now
		case !w.calm && w.chance(500): // the server or the exporter goes away
			w.failsUntil = w.now + w.some(12*w.policy.Period)
		}
	}
}

func (w *world) readings() idle.Readings {
	at := w.wall()
	r := idle.Readings{Server: idle.Server{At: at, Result: idle.OK, API: w.api}}
	state := "idle"
	if w.kernelUntil > 0 {
		state = "busy"
	}
	r.Server.Kernels = []idle.Kernel{{State: state, Activity: w.kernel}}
	if w.hasGPU {
		r.GPUs = idle.GPUs{At: at, Result: idle.OK, Devices: []idle.Device{{UUID: "GPU-1"}}}
		if w.gpuUntil > 0 {
			r.GPUs.Devices[0].Utilization = 0.9
		}
	}
	if w.now < w.failsUntil {
		w.settled = w.now
		switch {
		case !w.hasGPU || w.chance(2):
			r.Server = idle.Server{At: at, Result: idle.Failed}
		case w.chance(2):
			r.GPUs = idle.GPUs{At: at, Result: idle.Failed}
		default:
			r.Server.At, r.GPUs.At = at.Add(-time.Hour), at.Add(-time.Hour)
		}
	}
	return r
}

// look is one pass of the process. It reports whether it stopped the notebook.
func (w *world) look(t *testing.T) bool {
	t.Helper()
	s := idle.State{Ready: true, Since: epoch, Activity: w.recorded, StopsAt: w.stopsAt, Track: w.track, Elapsed: w.now - w.looked}
	if !w.track.Seen {
		s.Elapsed = 0
	}
	r := w.readings()
	d := idle.Decide(w.wall(), w.policy, s, r)
	w.track, w.looked = d.Track, w.now
	failed := r.Server.Result == idle.Failed || r.GPUs.Result == idle.Failed || w.now < w.failsUntil
	if failed && d.Do != idle.Nothing {
		t.Fatalf("at %s: %q on a look that failed", w.now, d.Do)
	}
	if d.Forget {
		w.recorded = time.Time{}
	}
	if d.Record || d.Do != idle.Nothing {
		w.recorded = d.Activity.Truncate(time.Second)
	}
	switch d.Do {
	case idle.Nothing:
	case idle.Warn:
		w.stopsAt, w.warnedAt = d.StopsAt, w.now
	case idle.Move:
		w.stopsAt = d.StopsAt
	case idle.Clear:
		w.stopsAt = time.Time{}
	case idle.Stop:
		if w.stopsAt.IsZero() || w.now-w.warnedAt < w.policy.Warning {
			t.Fatalf("at %s: stopped %s after the warning, and it stands for %s", w.now, w.now-w.warnedAt, w.policy.Warning)
		}
		return true
	}
	return false
}

// TestNeverStoppedInUse lets notebooks live through activity, failures, clocks that
// are set and processes that start anew. None is stopped before its time; and when
// nothing disturbs any more, each is stopped in time.
func TestNeverStoppedInUse(t *testing.T) {
	policies := []idle.Policy{
		{After: time.Hour, Warning: 10 * time.Minute, Period: time.Minute},
		{After: 20 * time.Minute, Warning: 10 * time.Minute, Period: 5 * time.Minute},
		{After: 24 * time.Hour, Warning: time.Hour, Period: time.Minute},
		{After: 3 * time.Second, Warning: time.Second, Period: time.Minute},
		{After: 30 * time.Minute, Warning: 0, Period: time.Minute},
	}
	for seed := range uint64(1000) {
		p := policies[seed%uint64(len(policies))]
		w := &world{rng: rand.New(rand.NewPCG(seed, 5)), policy: p.Fitted(), hasGPU: seed%2 == 0, kernel: epoch, api: epoch}
		stopped := false
		for range 600 {
			w.live(false)
			if w.track.Seen && w.chance(60) { // what is set while no process runs, none can know
				w.offset += []time.Duration{-1, 1}[w.rng.IntN(2)] * w.some(10*w.policy.After)
				w.settled = w.now
			}
			if stopped = w.look(t); stopped {
				break
			}
			if w.chance(80) {
				w.track = idle.Track{}
				w.settled = w.now
			}
		}
		if !stopped {
			w.now = max(w.now, w.failsUntil)
			w.endure(t, seed)
		}
		if idleFor := w.now - w.used; idleFor < w.policy.After {
			t.Fatalf("seed %d: stopped %s after something last happened, and its policy is %s", seed, idleFor, w.policy.After)
		}
	}
}

// endure lets nothing begin any more, until the notebook is stopped.
func (w *world) endure(t *testing.T, seed uint64) {
	t.Helper()
	w.recorded, w.stopsAt, w.track = time.Time{}, time.Time{}, idle.Track{} // as a start leaves it
	w.offset, w.settled = 0, w.now
	w.kernel, w.api = w.wall(), w.wall()
	for {
		w.live(true)
		if w.look(t) {
			return
		}
		w.settled = max(w.settled, w.used)
		if most := w.policy.After + w.policy.Warning + 3*w.policy.Period; w.now-w.settled > most+w.policy.Period {
			t.Fatalf("seed %d: not stopped %s after something last happened; at most %s are right", seed, w.now-w.settled, most)
		}
	}
}

// TestStoppedInTime has nothing go wrong: then a notebook is stopped at most After,
// Warning and three periods after something last happened.
func TestStoppedInTime(t *testing.T) {
	p := idle.Policy{After: time.Hour, Warning: 10 * time.Minute, Period: time.Minute}
	for seed := range uint64(200) {
		w := &world{rng: rand.New(rand.NewPCG(seed, 7)), policy: p.Fitted(), hasGPU: seed%2 == 0, kernel: epoch, api: epoch, calm: true}
		for look := 0; ; look++ {
			w.live(look > 200)
			late := w.now - w.used
			if w.look(t) {
				if late < p.After {
					t.Fatalf("seed %d: stopped %s after something last happened", seed, late)
				}
				break
			}
			if late > p.After+p.Warning+3*p.Period {
				t.Fatalf("seed %d: %s after something last happened it is not stopped", seed, late)
			}
		}
	}
}
