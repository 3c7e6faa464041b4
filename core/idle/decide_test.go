package idle_test

import (
	"strings"
	"testing"
	"time"

	"berth.dev/berth/core/idle"
)

// rows: NB-51

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// hourly is the policy of most cases: an hour, a warning of ten minutes, a look a
// minute.
var hourly = idle.Policy{After: time.Hour, Warning: 10 * time.Minute, Period: time.Minute, By: idle.ByActivity}

func kernel(state string, ago time.Duration) idle.Kernel {
	return idle.Kernel{State: state, Activity: noon.Add(-ago)}
}

// serving is an answer of a server that started two hours ago.
func serving(kernels ...idle.Kernel) idle.Server {
	return idle.Server{At: noon, Result: idle.OK, Kernels: kernels, API: noon.Add(-2 * time.Hour)}
}

// terminal adds one that is open.
func terminal(s idle.Server) idle.Server {
	s.Programs = true
	return s
}

func gauge(utilization float64, memory int64) idle.GPUs {
	return idle.GPUs{At: noon, Result: idle.OK, Devices: []idle.Device{{UUID: "GPU-1", Utilization: utilization, MemoryBytes: memory}}}
}

// watched is a notebook that one process has looked at every minute for two hours,
// and in which nothing has happened for that long.
func watched(idleFor time.Duration) idle.State {
	return idle.State{
		Ready: true, Since: noon.Add(-3 * time.Hour), Activity: noon.Add(-idleFor), Elapsed: time.Minute,
		Track: idle.Track{
			Seen: true, Asked: true, Quiet: 0, Idle: idleFor - time.Minute, Newest: noon.Add(-idleFor), Gauged: true,
		},
	}
}

// warned adds a warning that has stood for a time.
func warned(s idle.State, stood time.Duration, at time.Time) idle.State {
	s.StopsAt, s.Track.StopsAt, s.Track.Stood = at, at, stood-s.Elapsed
	return s
}

