package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// figure is one measured value with what it is held to.
type figure struct {
	what   string
	values []float64 // one per run
	unit   string
	aim    float64 // the most it may be; 0 is none
	least  float64 // the least it may be; 0 is none
	each   bool    // the aim holds for every value, not for the median alone
	wall   bool    // a wall time: worth nothing from a busy machine
	busy   bool    // the machine was busy with something else
	void   string  // why it does not count at all; "" is that it does
	how    string
}

// report collects the figures of one part after the other.
type report struct {
	loadAt   float64
	divide   int    // loads of the scheduler's parts are so many times smaller
	nodes    int    // the only backlog to schedule; 0 is all
	profiles string // folder to keep CPU profiles in; "" is not to
	figures  []figure
	keep     func() error // puts what a part has measured so far on the page
}

// small divides a number of nodes or pods, to try a part out.
func (r *report) small(n int) int { return max(1, n/r.divide) }

// add notes a figure and shows it at once.
func (r *report) add(f figure) {
	r.figures = append(r.figures, f)
	fmt.Fprintf(os.Stderr, "  %s: %s %s\n", f.what, f.text(), strings.Trim(f.verdict(), "*"))
}

// median is the middle of the runs.
func (f figure) median() float64 {
	v := slices.Sorted(slices.Values(f.values))
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

func (f figure) text() string {
	s := fmt.Sprintf("%.4g %s", f.median(), f.unit)
	if len(f.values) > 1 {
		s += fmt.Sprintf(" (%.4g to %.4g, %d runs)", slices.Min(f.values), slices.Max(f.values), len(f.values))
	}
	return s
}

// aimText is what the figure is held to.
func (f figure) aimText() string {
	each := ""
	if f.each && len(f.values) > 1 {
		each = ", each"
	}
	switch {
	case f.aim != 0:
		return fmt.Sprintf("≤ %.4g %s%s", f.aim, f.unit, each)
	case f.least != 0:
		return fmt.Sprintf("≥ %.4g %s%s", f.least, f.unit, each)
	}
	return "–"
}

// verdict says whether the aim is reached.
func (f figure) verdict() string {
	low, high := f.median(), f.median()
	if f.each {
		low, high = slices.Min(f.values), slices.Max(f.values)
	}
	switch {
	case f.void != "":
		return "invalid: " + f.void
	case f.wall && f.busy:
		return "invalid: busy machine"
	case f.aim == 0 && f.least == 0:
		return ""
	case (f.aim == 0 || high <= f.aim) && (f.least == 0 || low >= f.least):
		return "reached"
	case f.busy:
		return "invalid: busy machine"
	default:
		return "**missed**"
	}
}
