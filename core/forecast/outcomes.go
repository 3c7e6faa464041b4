package forecast

import (
	"cmp"
	"slices"
	"time"
)

// The bounds of what is remembered of estimates.
const (
	OutcomesKept = 1000 // of those that have started, the last
	WaitingKept  = 1000 // that have not started
)

// Outcome is an estimate that was made when a job was submitted, and when the job started.
type Outcome struct {
	Queue string // "" is none
	GPUs  float64
	// Estimated is the wait that half of such jobs were expected not to exceed, and By nine of ten; Never is not known. They
	// and Came, the wait that came, begin with the estimate.
	Estimated, By, Came time.Duration
}

// Error is by which part of the wait that came an estimate was wrong. For waits under ten minutes, the part is that of ten minutes.
func (o *Outcome) Error() float64 {
	return float64((o.Estimated - o.Came).Abs()) / float64(max(o.Came, 10*time.Minute))
}

// Large reports whether the job asks for so many GPUs that its estimates are measured apart.
func (o *Outcome) Large() bool { return o.GPUs >= Large }

// Submission is an estimate of a job that has not started.
type Submission struct {
	ID      string
	Outcome           // without Came
	At      time.Time // when it was estimated
}

// Outcomes remembers what came of estimates, and corrects later ones by it. The zero value remembers nothing.
type Outcomes struct {
	list     []Outcome // the oldest first
	accuracy *Accuracy
	waiting  map[string]Submission
	changed  bool
}

// RememberedOutcomes returns Outcomes that remember these: those of jobs that have started, the oldest first, and of those that
// have not.
func RememberedOutcomes(list []Outcome, waiting []Submission) *Outcomes {
	o := &Outcomes{}
	for i := range list {
		o.add(&list[i])
	}
	for _, s := range waiting {
		o.note(s)
	}
	o.changed = false
	return o
}

func (o *Outcomes) add(one *Outcome) {
	if o.accuracy == nil {
		o.accuracy = NewAccuracy()
	}
	if o.list = append(o.list, *one); len(o.list) > OutcomesKept {
		o.list = slices.Delete(o.list, 0, len(o.list)-OutcomesKept)
	}
	if one.Estimated != Never {
		o.accuracy.Came(one.Estimated, one.Came, one.GPUs)
	}
	o.changed = true
}

func (o *Outcomes) note(s Submission) {
	if o.waiting == nil {
		o.waiting = map[string]Submission{}
	}
	o.waiting[s.ID] = s
	o.changed = true
}

// Correct returns the wait that nine of ten jobs with such an estimate have not exceeded, at least the estimate itself. ok is false where
// too few of them have started.
func (o *Outcomes) Correct(estimated time.Duration, gpus float64) (by time.Duration, ok bool) {
	if o == nil || o.accuracy == nil || estimated == Never {
		return 0, false
	}
	by, ok = o.accuracy.Corrected(estimated, gpus, 0.9)
	return max(by, estimated), ok
}

// Submitted takes the estimate of a job. Where too many wait it is not remembered.
func (o *Outcomes) Submitted(s Submission) {
	if by, ok := o.Correct(s.Estimated, s.GPUs); ok {
		s.By = by
	}
	if len(o.waiting) < WaitingKept {
		o.note(s)
	}
}

// Waiting returns the jobs that have been estimated and have not started, by ID.
func (o *Outcomes) Waiting() []Submission {
	out := make([]Submission, 0, len(o.waiting))
	for _, s := range o.waiting {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b Submission) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// Has reports whether a job was estimated and has not started.
func (o *Outcomes) Has(id string) bool { _, has := o.waiting[id]; return has }

// Started takes when a job started, and returns what came of its estimate; ok is false where it had none, or a clock was set back.
func (o *Outcomes) Started(id string, at time.Time) (came Outcome, ok bool) {
	s, ok := o.waiting[id]
	if !ok {
		return came, false
	}
	o.Left(id)
	if at.Before(s.At) {
		return came, false
	}
	s.Came = at.Sub(s.At)
	o.add(&s.Outcome)
	return s.Outcome, true
}

// Left takes a job that is gone without a start.
func (o *Outcomes) Left(id string) {
	if o.Has(id) {
		delete(o.waiting, id)
		o.changed = true
	}
}

// List returns what came of estimates, the oldest first.
func (o *Outcomes) List() []Outcome { return slices.Clone(o.list) }

// Unsaved reports whether there is news since the last call.
func (o *Outcomes) Unsaved() bool {
	was := o.changed
	o.changed = false
	return was
}

// Lost notes that what was unsaved was not saved.
func (o *Outcomes) Lost() { o.changed = true }

// Measure is how good estimates were.
type Measure struct {
	Started int // jobs with an estimate that have started
	Unknown int // that have started without one
	// Error is the median of Outcome.Error; 0 where none have started.
	Error float64
	// Bounded is how many of Started had a By, and Within how many of these started no later.
	Bounded, Within int
}

// MeasureOf measures estimates of the jobs that count.
func MeasureOf(list []Outcome, counts func(*Outcome) bool) (m Measure) {
	var errs []float64
	for i := range list {
		o := &list[i]
		switch {
		case !counts(o):
			continue
		case o.Estimated == Never:
			m.Unknown++
			continue
		}
		m.Started++
		errs = append(errs, o.Error())
		if o.By != Never {
			m.Bounded++
			if o.Came <= o.By {
				m.Within++
			}
		}
	}
	if slices.Sort(errs); len(errs) > 0 {
		m.Error = errs[len(errs)/2]
	}
	return m
}