func TestDecide(t *testing.T) {
	hour := warned(watched(time.Hour), 10*time.Minute, noon)
	for _, c := range []struct {
		name   string
		policy idle.Policy
		state  idle.State
		read   idle.Readings
		want   idle.Step
		ago    time.Duration // of the activity
		record bool
		why    string // part of it
	}{
		{
			name: "the only kernel is busy: in use now", state: hour,
			read: idle.Readings{Server: serving(kernel("busy", 2*time.Hour))},
			want: idle.Clear, ago: 0, record: true, why: "a kernel is busy",
		},
		{
			name: "a program works in a terminal whose page is closed: in use now", state: hour,
			read: idle.Readings{Server: terminal(serving()), CPU: idle.CPU{Result: idle.OK, Cores: 3.2}},
			want: idle.Clear, ago: 0, record: true, why: "a program in it uses 3.2 CPU cores",
		},
		{
			name: "a terminal in which nothing runs: not in use", state: hour,
			read: idle.Readings{Server: terminal(serving()), CPU: idle.CPU{Result: idle.OK, Cores: 0.02}},
			want: idle.Stop, ago: time.Hour, why: "nothing has happened in it for 1h",
		},
		{
			name: "a terminal, and no metrics API: as if nothing ran in it", state: hour,
			read: idle.Readings{Server: terminal(serving()), CPU: idle.CPU{Result: idle.Absent}},
			want: idle.Stop, ago: time.Hour, why: "nothing has happened in it for 1h",
		},
		{
			name: "a terminal, and a metrics API that is down: not known", state: hour,
			read: idle.Readings{Server: terminal(serving()), CPU: idle.CPU{Result: idle.Failed, Said: "the metrics API does not respond"}},
			want: idle.Nothing, ago: time.Hour, why: "whether it is used is not known: the metrics API does not respond",
		},
		{
			name: "CPU time of a server without terminals is that of its kernels", state: hour,
			read: idle.Readings{Server: serving(), CPU: idle.CPU{Result: idle.OK, Cores: 3.2}},
			want: idle.Stop, ago: time.Hour, why: "nothing has happened in it for 1h",
		},
		{
			name: "of two kernels one is busy: in use now", state: hour,
			read: idle.Readings{Server: serving(kernel("idle", 2*time.Hour), kernel("busy", 2*time.Hour))},
			want: idle.Clear, ago: 0, record: true, why: "a kernel is busy",
		},
		{
			name: "a kernel that has just been started is activity", state: hour,
			read: idle.Readings{Server: serving(kernel("starting", 10*time.Second)), CPU: idle.CPU{Result: idle.OK, Cores: 0.01}},
			want: idle.Clear, ago: 10 * time.Second, record: true,
		},
		{
			name: "a kernel that has been starting for hours and uses no CPU is not in use", state: hour,
			read: idle.Readings{Server: serving(kernel("starting", 2*time.Hour)), CPU: idle.CPU{Result: idle.OK, Cores: 0.01}},
			want: idle.Stop, ago: time.Hour, why: "nothing has happened in it for 1h",
		},
		{
			name: "one that uses CPU is", state: hour,
			read: idle.Readings{Server: serving(kernel("starting", 2*time.Hour)), CPU: idle.CPU{Result: idle.OK, Cores: 0.9}},
			want: idle.Clear, ago: 0, record: true, why: "a program in it uses 0.9 CPU cores",
		},
		{
			name: "one whose CPU is not read counts as busy", state: hour,
			read: idle.Readings{Server: serving(kernel("starting", 2*time.Hour))},
			want: idle.Clear, ago: 0, record: true, why: "a kernel is starting",
		},
		{
			name: "one whose CPU cannot be read: not known", state: hour,
			read: idle.Readings{Server: serving(kernel("starting", 2*time.Hour)), CPU: idle.CPU{Result: idle.Failed, Said: "the metrics API does not respond"}},
			want: idle.Nothing, ago: time.Hour, why: "whether it is used is not known: the metrics API does not respond",
		},
		{
			name: "a kernel that starts again after it died counts as busy", state: hour,
			read: idle.Readings{Server: serving(kernel("autorestarting", 2*time.Hour))},
			want: idle.Clear, ago: 0, record: true, why: "a kernel is autorestarting",
		},
		{
			name: "a dead kernel computes nothing", state: hour,
			read: idle.Readings{Server: serving(kernel("dead", 2*time.Hour))},
			want: idle.Stop, ago: time.Hour, why: "nothing has happened in it for 1h",
		},
		{
			name: "kernels are idle: the newest of their times counts, at first sight", state: idle.State{
				Ready: true, Since: noon.Add(-3 * time.Hour), Activity: noon.Add(-3 * time.Hour),
			},
			read: idle.Readings{Server: serving(kernel("idle", 90*time.Minute), kernel("idle", 20*time.Minute))},
			want: idle.Nothing, ago: 20 * time.Minute, record: true,
		},
		{
			name: "kernels are idle and have done nothing new: the time goes on", state: watched(30 * time.Minute),
			read: idle.Readings{Server: serving(kernel("idle", 30*time.Minute))},
			want: idle.Nothing, ago: 30 * time.Minute,
		},
		{
			name: "no kernel was ever started: the time runs from the record", state: hour,
			read: idle.Readings{Server: serving()},
			want: idle.Stop, ago: time.Hour,
		},
		{
			name: "a terminal was used a minute ago, though no kernel is there", state: func() idle.State {
				s := hour
				s.Track.Quiet = 0
				return s
			}(),
			read: idle.Readings{Server: idle.Server{At: noon, Result: idle.OK, Terminals: noon.Add(-30 * time.Second)}},
			want: idle.Clear, ago: 30 * time.Second, record: true,
		},
		{
			name: "somebody called the API: that is activity", state: hour,
			read: idle.Readings{Server: idle.Server{At: noon, Result: idle.OK, API: noon.Add(-10 * time.Second)}},
			want: idle.Clear, ago: 10 * time.Second, record: true,
		},
		{
			name: "by the GPU, calls of the API are none", policy: idle.Policy{After: time.Hour, Warning: 10 * time.Minute, Period: time.Minute, By: idle.ByGPU}, state: hour,
			read: idle.Readings{Server: idle.Server{At: noon, Result: idle.OK, API: noon.Add(-10 * time.Second)}, GPUs: gauge(0, 0)},
			want: idle.Stop, ago: time.Hour,
		},
		{
			name: "the server is unreachable: nothing is done, and the warning stands", state: hour,
			read: idle.Readings{Server: idle.Server{At: noon, Result: idle.Failed, Said: "dial: refused"}},
			want: idle.Nothing, ago: time.Hour, why: "dial: refused",
		},
		{
			name: "the answer is three minutes old", state: hour,
			read: idle.Readings{Server: idle.Server{At: noon.Add(-3 * time.Minute), Result: idle.OK}},
			want: idle.Nothing, ago: time.Hour, why: "too old",
		},
		{
			name: "the answer is of the future", state: hour,
			read: idle.Readings{Server: idle.Server{At: noon.Add(time.Second), Result: idle.OK}},
			want: idle.Nothing, ago: time.Hour, why: "too old",
		},
		{
			name: "the GPU works though kernels are idle", state: hour,
			read: idle.Readings{Server: serving(kernel("idle", 2*time.Hour)), GPUs: gauge(0.31, 1<<30)},
			want: idle.Clear, ago: 0, record: true, why: "GPU GPU-1 is in use at 31%",
		},
		{
			name: "a busy kernel with an idle GPU stays, and it is said", state: hour,
			read: idle.Readings{Server: serving(kernel("busy", 2*time.Hour)), GPUs: gauge(0, 1<<30)},
			want: idle.Clear, ago: 0, record: true, why: "a kernel is busy, though no GPU of it is in use",
		},
		{
			name: "memory alone is no activity, and it is said", state: watched(50 * time.Minute),
			read: idle.Readings{Server: serving(kernel("idle", 2*time.Hour)), GPUs: gauge(0.01, 12<<30)},
			want: idle.Warn, ago: 50 * time.Minute, why: "nothing has happened in it for 50m, and it holds 12.0 GiB of GPU memory",
		},
		{
			name: "an open page is no activity, and it is said", state: watched(50 * time.Minute),
			read: idle.Readings{Server: idle.Server{At: noon, Result: idle.OK, Connections: 2}},
			want: idle.Warn, ago: 50 * time.Minute, why: "nothing has happened in it for 50m, though a page of it is open",
		},
		{
			name: "an idle GPU's own memory is not worth a word", state: watched(50 * time.Minute),
			read: idle.Readings{Server: serving(kernel("idle", 2*time.Hour)), GPUs: gauge(0.01, 300<<20)},
			want: idle.Warn, ago: 50 * time.Minute, why: "nothing has happened in it for 50m",
		},
		{
			name: "the exporter does not answer", state: hour,
			read: idle.Readings{Server: serving(), GPUs: idle.GPUs{At: noon, Result: idle.Failed, Said: "exporter e: timeout"}},
			want: idle.Nothing, ago: time.Hour, why: "exporter e: timeout",
		},
		{
			name: "no exporter is there: the server alone decides", state: func() idle.State {
				s := hour
				s.Track.Gauged = false
				return s
			}(),
			read: idle.Readings{Server: serving(), GPUs: idle.GPUs{}},
			want: idle.Stop, ago: time.Hour,
		},
		{
			name: "what has no kernels API is never stopped", state: hour,
			read: idle.Readings{Server: idle.Server{At: noon, Result: idle.Absent, Said: "it is no Jupyter"}, GPUs: gauge(0, 0)},
			want: idle.Clear, ago: time.Hour, why: "whether it is used is not known: it is no Jupyter",
		},
		{
			name: "by the GPU, what has no kernels API is judged by it", policy: idle.Policy{After: time.Hour, Warning: 10 * time.Minute, Period: time.Minute, By: idle.ByGPU}, state: hour,
			read: idle.Readings{Server: idle.Server{At: noon, Result: idle.Absent}, GPUs: gauge(0, 0)},
			want: idle.Stop, ago: time.Hour,
		},
		{
			name: "by the GPU, without readings of it nothing is stopped", policy: idle.Policy{After: time.Hour, Warning: 10 * time.Minute, Period: time.Minute, By: idle.ByGPU}, state: hour,
			read: idle.Readings{Server: idle.Server{At: noon, Result: idle.Absent}},
			want: idle.Clear,
		},
		{
			name: "by the GPU, a kernel that computes is still in use", policy: idle.Policy{After: time.Hour, Warning: 10 * time.Minute, Period: time.Minute, By: idle.ByGPU}, state: hour,
			read: idle.Readings{Server: serving(kernel("busy", 2*time.Hour)), GPUs: gauge(0, 0)},
			want: idle.Clear, ago: 0, record: true,
		},
		{
			name: "a pod that is not ready is not idle", state: func() idle.State {
				s := hour
				s.Ready = false
				return s
			}(),
			read: idle.Readings{Server: serving()}, want: idle.Clear, why: "not ready",
		},
		{
			name: "a policy of never takes the warning back", policy: idle.Off(), state: hour,
			read: idle.Readings{Server: serving()}, want: idle.Clear, why: "never",
		},
		{
			name: "at first sight nothing is recorded: the time begins now", state: idle.State{Ready: true, Since: noon.Add(-5 * time.Hour)},
			read: idle.Readings{Server: serving(kernel("idle", 4*time.Hour))},
			want: idle.Nothing, ago: 0, record: true,
		},
		{
			name: "a new process that finds a warning lets it stand for its whole length once more", state: func() idle.State {
				s := warned(watched(2*time.Hour), 0, noon.Add(time.Minute))
				s.Track = idle.Track{}
				return s
			}(),
			read: idle.Readings{Server: serving()},
			want: idle.Move, ago: 114 * time.Minute, record: true, // six periods less than the record says
		},
		{
			name: "a warning that another has put off is no warning that has stood", state: func() idle.State {
				s := hour
				s.StopsAt = noon.Add(10 * time.Minute)
				return s
			}(),
			read: idle.Readings{Server: serving()},
			want: idle.Nothing, ago: time.Hour,
		},
		{
			name: "the clock was set ten hours on: what passed was a minute", state: func() idle.State {
				s := watched(5 * time.Minute)
				s.Activity = s.Activity.Add(-10 * time.Hour)
				s.Track.Newest = s.Track.Newest.Add(-10 * time.Hour)
				return s
			}(),
			read: idle.Readings{Server: serving(kernel("idle", 10*time.Hour+30*time.Second))},
			want: idle.Nothing, ago: 0, record: true,
		},
		{
			name: "the GPU could not be read for four minutes: nobody knows what it did", state: func() idle.State {
				s := hour
				s.Track.Unread = 4 * time.Minute
				return s
			}(),
			read: idle.Readings{Server: serving(), GPUs: gauge(0, 0)},
			want: idle.Clear, ago: 0, record: true,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.policy == (idle.Policy{}) {
				c.policy = hourly
			}
			d := idle.Decide(noon, c.policy, c.state, c.read)
			if d.Do != c.want || d.Record != c.record || !strings.Contains(d.Why, c.why) {
				t.Errorf("Decide = %q, record %v, why %q; want %q, %v, %q", d.Do, d.Record, d.Why, c.want, c.record, c.why)
			}
			if c.ago != 0 || c.record {
				if got := noon.Sub(d.Activity); got != c.ago {
					t.Errorf("last activity is %s ago, want %s", got, c.ago)
				}
			}
		})
	}
}

