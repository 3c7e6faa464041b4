package serving

import (
	"time"

	"berth.dev/berth/core/serving"
)

// Stats is a line of what an activator says at api.StatsPath: the first has all services that it knows, and later ones those
// whose figures have changed.
type Stats struct {
	Began    time.Time            `json:"began"`              // when it began to count
	Services map[string]*Requests `json:"services,omitempty"` // by namespace/name; nil is that it no longer knows the service
}

// Requests are the figures of one service at one activator, as core/serving.Traffic has them.
type Requests struct {
	InFlight   int       `json:"inFlight,omitempty"`
	Held       int       `json:"held,omitempty"`
	Stable     float64   `json:"stable,omitempty"`
	Panic      float64   `json:"panic,omitempty"`
	StableRate float64   `json:"stableRate,omitempty"`
	PanicRate  float64   `json:"panicRate,omitempty"`
	Last       time.Time `json:"last,omitzero"`
	Split      *Split    `json:"split,omitempty"`
}

// Split is core/serving.Split.
type Split struct {
	Revision string   `json:"revision"`
	Percent  int      `json:"percent"`
	Stable   Outcomes `json:"stable"`
	Canary   Outcomes `json:"canary"`
}

// Outcomes are core/serving.Outcomes.
type Outcomes struct {
	Answers int         `json:"answers,omitempty"`
	Errors  int         `json:"errors,omitempty"`
	Times   map[int]int `json:"times,omitempty"` // by the step of a Histogram
}

// Equal reports whether figures are the same.
func (r *Requests) Equal(o *Requests) bool {
	a, b := *r, *o
	a.Split, b.Split = nil, nil
	switch {
	case a != b || (r.Split == nil) != (o.Split == nil):
		return false
	case r.Split == nil:
		return true
	}
	return *r.Split.Value() == *o.Split.Value()
}

// SplitFor writes what came of requests; nil stays nil.
func SplitFor(s *serving.Split) *Split {
	if s == nil {
		return nil
	}
	return &Split{s.Revision, s.Percent, outcomesFor(&s.Stable), outcomesFor(&s.Canary)}
}

// Value reads what came of requests; nil stays nil.
func (s *Split) Value() *serving.Split {
	if s == nil {
		return nil
	}
	return &serving.Split{Revision: s.Revision, Percent: s.Percent, Stable: s.Stable.value(), Canary: s.Canary.value()}
}

func outcomesFor(o *serving.Outcomes) Outcomes {
	out := Outcomes{Answers: o.Answers, Errors: o.Errors}
	for step, n := range o.Times {
		if n > 0 {
			if out.Times == nil {
				out.Times = map[int]int{}
			}
			out.Times[step] = n
		}
	}
	return out
}

func (o *Outcomes) value() serving.Outcomes {
	out := serving.Outcomes{Answers: o.Answers, Errors: o.Errors}
	for step, n := range o.Times {
		if step >= 0 && step < len(out.Times) {
			out.Times[step] = n
		}
	}
	return out
}
