package training

import (
	"strconv"
	"strings"
	"time"

	"berth.dev/berth/core/checkpoint"
)

// Member is one replica of a job.
type Member struct {
	Type  string
	Index int
}

// Whole stands for all members in place of one: the Service of a TrainJob is theirs together.
var Whole = Member{}

// Name returns the name of a member's pod and Service. For a member of a TrainJob it is the pod's host name, as an indexed
// Job of a JobSet has it, and for Whole that of the job.
func (m Member) Name(job string) string {
	switch m.Type {
	case "":
		return job
	case Node:
		return job + "-node-0-" + strconv.Itoa(m.Index)
	}
	return job + "-" + strings.ToLower(m.Type) + "-" + strconv.Itoa(m.Index)
}

// Phase is the phase of a pod.
type Phase string

// The phases of pods.
const (
	Pending   Phase = "Pending"
	Running   Phase = "Running"
	Succeeded Phase = "Succeeded"
	Failed    Phase = "Failed"
)

// Pod is a pod of a job.
type Pod struct {
	Member
	Name, UID string
	Phase     Phase
	Node      string    // "" is none yet
	Round     int       // of the job, when the pod was created
	Deleting  bool      // it has a deletion timestamp
	Killed    time.Time // if it is being deleted: when its grace period is over
	Asked     time.Time // if it is being deleted: when it was asked to stop
	// Disrupted is that it was evicted, preempted, or lost with its node, so its end says
	// nothing of the program. Why is the reason of its condition DisruptionTarget, or of its status.
	Disrupted bool
	Why       string
	// Interrupted is that its program ended after it was asked to stop, so its exit code says nothing either: programs
	// that save their work then often end with 0.
	Interrupted bool
	Saves       checkpoint.Saves
	Start       time.Time // since when it runs; zero is not yet
	MilliGPUs   int64
	Notice      string // why its node will be gone soon: the key of a taint; "" is that no one says so
	Fault       *Fault // of a GPU that it has; nil is none
	Exit        *int   // of the container that trains, once it has ended
	Restarts    int    // of all its containers
	Created     time.Time
}

// failed reports whether the program has failed, and nothing else is known to be the cause.
func (p *Pod) failed() bool {
	return p.Phase == Failed && !p.Disrupted && !p.Interrupted && p.Fault == nil
}

// succeeded reports whether the program has done its work.
func (p *Pod) succeeded() bool { return p.Phase == Succeeded && !p.Interrupted }

// active reports whether the pod counts as active: it runs and is not being deleted.
func (p *Pod) active() bool { return p.Phase == Running && !p.Deleting }

// Service is a Service of a job.
type Service struct {
	Member
	Name, UID string
}

// missing returns the members of the job for which has reports false, by type and index.
func (j *Job) missing(has func(Member) bool) []Member {
	var out []Member
	for _, r := range j.Replicas {
		for i := range r.Count {
			if m := (Member{r.Type, i}); !has(m) {
				out = append(out, m)
			}
		}
	}
	return out
}

// services returns the members that have a Service.
func (j *Job) services() []Member {
	if j.Kind == TrainJob {
		return []Member{Whole}
	}
	return j.missing(func(Member) bool { return false })
}

// has reports whether the job has such a member.
func (j *Job) has(m Member) bool {
	r := j.Replica(m.Type)
	return r != nil && m.Index >= 0 && m.Index < r.Count
}
