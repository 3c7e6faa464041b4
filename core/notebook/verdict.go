package notebook

import "strings"

// Verdict is what is said of a notebook: why it is ready or not, and where it
// stands. Equal facts give equal text.
type Verdict struct {
	Reason  Reason
	Message string
	Queued  Condition // GPUQueued, without times
}

// placing is what is said from the notebook's beginning until the scheduler has
// looked at its pod once: mostly a few milliseconds, which are not worth a write.
const placing = "its pod is being made and placed"

// Judge says why a notebook is ready or not, for a person to act on.
func Judge(f *Facts) Verdict {
	reason, message := f.judge()
	return Verdict{Reason: reason, Message: message, Queued: f.queued(reason)}
}

func (f *Facts) judge() (Reason, string) {
	p := f.Pod
	switch {
	case f.Stopped && p != nil:
		return Terminating, "its pod is being ended, and what it holds is free when that is gone"
	case f.Stopped:
		return Stopped, f.stopped()
	case f.Taken != "":
		return Refused, f.Taken
	case p == nil && f.Invalid != "":
		return Invalid, f.Invalid
	case p == nil && f.Refusal != nil:
		return f.Explain(f.Refusal.Message)
	case p == nil:
		return Starting, placing
	case f.Change != "":
		return Restarting, "restarting: " + f.Change
	case p.Deleting && p.Preempted() != "":
		return Restarting, "preempted (" + p.Preempted() + "); it waits in line again when its pod has ended, and its volumes are kept"
	case p.Deleting:
		return Restarting, "its pod is being ended, and a new one is made then"
	case p.Failed != "":
		return Crashing, "its pod has failed, and a new one is made: " + p.Failed
	case p.Node == "":
		return f.unplaced()
	}
	if c := p.condition(ready); c != nil && c.Status == yes {
		return Ready, "on node " + p.Node
	}
	return f.onNode()
}

func (f *Facts) stopped() string {
	why := "stopped by annotation kubeflow-resource-stopped"
	if f.StoppedFor != "" {
		why = "stopped: " + strings.TrimSuffix(f.StoppedFor, ".")
	}
	kept := ""
	if len(f.Claims) > 0 {
		kept = "; kept: volume claim " + strings.Join(f.Claims, ", ")
	}
	return why + kept + "; to start it: kubectl annotate notebook " + f.Name + " -n " + f.Namespace + " kubeflow-resource-stopped-"
}

// InLine says whether a notebook waits for others to leave: whether it has a place
// in line. One that nothing but its user can help has none.
func InLine(f *Facts) bool {
	reason, _ := f.judge()
	return reason == Queued && len(f.GPUs) > 0 && f.Pod.Node == ""
}

// queued is the condition GPUQueued of a notebook whose Ready has a reason.
func (f *Facts) queued(reason Reason) Condition {
	c := Condition{Type: gpuQueued, Status: no, Message: "-"}
	p := f.Pod
	switch {
	case f.Stopped:
		c.Reason = QueuedStopped
	case p != nil && p.Node != "" && f.Waits != "":
		c.Reason, c.Message = QueuedChange, p.Node+"; change waits: "+f.Waits
	case p != nil && p.Node != "" && len(f.GPUs) > 0:
		c.Reason, c.Message = QueuedBound, p.Node
	case p != nil && p.Node != "":
		c.Reason, c.Message = QueuedNotAsked, p.Node
	case reason != Starting && reason != Queued && reason != Restarting:
		c.Reason = QueuedHeld
	case len(f.GPUs) == 0:
		c.Reason = QueuedNotAsked
	default:
		c.Status, c.Reason, c.Message = yes, QueuedWaiting, f.Place.String()
	}
	return c
}
