package fakegpu

import (
	"slices"
	"time"

	"berth.dev/berth/core/gpu"
)

// Totals is how the counters of a GPU stand at one moment. The zero value with
// At = the time of boot is a driver just loaded.
type Totals struct {
	At                time.Time
	EnergyMillijoules float64
	NVLinkBytes       float64
}

// Advance returns the counters of g at now, from how they stood at from.At and
// what ran since. Call it when a load has ended, with the load and its End still
// in loads; then drop the load and go on with ReadFrom, so no counter falls
// and no list grows without end. Faults and noise do not count. A now before
// from.At changes nothing; a from.At that is zero only becomes now.
func Advance(g gpu.GPU, loads []Load, from Totals, now time.Time) Totals {
	return modelOf(g).advance(g, "", loads, from, now)
}

// advance sums piece by piece: between two moments at which a load starts, ends
// or takes a step of its curve, power is constant.
func (m model) advance(g gpu.GPU, mig string, loads []Load, from Totals, now time.Time) Totals {
	if from.At.IsZero() || now.Before(from.At) {
		if from.At.IsZero() {
			from.At = now
		}
		return from
	}
	to := from
	for _, t := range moments(loads, from.At, now) {
		seconds := t.Sub(to.At).Seconds()
		_, whole := m.busy(g, mig, loads, to.At, nil)
		to.EnergyMillijoules += 1000 * seconds * (m.idleWatts + (m.busyWatts-m.idleWatts)*whole)
		to.NVLinkBytes += seconds * m.nvlink(g, loads, to.At)
		to.At = t
	}
	return to
}

// moments lists in order when anything changes after from and before to, and to.
func moments(loads []Load, from, to time.Time) []time.Time {
	var ts []time.Time
	for _, l := range loads {
		ts = append(ts, l.Start)
		if !l.End.IsZero() {
			ts = append(ts, l.End)
		}
		for _, p := range l.Curve {
			ts = append(ts, l.Start.Add(p.After))
		}
	}
	ts = slices.DeleteFunc(ts, func(t time.Time) bool { return !t.After(from) || !t.Before(to) })
	slices.SortFunc(ts, time.Time.Compare)
	return append(slices.CompactFunc(ts, time.Time.Equal), to)
}