func TestTheRecordIsTakenAwayWhenGPUsCannotBeRead(t *testing.T) {
	s := watched(30 * time.Minute)
	s.Track.Unread = 4 * time.Minute
	d := idle.Decide(noon, hourly, s, idle.Readings{Server: serving(), GPUs: idle.GPUs{At: noon, Result: idle.Failed}})
	if !d.Forget || d.Record || d.Do != idle.Nothing {
		t.Errorf("Decide = %+v, want only Forget", d)
	}
	s.Activity, s.Track = time.Time{}, d.Track
	if d = idle.Decide(noon, hourly, s, idle.Readings{Server: serving(), GPUs: idle.GPUs{At: noon, Result: idle.Failed}}); d.Forget {
		t.Error("what is forgotten is forgotten again: a write at every look")
	}
}

func TestTheRecordIsTakenAwayWhileLooksFail(t *testing.T) {
	s, looks := watched(30*time.Minute), 0
	s.Track.Gauged = false
	fails := idle.Readings{Server: idle.Server{At: noon, Result: idle.Failed}}
	var d idle.Decision
	for d = idle.Decide(noon, hourly, s, fails); !d.Forget && looks < 10; looks++ {
		s.Track = d.Track
		d = idle.Decide(noon, hourly, s, fails)
	}
	if looks != 3 || d.Record || d.Do != idle.Nothing {
		t.Fatalf("after %d looks that failed Decide = %+v; want only Forget at the fourth", looks, d)
	}
	s.Activity, s.Track = time.Time{}, d.Track
	if d = idle.Decide(noon, hourly, s, fails); d.Forget {
		t.Error("what is forgotten is forgotten again: a write at every look")
	}
	// 30 minutes were idle at the first look that failed, and five have passed since.
	s.Track = d.Track
	if d = idle.Decide(noon, hourly, s, idle.Readings{Server: serving()}); !d.Record || noon.Sub(d.Activity) != 35*time.Minute {
		t.Errorf("as it answers again, Decide = %+v; want the activity of 35 minutes ago recorded", d)
	}
	// Another process knows nothing of that.
	s.Track, s.Elapsed = idle.Track{}, 0
	if d = idle.Decide(noon, hourly, s, idle.Readings{Server: serving()}); !d.Record || !d.Activity.Equal(noon) {
		t.Errorf("at the first look of another process Decide = %+v; want activity now recorded", d)
	}
}

