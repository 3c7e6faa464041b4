package explain

import "slices"

// diagnosis is a cause that is known more exactly than by its Reason alone.
type diagnosis struct {
	code   Code
	reason Reason
	text   string // for a person to act on
}

// diagnosed is the exact cause of a reason that Judge has given for the same facts; its
// code is "" if the reason says all that is known.
func (f *Facts) diagnosed(reason Reason) diagnosis {
	p := f.Pod
	switch {
	case reason == Ready || reason == Stopped:
	case reason == Refused && f.Taken != "":
		return diagnosis{code: CodeNameTaken}
	case p == nil && f.Refusal != nil:
		return f.refused(f.Refusal.Message)
	case p == nil:
	case p.evicted() != "" || p.Failed != "" && p.condition("DisruptionTarget") != nil && reason == Crashing:
		return diagnosis{code: CodePreempted}
	case p.Failed != "" && reason == Crashing:
		return diagnosis{code: FailedCode(p.Failed)}
	case p.Deleting:
		return f.deleting()
	case reason == Terminating || reason == Restarting:
	case p.Node == "":
		return f.heldBack()
	case reason == MissingVolume || reason == VolumeInUse || reason == Starting || reason == ImageTrouble || reason == MissingConfig || reason == Crashing || reason == Pulling:
		return f.starting()
	}
	return diagnosis{}
}

// said is the newest event about the pod with one of these reasons, nil if there is none.
func (p *Pod) said(reasons ...string) *Refusal {
	for i := len(p.Troubles) - 1; i >= 0; i-- {
		if slices.Contains(reasons, p.Troubles[i].Reason) {
			return &p.Troubles[i]
		}
	}
	return nil
}
