package training

import (
	"maps"
	"slices"
	"time"
)

// The types of a job's conditions.
const (
	ConditionCreated    = "Created"
	ConditionRunning    = "Running"
	ConditionRestarting = "Restarting"
	ConditionSucceeded  = "Succeeded"
	ConditionSuspended  = "Suspended"
	ConditionFailed     = "Failed"
	// ConditionQueued is Berth's own: whether the job waits for GPUs. It stands before
	// the others, as the last condition is what kubectl shows as the job's state.
	ConditionQueued = "GPUQueued"
)

// Condition is a condition of a job.
type Condition struct {
	Type            string
	True            bool
	Reason, Message string
	Updated, Since  time.Time // of its reason or status, and of its status
}

// ReplicaStatus counts the pods of one type.
type ReplicaStatus struct {
	Active, Succeeded, Failed int
	Pending                   int // counted for a TrainJob alone
}

// Status is the status of a job.
type Status struct {
	Conditions []Condition              // in the order in which they came
	Replicas   map[string]ReplicaStatus // by type
	Start, End time.Time                // zero is none
}

// Is reports whether a condition is True.
func (s *Status) Is(condition string) bool {
	return slices.ContainsFunc(s.Conditions, func(c Condition) bool { return c.Type == condition && c.True })
}

// Ended reports whether the job has succeeded or failed.
func (s *Status) Ended() bool { return s.Is(ConditionSucceeded) || s.Is(ConditionFailed) }

// clone returns a copy that shares nothing with s.
func (s *Status) clone() Status {
	out := *s
	out.Conditions = slices.Clone(s.Conditions)
	out.Replicas = map[string]ReplicaStatus{}
	maps.Copy(out.Replicas, s.Replicas)
	return out
}

// set adds a condition at the end of the list, in place of an earlier one of its type. A
// condition with the same status and reason stays as it is, and so do all conditions of
// a job that has failed. Running and Restarting take each other's place, and at a job's
// end Running becomes False (pkg/util/status.go of training-operator).
func (s *Status) set(c Condition, now time.Time) {
	if s.Is(ConditionFailed) {
		return
	}
	c.Updated, c.Since = now, now
	if i := slices.IndexFunc(s.Conditions, func(o Condition) bool { return o.Type == c.Type }); i >= 0 {
		old := s.Conditions[i]
		if old.True == c.True && old.Reason == c.Reason {
			return
		}
		if old.True == c.True {
			c.Since = old.Since
		}
	}
	kept := s.Conditions[:0:0]
	for _, o := range s.Conditions {
		switch {
		case o.Type == c.Type,
			c.Type == ConditionRestarting && o.Type == ConditionRunning,
			c.Type == ConditionRunning && o.Type == ConditionRestarting:
			continue
		case o.Type == ConditionRunning && (c.Type == ConditionFailed || c.Type == ConditionSucceeded):
			o.True = false
		}
		kept = append(kept, o)
	}
	s.Conditions = append(kept, c)
}

// drop removes a condition, to set it again with another message.
func (s *Status) drop(condition string) {
	s.Conditions = slices.DeleteFunc(s.Conditions, func(c Condition) bool { return c.Type == condition })
}

// Queued is what is known of a job that waits for GPUs; "" as reason is that it does not wait.
type Queued struct {
	Waits           bool
	Reason, Message string
}

// queue sets Berth's own condition, at the beginning of the list. A job that never waited has none.
func (s *Status) queue(q Queued, now time.Time) {
	i := slices.IndexFunc(s.Conditions, func(o Condition) bool { return o.Type == ConditionQueued })
	if i < 0 && !q.Waits {
		return
	}
	c := Condition{Type: ConditionQueued, True: q.Waits, Reason: q.Reason, Message: q.Message, Updated: now, Since: now}
	if i < 0 {
		s.Conditions = slices.Insert(s.Conditions, 0, c)
		return
	}
	old := s.Conditions[i]
	if old.True == c.True && old.Reason == c.Reason && old.Message == c.Message {
		return
	}
	if old.True == c.True {
		c.Since = old.Since
	}
	s.Conditions[i] = c
}
