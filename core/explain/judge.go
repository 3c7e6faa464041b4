package explain

// Result says why a workload is ready or not, and where it stands in line. Equal facts give equal text.
type Result struct {
	Reason  Reason
	Message string
	Queued  Condition // GPUQueued, without times
}

// placing is what is said of a workload from its creation until the scheduler has
// looked at its pod once: mostly a few milliseconds, which are not worth a write.
const placing = "its pod is being made and placed"

// Judge says why a workload is ready or not, for a person to act on.
func Judge(f *Facts) Result {
	reason, message := f.judge()
	return Result{Reason: reason, Message: message, Queued: f.queued(reason)}
}

// Sentence is the message of Judge alone.
func (f *Facts) Sentence() string {
	_, message := f.judge()
	return message
}

func (f *Facts) judge() (Reason, string) {
	p := f.Pod
	switch {
	case f.Stopped && p != nil:
		return Terminating, "its pod is terminating, and frees its resources when it is gone"
	case f.Stopped:
		return Stopped, f.StoppedFor
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
	case p.Deleting && p.evicted() != "":
		return Restarting, p.evicted() + "; it waits in line again when its pod has ended, and its volumes are kept"
	case p.Deleting && f.deleting().code != "":
		d := f.deleting()
		return d.reason, d.text
	case p.Deleting:
		return Restarting, "its pod is terminating, and will be replaced"
	case p.Failed != "":
		return Crashing, "its pod has failed, and a new one is created: " + p.Failed
	case p.Node == "":
		return f.unplaced()
	case f.NodeGone && len(p.Containers) == 0:
		return NoSuchNode, f.Verdict.nodeGone(p.Node)
	}
	if c := p.condition(ConditionReady); c != nil && c.Status == True {
		return Ready, "on node " + p.Node
	}
	return f.onNode()
}

// InLine reports whether a workload waits for others to leave, and so has a place in line.
// One that only its user can help has none.
func InLine(f *Facts) bool {
	reason, _ := f.judge()
	return reason == Queued && len(f.GPUs) > 0 && f.Pod.Node == ""
}

// queued is the condition GPUQueued of a workload whose Ready has a reason.
func (f *Facts) queued(reason Reason) Condition {
	c := Condition{Type: ConditionGPUQueued, Status: False, Message: "-"}
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
		c.Status, c.Reason, c.Message = True, QueuedWaiting, f.Place.String()
	}
	return c
}
