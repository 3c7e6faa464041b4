package health

import (
	"time"

	"berth.dev/berth/core/gpu"
)

// plan is what a marked GPU has to show: good probes in a row, the first after
// first, each gap after the one before.
type plan struct {
	first, gap time.Duration
	good       int
}

const (
	// longestWait bounds every wait, whatever the damping.
	longestWait = 30 * time.Minute
	// flapWindow is for how long after its recovery a GPU that is marked again is
	// held to have flapped.
	flapWindow = time.Hour
	// mostDamping is the most doublings of the waits.
	mostDamping = 6
	// inFlight is after how long a probe that was asked for and not answered is
	// asked for again.
	inFlight = time.Minute
)

// planOf is by the gravest class among the marks of a GPU.
//
// reset: a GPU that has been reset, or whose error cost no more than what ran on
// it, answers and has no failure of row remapping pending; three such answers
// over 45 s. support: what is wrong is not known, so it takes longer. restart:
// the GPU must first be there again in a fresh inventory; that a driver has found
// and started it says much, and a driver that was upgraded brings all of them back
// so, hence the short waits.
func planOf(c gpu.XidClass) plan {
	switch c {
	case gpu.XidRestart:
		return plan{first: time.Second, gap: 2 * time.Second, good: 3}
	case gpu.XidSupport:
		return plan{first: time.Minute, gap: time.Minute, good: 5}
	case gpu.XidNote, gpu.XidApplication, gpu.XidReset:
	}
	return plan{first: 15 * time.Second, gap: 15 * time.Second, good: 3}
}

// grave orders the classes that mark; one that was enabled by hand is as a reset.
func grave(c gpu.XidClass) int {
	switch c {
	case gpu.XidRestart:
		return 3
	case gpu.XidSupport:
		return 2
	case gpu.XidNote, gpu.XidApplication, gpu.XidReset:
	}
	return 1
}

// damped doubles a wait n times, up to longestWait.
func damped(d time.Duration, n int) time.Duration {
	for ; n > 0 && d < longestWait; n-- {
		d *= 2
	}
	return min(d, longestWait)
}

// probation is how far a GPU has come on its way back.
type probation struct {
	class  gpu.XidClass
	good   int       // good probes in a row
	failed int       // failed probes in a row
	next   time.Time // when to probe, or to look for it in an inventory
	asked  bool      // a probe is on its way
	seen   bool      // class restart: it has been in an inventory since
}

// begin starts probation, or starts it again after a further event: what a probe
// on its way answers does not count any more.
func (d *device) begin(c gpu.XidClass, now time.Time) {
	if d.marked() && grave(d.probation.class) > grave(c) {
		c = d.probation.class
	}
	d.probation = probation{class: c, next: now.Add(damped(planOf(c).first, d.damping))}
}

// waits reports whether probation continues only after a fresh inventory.
func (d *device) waits() bool {
	return d.marked() && (d.probation.class == gpu.XidRestart && !d.probation.seen || !d.present)
}

// tried reports whether the GPU has something to prove.
func (d *device) tried() bool { return d.marked() || d.fresh && d.present }

// Due lists the GPUs to probe now, by UUID, sorted. Each is listed once; it is
// listed again a minute later if no answer came. A GPU that is new in the
// inventory is due at once, the healthy ones never.
func (s *State) Due(now time.Time) []string {
	var out []string
	for _, uuid := range s.sorted() {
		d := s.gpus[uuid]
		if d.tried() && !d.waits() && !now.Before(d.probation.next) {
			d.probation.asked = true
			d.probation.next = now.Add(inFlight)
			out = append(out, uuid)
		}
	}
	return out
}

// Stale reports whether a GPU can only come back after a fresh inventory and it
// is time to look for one; then it is not before the next wait is over.
func (s *State) Stale(now time.Time) bool {
	stale := false
	for _, d := range s.gpus {
		if d.waits() && !now.Before(d.probation.next) {
			stale = true
			d.probation.failed++
			d.probation.next = now.Add(damped(planOf(d.probation.class).gap, d.damping+d.probation.failed))
		}
	}
	return stale
}

// Next is when Due or Stale has something to say; zero is never, until an event.
func (s *State) Next() time.Time {
	var next time.Time
	for _, d := range s.gpus {
		if d.tried() && (next.IsZero() || d.probation.next.Before(next)) {
			next = d.probation.next
		}
	}
	return next
}

// Probed takes the answer of a probe that Due asked for; nil is well. A good one
// brings the GPU and its MIG devices back when it is the last that was wanting.
// A bad one makes the GPU unhealthy if it was not, and the next wait twice as
// long. An answer that was not asked for, or was asked for before the last event
// of the GPU, does not count. It gives the devices whose verdict changed.
func (s *State) Probed(uuid string, err error, now time.Time) []string {
	d, ok := s.gpus[uuid]
	if !ok || !d.probation.asked {
		return nil
	}
	before := d.verdicts(uuid)
	d.probation.asked = false
	switch {
	case err != nil && !d.marked():
		d.mark(nil, mark{why: "the driver does not find the GPU well: " + err.Error(), class: gpu.XidReset}, now)
	case err != nil:
		d.probation.good = 0
		d.probation.failed++
		d.probation.next = now.Add(damped(planOf(d.probation.class).gap, d.damping+d.probation.failed))
	case !d.marked():
		d.fresh = false
	default:
		d.probation.good++
		d.probation.failed = 0
		p := planOf(d.probation.class)
		d.probation.next = now.Add(damped(p.gap, d.damping))
		if d.probation.good >= p.good {
			d.whole, d.parts, d.well, d.fresh = nil, nil, now, false
		}
	}
	return changed(before, d.verdicts(uuid))
}
