package idle

import (
	"fmt"
	"strings"
	"time"
)

const (
	// busyRatio is the utilization above which a GPU is in use. Below it are the
	// glances that drivers, exporters and displays take.
	busyRatio = 0.05
	// busyCores is the CPU time, in cores, above which programs of a notebook work
	// that do not report it. Below it are a server and its idle kernels and shells.
	busyCores = 0.1
	// idleMemory is what a GPU may have in use while no program uses it, in bytes: the
	// driver's own, and an empty CUDA context.
	idleMemory = 512 << 20
)

// State is what is known of a notebook before a look.
type State struct {
	Ready bool      // its pod is
	Since time.Time // since when

	Started time.Time // when its pod was bound to a node; zero is not yet

	// Activity and StopsAt are what is recorded on the Notebook: when something
	// last happened, and the time of a warning. Zero is not recorded.
	Activity, StopsAt time.Time

	// Wanted is who waits for what it holds, and for what, as a clause: "a workload of queue red
	// waits for 2 GPUs"; "" is none, or it need not give way.
	Wanted string

	// Track is of the process' last look at it, and Elapsed the time since, by a
	// monotonic clock. Both are zero at the first look.
	Track   Track
	Elapsed time.Duration
}

// Step is what is to be done with a notebook.
type Step string

// The steps.
const (
	Nothing Step = ""
	Warn    Step = "warn"  // tell its user, and record StopsAt
	Move    Step = "move"  // record a StopsAt that has become another
	Clear   Step = "clear" // take the warning back
	Stop    Step = "stop"
)

// Decision is what follows from one look.
type Decision struct {
	Do Step
	// Activity is when something last happened, as far as is known. It is written
	// down with every step, and if Record says so without one.
	Activity time.Time
	Record   bool
	// Forget says that a record of Activity is to be taken away: what has happened
	// since is not known, and it must not be taken for nothing: not another process,
	// and not a person who looks for something to stop.
	Forget  bool
	StopsAt time.Time // of the warning that stands afterwards, in whole seconds; zero is none, or not known
	Session bool      // the step is for the limit of sessions, and not for idleness
	GiveWay bool      // the step is for those that wait for what it holds
	// Idle is for how long nothing has happened in it; 0 is that it is used, or that it is
	// not known.
	Idle  time.Duration
	Why   string // for a person: a clause without a full stop, or "" where there is nothing to say
	Track Track  // for the next look
}

// Decide says what to do with a notebook after one look at it. It is warned when
// nothing has happened for After less Warning, and stopped when nothing has
// happened for After and the warning has stood for Warning, both counted by looks
// of one process. It is never stopped:
//
//   - while its pod is not ready, or a kernel or a GPU of it is busy;
//   - on a look that failed or is older than two periods;
//   - at the look that warned it, or the first look of a process;
//   - if nothing tells whether it is used: see ByActivity and ByGPU.
//
// If all looks succeed, no process restarts and no clock is set back, it is
// stopped at most After, Warning and three periods after something last happened.
//
// Where others wait for what it holds it is also warned and stopped when nothing has
// happened for GiveWay, on looks of which the same holds.
//
// Where sessions have a limit it is also warned and stopped when its session has
// lasted MaxSession, whatever the looks say.
//
// now is the wall clock's time, for stamps and for people.
func Decide(now time.Time, p Policy, s State, r Readings) Decision {
	fitted := p.Fitted()
	return decide(now, fitted, s, r).giveWay(now, fitted, s).session(now, fitted, p.Warning, s)
}

// decide is Decide without a limit of sessions, for a policy that is fitted.
func decide(now time.Time, p Policy, s State, r Readings) Decision {
	switch {
	case p.Never && p.GiveWay <= 0:
		d := settled(s, Track{}, "its policy is never")
		d.Forget = true
		return d
	case !s.Ready:
		return settled(s, Track{}, "its pod is not ready")
	}
	server, gpus := r.Server, r.GPUs
	server.Result, server.Said = fresh(now, p, server.At, server.Result, server.Said)
	gpus.Result, gpus.Said = fresh(now, p, gpus.At, gpus.Result, gpus.Said)
	if server.Result == OK && server.NeedsCPU() && r.CPU.Result == Failed {
		server.Result, server.Said = Failed, r.CPU.Said
	}
	u := usedBy(p, server, r.CPU, gpus)
	t := s.Track.next(now, p, s, server, gpus, u)
	d := Decision{Activity: now.Add(-t.Idle), Track: t, Why: u.why}

	if server.Result == Failed || gpus.Result == Failed {
		lost, long := t.Gauged && t.Unread > gapPeriods*p.Period, t.Unreported > gapPeriods*p.Period
		d.Forget = !s.Activity.IsZero() && (lost || long || d.Activity.Sub(s.Activity) > p.step())
		d.Track.Forgotten = t.Forgotten || d.Forget
		d.Why = "whether it is used is not known: " + said(server.Result == Failed, server.Said, gpus.Said)
		return d
	}
	d.Record = s.Activity.IsZero() || d.Activity.Sub(s.Activity) > p.step()
	if server.Result == Absent && (p.By != ByGPU || gpus.Result != OK) {
		end := settled(s, t, "whether it is used is not known: "+said(true, server.Said, ""))
		end.Activity, end.Record = d.Activity, d.Record
		return end
	}
	return d.due(now, p, s, server, gpus)
}