func TestTheRecordIsTakenAwayWithThePolicy(t *testing.T) {
	for _, ready := range []bool{true, false} {
		s := watched(30 * time.Minute)
		s.Ready = ready
		if d := idle.Decide(noon, idle.Off(), s, idle.Readings{}); !d.Forget || d.Record || d.Do != idle.Nothing {
			t.Errorf("ready %v: Decide = %+v, want only Forget", ready, d)
		}
	}
}

func TestAWarningSaysWhenItStops(t *testing.T) {
	// 50 minutes of 60 are over: 10 are left, which is the whole warning.
	d := idle.Decide(noon, hourly, watched(50*time.Minute), idle.Readings{Server: serving()})
	if want := noon.Add(10 * time.Minute); d.Do != idle.Warn || !d.StopsAt.Equal(want) {
		t.Errorf("Decide = %q, stops at %s; want a warning for %s", d.Do, d.StopsAt, want)
	}
	// Idle for two hours already: the warning still stands for ten minutes.
	d = idle.Decide(noon, hourly, watched(2*time.Hour), idle.Readings{Server: serving()})
	if want := noon.Add(10 * time.Minute); d.Do != idle.Warn || !d.StopsAt.Equal(want) {
		t.Errorf("Decide = %q, stops at %s; want a warning for %s", d.Do, d.StopsAt, want)
	}
}
