package explain

import (
	"fmt"
	"strings"
	"time"

	"berth.dev/berth/core/quota"
)

// Facts is what is known of one workload at one moment. The zero value is one that
// asks for no GPU and has no pod yet.
type Facts struct {
	Namespace, Name string
	Stopped         bool   // it is to have no pod
	StoppedFor      string // why, and how to start it, as a sentence
	Returns         bool   // it gave way to a workload that waited, and stands in line again
	Invalid         string // why no pod can be made of what is written, as a sentence; "" is nothing
	Taken           string // which of its names another object has, as a sentence; "" is none
	// Refusal is the newest answer by which the API server has refused one of its
	// objects, while there is no pod; nil is none.
	Refusal *Refusal
	// Waits says why a change of what is written is not made yet, or at all, while
	// the pod runs on as it was; "" is that there is none.
	Waits  string
	Change string   // what a new pod would have that this one has not: "GPU count 1 to 2"; "" is nothing
	GPUs   []Amount // what its pod asks for, by resource
	Claims []string // volume claims that it names, sorted
	// InUse is which of Claims another pod uses, and which pod that is, while its own
	// fits nowhere for that: "volume claim data is used by notebook b"; "" is not known.
	InUse   string
	Pod     *Pod     // nil is none
	Place   Place    // in line, while its pod has no node
	Verdict *Verdict // of the nodes, while its pod fits on none; nil is unknown
	Rivals  Rivals   // who holds what it asks for
	// BadClaims are claims of its pod that keep it from every node; nil is none known.
	BadClaims []Claim
	// NoClaims are the ResourceClaims, and the templates for them, that its pod names and that
	// do not exist: "ResourceClaim gpu".
	NoClaims   []string
	Scheduler  string        // of its pod: spec.schedulerName; "" is not known
	Schedulers []string      // those that have placed pods here, sorted
	Waited     time.Duration // for how long its pod has been there; 0 is not known
	Gates      []string      // scheduling gates of its pod
	NodeGone   bool          // its pod's node does not exist
	Group      *Group        // the gang of its pod; nil is none, or not known
	Queue      Refusal       // what the queueing system that its workload is in says last: reason and message
	Quota      quota.Verdict // what the quotas of Berth's queues say of its pod; None is that they let it, or are not known
	User       string        // of its pod, as quotas count it; "" is not known
	// Joining is a node that is new and offers no GPU yet, where GPUs of its kind would do; "" is none.
	Joining string
	// Pool is a declared pool that could grow, of which a new node would do, where no
	// autoscaler has been seen: "t4, which can grow by 2"; "" is none.
	Pool   string
	Brief  bool   // the place in line and who holds what are left out
	Others string // what may be stopped for it; "" is "another workload"
}

// Amount is a number of one resource.
type Amount struct {
	Resource string
	Count    int64
}

// Amounts writes amounts as a person would: "2 nvidia.com/gpu and 1 x.y/z".
func Amounts(list []Amount) string {
	out := make([]string, len(list))
	for i, a := range list {
		out[i] = fmt.Sprint(a.Count, " ", a.Resource)
	}
	return strings.Join(out, " and ")
}

// Pod is the pod of a workload.
type Pod struct {
	Name       string
	Node       string // "" is none
	Failed     string // why it has failed for good, such as "Evicted: node was low on memory"; "" is not
	Deleting   bool
	Conditions []Condition // in their order
	Containers []Container // init containers first
	Troubles   []Refusal   // Warning events about it, oldest first
	Created    time.Time
	LostNode   bool     // its node does not report
	Finalizers []string // that keep it while it is being deleted
	ReadyGates []string // conditions that it needs to be ready
}

// condition gives the condition of a type, or nil.
func (p *Pod) condition(kind string) *Condition {
	for i := range p.Conditions {
		if p.Conditions[i].Type == kind {
			return &p.Conditions[i]
		}
	}
	return nil
}

// Evicted is how the scheduler takes a pod from its node, "preempted" or "evicted" (to return
// quota), with the reason of the event that says so and why in the scheduler's words; all are "" if
// it does not.
func (p *Pod) Evicted() (how, reason, why string) {
	c := p.condition("DisruptionTarget")
	switch {
	case c == nil || c.Status != True:
	case c.Reason == "PreemptionByScheduler":
		return "preempted", "Preempted", c.Message
	case c.Reason == quota.ReasonReclaimed:
		return "evicted", c.Reason, c.Message
	}
	return "", "", ""
}

// evicted is Evicted in a few words; "" is that it is not.
func (p *Pod) evicted() string {
	how, _, why := p.Evicted()
	if how == "" {
		return ""
	}
	return how + " (" + why + ")"
}

// Container is how a container of a pod is.
type Container struct {
	Name, Image string
	Init        bool
	Waiting     string // the reason why it does not run; "" is that it runs or has ended
	Message     string // beside it
	Running     bool
	Ended       bool   // it has ended, and ExitCode says how
	ExitCode    int32  // of the last time that it ended; see Restarts
	OutOfMemory bool   // it ended so the last time
	Said        string // its message when it ended the last time
	Restarts    int32
}

// Refusal is an answer of the API server or a report of a component: an event's, or
// that of a request that was not granted.
type Refusal struct {
	Reason  string // such as FailedCreate or FailedMount; "" for a request
	Message string
}

// Condition is a condition of a workload or its pod, with the names that
// Kubernetes has for its parts.
type Condition struct {
	Type, Status, Reason, Message string
	Probed, Since                 time.Time // zero is absent
}

// The types of a pod's conditions that matter here, and their statuses.
const (
	ConditionReady        = "Ready"
	ConditionGPUQueued    = "GPUQueued"
	ConditionScheduled    = "PodScheduled"
	ConditionReadyToStart = "PodReadyToStartContainers"

	True  = "True"
	False = "False"
)