// due takes the step that the idle time asks for.
func (d Decision) due(now time.Time, p Policy, s State, server Server, gpus GPUs) Decision {
	t := &d.Track
	d.Idle = t.Idle
	left := max(p.After-t.Idle, p.Warning-t.Stood, 0)
	at := now.Add(left + time.Second - 1).Truncate(time.Second)
	switch {
	case t.Idle < p.After-p.Warning:
		if !s.StopsAt.IsZero() {
			d.Do, t.StopsAt, t.Stood = Clear, time.Time{}, 0
			if d.Why == "" {
				d.Why = "it has been idle for " + spoken(t.Idle) + ", and may be for " + spoken(p.After)
			}
		}
		return d
	case s.StopsAt.IsZero():
		d.Do, d.StopsAt = Warn, now.Add(max(p.After-t.Idle, p.Warning)+time.Second-1).Truncate(time.Second)
		t.StopsAt, t.Stood = d.StopsAt, 0
	case left == 0 && t.Stood > 0:
		d.Do = Stop
	case at.Sub(s.StopsAt).Abs() > max(p.Period, 2*time.Second):
		d.Do, d.StopsAt = Move, at
		t.StopsAt = at
	default:
		d.StopsAt = s.StopsAt
	}
	d.Why = "nothing has happened in it for " + spoken(t.Idle) + open(server) + held(gpus)
	return d
}

// settled is the decision where there is nothing to wait for: no warning stands.
func settled(s State, t Track, why string) Decision {
	d := Decision{Why: why, Track: t}
	if !s.StopsAt.IsZero() {
		d.Do = Clear
	}
	return d
}

// fresh makes a reading that is too old, or of the future, a failed one.
func fresh(now time.Time, p Policy, at time.Time, r Result, why string) (Result, string) {
	switch r {
	case OK:
		if age := now.Sub(at); age < 0 || age > 2*p.Period {
			return Failed, "the last answer is too old"
		}
		return OK, ""
	case Failed:
		return Failed, why
	case Absent:
	}
	return Absent, why
}

// usedBy is what readings say about use now, and when there was some.
func usedBy(p Policy, server Server, cpu CPU, gpus GPUs) use {
	var u use
	if server.Result == OK {
		for _, k := range server.Kernels {
			u.stamps = append(u.stamps, k.Activity)
			if k.busy() {
				u.active, u.why = true, "a kernel is "+k.State
			}
		}
		u.stamps = append(u.stamps, server.Terminals)
		if p.By != ByGPU {
			u.stamps = append(u.stamps, server.API)
		}
		switch {
		case u.active:
		case server.NeedsCPU() && cpu.Result == OK && cpu.Cores > busyCores:
			u.active, u.why = true, fmt.Sprintf("a program in it uses %.1f CPU cores", cpu.Cores)
		case server.starting() && cpu.Result != OK: // nothing shows that it does not work
			u.active, u.why = true, "a kernel is starting"
		}
	}
	if gpus.Result != OK {
		return u
	}
	if d := gpus.busy(); d != nil {
		u.active = true
		if u.why == "" {
			u.why = fmt.Sprintf("GPU %s is in use at %.0f%%", d.UUID, 100*d.Utilization)
		}
		return u
	}
	if u.active && len(gpus.Devices) > 0 {
		u.why += ", though no GPU of it is in use"
	}
	return u
}

// open tells of pages that are open, which is no use by itself.
func open(server Server) string {
	if server.Result != OK || server.Connections == 0 {
		return ""
	}
	return ", though a page of it is open"
}

// held tells of the memory that GPUs still hold.
func held(gpus GPUs) string {
	var sum int64
	for _, d := range gpus.Devices {
		if d.MemoryBytes > idleMemory {
			sum += d.MemoryBytes
		}
	}
	if gpus.Result != OK || sum == 0 {
		return ""
	}
	return fmt.Sprintf(", and it holds %.1f GiB of GPU memory", float64(sum)/(1<<30))
}

func said(server bool, of, gpus string) string {
	switch {
	case server && of != "":
		return of
	case server:
		return "its server does not tell"
	case gpus != "":
		return gpus
	}
	return "its GPUs do not tell"
}

// spoken is a duration as people write it: "1h30m", "45s"; never "0s" where it is
// more.
func spoken(d time.Duration) string {
	switch {
	case d >= 10*time.Minute:
		d = d.Truncate(time.Minute)
	case d >= time.Second:
		d = d.Truncate(time.Second)
	}
	text := d.String()
	if cut, ok := strings.CutSuffix(text, "m0s"); ok {
		text = cut + "m"
	}
	if cut, ok := strings.CutSuffix(text, "h0m"); ok {
		text = cut + "h"
	}
	return text
}
