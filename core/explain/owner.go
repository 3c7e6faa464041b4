package explain

import (
	"fmt"
	"time"
)

// NoNodes says of a DaemonSet why it makes no pods, as far as nodes are the cause.
const NoNodes = "its pods fit no node: its node selector, affinity, or tolerations match none"

// Owner is an object that makes pods and has none now.
type Owner struct {
	Kind, Namespace, Name string
	Replicas              int64 // that it is to have; -1 is another kind
	Suspended             bool
	Resume                string // the command that resumes it; "" is to patch spec.suspend of a Job
	Paused                bool
	Failed                string // why it has failed, in its condition's words; "" is not
	ExitCode              int32  // of its last pod; -1 is not known
	Succeeded             bool
	NodesFor              int32  // of a DaemonSet: the nodes that should have a pod; -1 is another kind
	Schedule              string // of a CronJob
	Next                  time.Time
	Active                int // of a CronJob: Jobs that run
	Ran                   bool
	Unseen                bool    // its controller has not looked at it, though it had time to
	Queue                 Refusal // what the queueing system that it is in says last: reason and message
	Turn                  *Turn   // of one that is suspended and to be resumed in its turn; nil is another
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
	case o.Unseen:
		return "Unseen", fmt.Sprintf("no controller has looked at this %s since it was created; start the one that runs its kind, such as kube-controller-manager", o.Kind), CodeController
	case o.Suspended && o.Turn != nil:
		return o.Turn.explain(o.Kind, at, o.Resume)
	case o.Suspended && o.Schedule == "" && admission(o.Queue.Reason, o.Queue.Message).code != "":
		d := admission(o.Queue.Reason, o.Queue.Message)
		return "Queued", d.text, d.code
	case o.Suspended && o.Schedule != "":
		return "Suspended", fmt.Sprintf("its schedule is suspended, so it makes no Jobs; kubectl patch cronjob -n %s -p '{\"spec\":{\"suspend\":false}}' resumes it", at), CodeSuspended
	case o.Suspended && o.Resume != "":
		return "Suspended", fmt.Sprintf("the job is suspended, so it has no pods; %s resumes it", o.Resume), CodeSuspended
	case o.Suspended:
		return "Suspended", fmt.Sprintf("spec.suspend is set, so it has no pods; kubectl patch job -n %s -p '{\"spec\":{\"suspend\":false}}' starts it, unless a queue holds it", at), CodeSuspended
	case o.Schedule != "" && !o.Ran:
		return "Scheduled", fmt.Sprintf("its first run is still to come: its schedule is %q; kubectl create job --from=cronjob/%s %s-now -n %s runs it now", o.Schedule, o.Name, o.Name, o.Namespace), CodeSchedule
	case o.Schedule != "":
		return "Scheduled", fmt.Sprintf("none of its Jobs runs now: its schedule is %q", o.Schedule), CodeSchedule
	case o.NodesFor == 0:
		return "NoNodes", NoNodes + " (0 desired)", CodeDaemonSet
	case o.Replicas == 0:
		return "Stopped", fmt.Sprintf("spec.replicas is 0, so it has no pods; kubectl scale %s -n %s %s --replicas=1 starts one", o.Kind, o.Namespace, o.Name), CodeStopped
	case o.Paused:
		return "Paused", "spec.paused is set, so its new pods are not made; kubectl rollout resume " + o.Kind + " -n " + at, CodePaused
	}
	return "Starting", "no pods exist yet: its controller creates them in a moment, or does not run", ""
}
