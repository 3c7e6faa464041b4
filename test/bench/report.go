package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"
)

// figure is one measured value with what it is held to.
type figure struct {
	what   string
	values []float64 // one per run
	unit   string
	aim    float64 // the most it may be; 0 is none
	least  float64 // the least it may be; 0 is none
	wall   bool    // a wall time: worth nothing from a busy machine
	busy   bool    // the machine was busy with something else
	how    string
}

// report collects figures.
type report struct {
	began   time.Time
	loadAt  float64
	figures []figure
}

func newReport() *report { return &report{began: time.Now(), loadAt: load()} }

// add notes a figure and shows it at once.
func (r *report) add(f figure) {
	r.figures = append(r.figures, f)
	fmt.Fprintf(os.Stderr, "  %s: %s\n", f.what, f.text())
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

// verdict says whether the aim is reached.
func (f figure) verdict() string {
	switch {
	case f.wall && f.busy:
		return "invalid: busy machine"
	case f.aim == 0 && f.least == 0:
		return ""
	case (f.aim == 0 || f.median() <= f.aim) && f.median() >= f.least:
		return "reached"
	case f.busy:
		return "invalid: busy machine"
	default:
		return "**missed**"
	}
}

// markdown is the whole page.
func (r *report) markdown(now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Benchmarks\n\nWritten by `make bench` on %s; do not edit. Machine: %s, %d cores, %s, %s/%s.\n"+
		"Load average before: %.2f. The run took %s. CPU figures are what counts: a wall figure taken while the machine\n"+
		"did something else is marked invalid. Medians, with the range in brackets.\n\n",
		now.UTC().Format("2006-01-02"), model(), runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH,
		r.loadAt, now.Sub(r.began).Round(time.Second))
	b.WriteString("| figure | measured | aim | | how |\n|---|---|---|---|---|\n")
	for _, f := range r.figures {
		aim := "–"
		if f.aim != 0 {
			aim = fmt.Sprintf("≤ %.4g %s", f.aim, f.unit)
		} else if f.least != 0 {
			aim = fmt.Sprintf("≥ %.4g %s", f.least, f.unit)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", f.what, f.text(), aim, f.verdict(), f.how)
	}
	return b.String()
}

// model is the processor's name.
func model() string {
	out, err := exec.Command("sh", "-c", "grep -m1 'model name' /proc/cpuinfo | cut -d: -f2").Output()
	if name := strings.TrimSpace(string(out)); err == nil && name != "" {
		return name
	}
	return "unknown processor"
}
