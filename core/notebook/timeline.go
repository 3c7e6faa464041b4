package notebook

import (
	"time"

	"berth.dev/berth/core/explain"
)

// Moment is one step of a notebook's way to being ready.
type Moment struct {
	Step Step
	At   time.Time // zero: it has not happened, or it is not known when
}

// Step is the name of a Moment.
type Step string

// The steps, in their order.
const (
	StepQueued  Step = "queued"  // its pod was made
	StepBound   Step = "bound"   // it has a node, and its GPUs
	StepPulling Step = "pulling" // volumes and network are there; the image is fetched if it is not there
	StepStarted Step = "started" // its container runs
	StepReady   Step = "ready"   // it answers
)

// Timeline tells the way of a notebook's pod from the conditions in the notebook's
// status. made is when the pod was made, or the notebook where there is none;
// started is when its container began to run last, zero where it does not run. The
// steps are given in their order, whatever has happened; times of steps that were
// not reached are zero. The API keeps times in seconds.
func Timeline(made time.Time, conditions []explain.Condition, started time.Time) []Moment {
	since := func(kind string) time.Time {
		if c := find(conditions, kind); c != nil && c.Status == explain.True {
			return c.Since
		}
		return time.Time{}
	}
	return []Moment{
		{StepQueued, made}, {StepBound, since(explain.ConditionScheduled)}, {StepPulling, since(explain.ConditionReadyToStart)}, {StepStarted, started}, {StepReady, since(explain.ConditionReady)},
	}
}
