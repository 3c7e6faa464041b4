package queue

import (
	"fmt"
	"slices"
	"time"
)

// The bounds of what is remembered of run times.
const (
	runsOfTemplate = 64
	runsOfClass    = 512
	fewestRuns     = 5
	mostTemplates  = 1 << 12
)

// Template says what is alike between workloads whose run times are taken together.
type Template struct {
	Name  string // of what runs: the same user, program, and shape
	Class string // wider, such as how many GPUs; used while too few of Name have ended
}

// Basis is what an estimate of a run time rests on.
type Basis uint8

// The bases, the best one last.
const (
	NoBasis       Basis = iota // too few workloads have ended
	AllBasis                   // all workloads
	ClassBasis                 // those of the same class
	TemplateBasis              // those of the same template
)

// RunTimes learns how long workloads run from those that have ended: of each template the last 64, of each class and of
// all together the last 512. It keeps the 4,096 templates of which one has ended last. Equal calls give equal answers.
type RunTimes struct {
	templates, classes map[string]*sample
	all                sample
	serial             int
}

// NewRunTimes returns RunTimes that know of no workload.
func NewRunTimes() *RunTimes {
	return &RunTimes{templates: map[string]*sample{}, classes: map[string]*sample{}}
}

// sample is the last run times of some workloads.
type sample struct {
	last   []time.Duration // in a ring
	sorted []time.Duration
	sum    time.Duration
	next   int // position in last
	ended  int // serial number of the last one
}

// Ended takes a workload that has ended by itself after running for a time. One that was stopped or moved says nothing.
func (r *RunTimes) Ended(t Template, ran time.Duration) {
	r.serial++
	ran = max(ran, 0)
	r.all.add(ran, runsOfClass, r.serial)
	of(r.classes, t.Class).add(ran, runsOfClass, r.serial)
	of(r.templates, t.Name).add(ran, runsOfTemplate, r.serial)
	if len(r.templates) > mostTemplates {
		r.forget()
	}
}

// of returns the sample of a name, which it makes if there is none.
func of(all map[string]*sample, name string) *sample {
	s := all[name]
	if s == nil {
		s = &sample{}
		all[name] = s
	}
	return s
}

// forget drops the template of which one has not ended for longest.
func (r *RunTimes) forget() {
	oldest := ""
	for name, s := range r.templates {
		if oldest == "" || s.ended < r.templates[oldest].ended {
			oldest = name
		}
	}
	delete(r.templates, oldest)
}

func (s *sample) add(ran time.Duration, most, serial int) {
	if s.ended = serial; len(s.last) < most {
		s.last = append(s.last, ran)
	} else {
		old := s.last[s.next]
		at, _ := slices.BinarySearch(s.sorted, old)
		s.sorted = slices.Delete(s.sorted, at, at+1)
		s.sum -= old
		s.last[s.next] = ran
	}
	s.next = (s.next + 1) % most
	at, _ := slices.BinarySearch(s.sorted, ran)
	s.sorted = slices.Insert(s.sorted, at, ran)
	s.sum += ran
}

// Of returns the run times that stand for a template: its own, else those of its class, else all, where at least five
// have ended. They are good until the next Ended.
func (r *RunTimes) Of(t Template) Runs {
	for _, s := range []struct {
		from  *sample
		basis Basis
	}{{r.templates[t.Name], TemplateBasis}, {r.classes[t.Class], ClassBasis}, {&r.all, AllBasis}} {
		if s.from != nil && len(s.from.sorted) >= fewestRuns {
			return Runs{sorted: s.from.sorted, sum: s.from.sum, Basis: s.basis}
		}
	}
	return Runs{}
}

// Runs are run times from which those of others are estimated.
type Runs struct {
	Basis  Basis
	sorted []time.Duration
	sum    time.Duration
}

// Len is how many run times there are; of NoBasis it is 0.
func (r Runs) Len() int { return len(r.sorted) }

// Mean is their mean, and 0 of none.
func (r Runs) Mean() time.Duration {
	if len(r.sorted) == 0 {
		return 0
	}
	return r.sum / time.Duration(len(r.sorted))
}

// Left is how much longer a workload runs that has run for a time, at a quantile from 0 to 1: of those that ran longer,
// the rest. If none did, it is taken to run for twice as long in all. It is 0 of none.
func (r Runs) Left(ran time.Duration, quantile float64) time.Duration {
	if len(r.sorted) == 0 {
		return 0
	}
	from, _ := slices.BinarySearch(r.sorted, ran+1)
	longer := r.sorted[from:]
	if len(longer) == 0 {
		return max(ran, 1)
	}
	at := min(int(quantile*float64(len(longer))), len(longer)-1)
	return longer[max(at, 0)] - ran
}

// ReadRunTime reads how long a pod runs at most, as it declares it: a duration of more than 0, such as "90m" or "2h"; 0 is that it declares
// nothing, as "" does. The error says what to write.
func ReadRunTime(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%q does not say how long a pod runs: write a duration such as 90m or 2h", text)
	}
	return d, nil
}
