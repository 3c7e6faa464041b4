package idle_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"berth.dev/berth/core/idle"
)

const wanted = "a workload of queue red waits for 2 GPUs"

// giver is the policy of a notebook that gives way, and stops for nothing else.
func giver() idle.Policy {
	p := idle.Off()
	p.GiveWay = time.Hour
	return p
}

// line is a notebook that others may wait for, looked at every minute.
type line struct {
	*testing.T
	policy idle.Policy
	now    time.Time
	state  idle.State
	busy   time.Time // when its kernel last worked
}

func newLine(t *testing.T, p idle.Policy) *line {
	return &line{T: t, policy: p, now: noon, busy: noon, state: idle.State{Ready: true, Since: noon}}
}

// look looks after some time, with what others want.
func (l *line) look(elapsed time.Duration, wants string) idle.Decision {
	l.now = l.now.Add(elapsed)
	l.state.Elapsed, l.state.Wanted = elapsed, wants
	if !l.state.Track.Seen {
		l.state.Elapsed = 0
	}
	d := idle.Decide(l.now, l.policy, l.state, idle.Readings{Server: idle.Server{
		At: l.now, Result: idle.OK, Kernels: []idle.Kernel{{State: "idle", Activity: l.busy}},
	}})
	l.state.Track = d.Track
	if d.Record {
		l.state.Activity = d.Activity
	}
	switch d.Do {
	case idle.Warn, idle.Move:
		l.state.StopsAt = d.StopsAt
	case idle.Clear, idle.Stop:
		l.state.StopsAt = time.Time{}
	case idle.Nothing:
	}
	return d
}

// idleFor has nothing happen for a time, while others want nothing.
func (l *line) idleFor(d time.Duration) {
	l.Helper()
	for range d / time.Minute {
		if got := l.look(time.Minute, ""); got.Do != idle.Nothing {
			l.Fatalf("no workload waits, and the decision is %q: %s", got.Do, got.Why)
		}
	}
}

func TestAnIdleNotebookGivesWayAfterAWarning(t *testing.T) {
	l := newLine(t, giver())
	l.idleFor(65 * time.Minute)
	d := l.look(time.Minute, wanted)
	if d.Do != idle.Warn || !d.GiveWay || !d.StopsAt.Equal(l.now.Add(time.Minute)) || !strings.HasSuffix(d.Why, wanted) {
		t.Fatalf("when others wait the decision is %+v, want a warning for a minute later", d)
	}
	if d = l.look(30*time.Second, wanted); d.Do != idle.Nothing || !d.GiveWay {
		t.Fatalf("while the warning stands the decision is %+v, want nothing", d)
	}
	if d = l.look(30*time.Second, wanted); d.Do != idle.Stop || !d.GiveWay {
		t.Fatalf("after the warning the decision is %+v, want the stop", d)
	}
}

func TestNoNotebookGivesWay(t *testing.T) {
	after := func(change func(*line)) func(*line) idle.Decision {
		return func(l *line) idle.Decision {
			l.idleFor(65 * time.Minute)
			if d := l.look(time.Minute, wanted); d.Do != idle.Warn {
				l.Fatalf("the decision is %+v, want a warning", d)
			}
			change(l)
			return l.look(time.Minute, wanted)
		}
	}
	for name, c := range map[string]struct {
		do   func(*line) idle.Decision
		want idle.Step
	}{
		"that was used lately":           {func(l *line) idle.Decision { l.idleFor(50 * time.Minute); return l.look(time.Minute, wanted) }, idle.Nothing},
		"that is used once it is warned": {after(func(l *line) { l.busy = l.now.Add(30 * time.Second) }), idle.Clear},
		"whose policy does not let it": {func(l *line) idle.Decision {
			l.policy.GiveWay, l.policy.Never, l.policy.After = 0, false, 24*time.Hour
			l.idleFor(5 * time.Hour)
			return l.look(time.Minute, wanted)
		}, idle.Nothing},
		"that no workload waits for any longer": {func(l *line) idle.Decision {
			l.idleFor(65 * time.Minute)
			l.look(time.Minute, wanted)
			return l.look(time.Minute, "")
		}, idle.Clear},
		"that stops sooner anyway": {func(l *line) idle.Decision {
			l.policy.Never, l.policy.After, l.policy.Warning = false, 2*time.Hour, 10*time.Minute
			for d := l.look(time.Minute, ""); d.Do != idle.Warn; {
				d = l.look(time.Minute, "")
			}
			for range 9 {
				l.look(time.Minute, "")
			}
			d := l.look(30*time.Second, wanted)
			if d.GiveWay {
				l.Errorf("the notebook gives way, and its idle time is over in a minute: %+v", d)
			}
			return d
		}, idle.Nothing},
	} {
		t.Run(name, func(t *testing.T) {
			if d := c.do(newLine(t, giver())); d.Do != c.want {
				t.Errorf("the decision is %q, want %q: %s", d.Do, c.want, d.Why)
			}
		})
	}
}

