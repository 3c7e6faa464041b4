package notebook

import (
	"time"

	"berth.dev/berth/core/explain"
)

// Conditions returns those of a notebook's status: Ready with what Judge says, then
// GPUQueued, then the others of its pod, one for one and in their order. Ready comes
// first because Kubeflow's web app shows the first condition that has a reason, as
// long as the notebook is not ready (process_status in its status.py). old is what
// the status has now.
//
// A condition whose status is as it was keeps its time, unless the pod has one.
// The time of the last probe is of the last time at which anything else of the
// condition changed, so that what is equal stays equal.
func Conditions(f *explain.Facts, old []explain.Condition, now time.Time) []explain.Condition {
	v := explain.Judge(f)
	ready := explain.Condition{Type: explain.ConditionReady, Status: explain.False, Reason: string(v.Reason), Message: v.Message}
	if v.Reason == explain.Ready {
		ready.Status = explain.True
	}
	if f.Returns && ready.Status == explain.False {
		ready.Message = Returns + ready.Message
	}
	out := []explain.Condition{ready, v.Queued}
	if f.Pod != nil {
		for _, c := range f.Pod.Conditions {
			switch c.Type {
			case explain.ConditionGPUQueued:
			case explain.ConditionReady:
				if c.Status == ready.Status { // else the pod is ready, and its notebook is said not to be
					out[0].Since = c.Since
				}
			default:
				out = append(out, c)
			}
		}
	}
	now = now.Truncate(time.Second) // as the API keeps times
	for i := range out {
		date(&out[i], find(old, out[i].Type), now)
	}
	return out
}

// date fills in the times of c, which was old before; nil is that it was not there.
func date(c, old *explain.Condition, now time.Time) {
	switch {
	case !c.Since.IsZero():
	case old != nil && old.Status == c.Status && !old.Since.IsZero():
		c.Since = old.Since
	default:
		c.Since = now
	}
	c.Probed = now
	if old != nil && old.Status == c.Status && old.Reason == c.Reason && old.Message == c.Message && old.Since.Equal(c.Since) && !old.Probed.IsZero() {
		c.Probed = old.Probed
	}
}

// find returns the condition of a type, or nil.
func find(list []explain.Condition, kind string) *explain.Condition {
	for i := range list {
		if list[i].Type == kind {
			return &list[i]
		}
	}
	return nil
}
