package explain

import (
	"fmt"
	"time"
)

// Owner is an object that makes pods and has none now.
type Owner struct {
	Kind, Namespace, Name string
	Replicas              int64 // that it is to have; -1 is another kind
	Suspended             bool
	Paused                bool
	Failed                string // why it has failed, in its condition's words; "" is not
	ExitCode              int32  // of its last pod; -1 is not known
	Succeeded             bool
	NodesFor              int32  // of a DaemonSet: the nodes that should have a pod; -1 is another kind
	Schedule              string // of a CronJob
	Next                  time.Time
	Active                int // of a CronJob: Jobs that run
	Ran                   bool
}

// Explain says why the owner has no pod now, for a person to act on.
func (o *Owner) Explain() (state, message string, code Code) {
	at := o.Namespace + " " + o.Name
	switch {
	case o.Succeeded:
		return "Succeeded", "all its pods succeeded, and are gone", ""
	case o.Failed != "":
		exit := ""
		if o.ExitCode >= 0 {
			exit = fmt.Sprintf("; its last container ended with exit code %d", o.ExitCode)
		}
		return "Failed", "the Job failed: " + o.Failed + exit + "; see its logs, delete it, and create it again", CodeFailed
	case o.Suspended && o.Schedule != "":
		return "Suspended", fmt.Sprintf("its schedule is suspended, so it makes no Jobs; kubectl patch cronjob -n %s -p '{\"spec\":{\"suspend\":false}}' resumes it", at), CodeStopped
	case o.Suspended:
		return "Suspended", fmt.Sprintf("spec.suspend is set, so it has no pods; kubectl patch job -n %s -p '{\"spec\":{\"suspend\":false}}' starts it, unless a queue holds it", at), CodeStopped
	case o.Schedule != "" && !o.Ran:
		return "Scheduled", fmt.Sprintf("its first run is still to come: its schedule is %q; kubectl create job --from=cronjob/%s %s-now -n %s runs it now", o.Schedule, o.Name, o.Name, o.Namespace), CodeStopped
	case o.Schedule != "":
		return "Scheduled", fmt.Sprintf("none of its Jobs runs now: its schedule is %q", o.Schedule), CodeStopped
	case o.NodesFor == 0:
		return "NoNodes", "its pods fit no node: its node selector, affinity, or tolerations match none (0 desired)", CodeSelector
	case o.Replicas == 0:
		return "Stopped", fmt.Sprintf("spec.replicas is 0, so it has no pods; kubectl scale %s -n %s %s --replicas=1 starts one", o.Kind, o.Namespace, o.Name), CodeStopped
	case o.Paused:
		return "Paused", "spec.paused is set, so its new pods are not made; kubectl rollout resume " + o.Kind + " -n " + at, CodeStopped
	}
	return "Starting", "no pods exist yet: its controller creates them in a moment, or does not run", ""
}