// TestANewProcessWarnsAgain holds a process to having seen the warning stand itself.
func TestANewProcessWarnsAgain(t *testing.T) {
	l := newLine(t, giver())
	l.idleFor(90 * time.Minute)
	l.look(time.Minute, wanted)
	l.state.Track = idle.Track{}
	if d := l.look(10*time.Minute, wanted); d.Do == idle.Stop {
		t.Fatalf("the first look of a process stops it: %+v", d)
	}
}

// TestOneInUseNeverGivesWay plays random use: no notebook stops that was used less than GiveWay
// ago, or whose warning has not stood.
func TestOneInUseNeverGivesWay(t *testing.T) {
	stops := 0
	for seed := range uint64(200) {
		chance := rand.New(rand.NewPCG(seed, 22))
		l := newLine(t, giver())
		warned := time.Time{}
		for range 300 {
			step := time.Duration(1+chance.IntN(90)) * time.Second
			if chance.IntN(60) == 0 {
				l.busy = l.now.Add(step)
			}
			wants := ""
			if chance.IntN(10) > 0 {
				wants = wanted
			}
			d := l.look(step, wants)
			switch d.Do {
			case idle.Warn:
				warned = l.now
			case idle.Stop:
				if stops++; l.now.Sub(l.busy) < time.Hour || wants == "" || l.now.Sub(warned) < idle.Grace {
					t.Fatalf("seed %d: the notebook stops %v after use and %v after the warning, with %q", seed, l.now.Sub(l.busy), l.now.Sub(warned), wants)
				}
				l = newLine(t, giver())
			case idle.Nothing, idle.Clear, idle.Move:
			}
		}
	}
	if stops < 100 {
		t.Errorf("only %d stops: the test shows little", stops)
	}
}

func TestWordsAboutGivingWay(t *testing.T) {
	for name, c := range map[string]struct {
		words []idle.Words
		want  time.Duration
	}{
		"nothing is said":                      {nil, time.Hour},
		"a time":                               {[]idle.Words{{GiveWay: "30m"}}, 30 * time.Minute},
		"never":                                {[]idle.Words{{GiveWay: "never"}}, 0},
		"never stopped is never given way":     {[]idle.Words{{After: "never"}}, 0},
		"never stopped, but for others":        {[]idle.Words{{After: "never", GiveWay: "2h"}}, 2 * time.Hour},
		"the notebook's go before those above": {[]idle.Words{{GiveWay: "30m"}, {GiveWay: "never"}}, 0},
		"words that cannot be read":            {[]idle.Words{{GiveWay: "soon"}}, 0},
		"other words that cannot be read":      {[]idle.Words{{After: "soon"}}, 0},
	} {
		p, bad := giver(), 0
		for _, w := range c.words {
			var problems []string
			p, problems = p.With(w)
			bad += len(problems)
		}
		if wantBad := strings.HasSuffix(name, "cannot be read"); p.GiveWay != c.want || (bad > 0) != wantBad {
			t.Errorf("%s: it gives way after %v with %d problems, want %v", name, p.GiveWay, bad, c.want)
		}
	}
}
