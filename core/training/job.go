package training

import (
	"strings"
	"time"
)

// Kind is a kind of training job.
type Kind string

// The kinds of training jobs.
const (
	TFJob      Kind = "TFJob"
	PyTorchJob Kind = "PyTorchJob"
	TrainJob   Kind = "TrainJob"
)

// The types of replicas.
const (
	Chief     = "Chief"
	Master    = "Master"
	PS        = "PS"
	Worker    = "Worker"
	Evaluator = "Evaluator"
	Node      = "Node" // of a TrainJob, whose pods are all alike
)

// Types returns the types of replicas that jobs of the kind may have, in the order in which they are
// created and reported.
func (k Kind) Types() []string {
	switch k {
	case PyTorchJob:
		return []string{Master, Worker}
	case TrainJob:
		return []string{Node}
	default:
		return []string{Chief, Evaluator, Master, PS, Worker}
	}
}

// TypeOf returns the type of replicas that is written as name, in any case, or "" if
// there is none.
func (k Kind) TypeOf(name string) string {
	for _, t := range k.Types() {
		if strings.EqualFold(t, name) {
			return t
		}
	}
	return ""
}

// Container returns the name of the container that trains, which gets the port.
func (k Kind) Container() string {
	switch k {
	case PyTorchJob:
		return "pytorch"
	case TrainJob:
		return "node"
	default:
		return "tensorflow"
	}
}

// Port returns the name and the default number of the port on which replicas find each
// other. That of a TrainJob has no name.
func (k Kind) Port() (name string, number int) {
	switch k {
	case PyTorchJob:
		return "pytorchjob-port", 23456
	case TrainJob:
		return "", 29500
	default:
		return "tfjob-port", 2222
	}
}

// Operator returns what the label training.kubeflow.org/operator-name of a job's pods
// says.
func (k Kind) Operator() string { return strings.ToLower(string(k)) + "-controller" }

// Restart is what happens to a replica whose container has ended with an error.
type Restart string

// The restart policies of replicas. ExitCode restarts after exit codes from 128 on, and
// fails the job after others. RestartPod, of TrainJobs, creates the pod again where the others start the container
// again.
const (
	RestartAlways    Restart = "Always"
	RestartOnFailure Restart = "OnFailure"
	RestartNever     Restart = "Never"
	RestartExitCode  Restart = "ExitCode"
	RestartPod       Restart = "Pod"
)

// DefaultRestart returns the policy of replicas that name none.
func (k Kind) DefaultRestart() Restart {
	if k == TFJob {
		return RestartNever
	}
	return RestartOnFailure
}

// Clean is which pods of a job that has ended are deleted.
type Clean string

// The policies for pods of jobs that have ended. CleanRunning deletes pending ones, too.
const (
	CleanNone    Clean = "None"
	CleanRunning Clean = "Running"
	CleanAll     Clean = "All"
)

// The values of managedBy, beside "", of jobs that this controller runs: in spec.runPolicy of TFJobs and PyTorchJobs, and
// in spec of TrainJobs.
const (
	ManagedByOperator = "kubeflow.org/training-operator"
	ManagedByTrainer  = "trainer.kubeflow.org/trainjob-controller"
)

// Ours reports whether this controller runs the job, as the job says.
func (j *Job) Ours() bool {
	own := ManagedByOperator
	if j.Kind == TrainJob {
		own = ManagedByTrainer
	}
	return j.ManagedBy == "" || j.ManagedBy == own
}

// Job is a training job, completed with the API's defaults.
type Job struct {
	Kind            Kind
	Namespace, Name string
	Replicas        []Replica // each type at most once, in the order of Types
	Suspend         bool
	ManagedBy       string
	Clean           Clean
	TTL             *time.Duration // after its end; nil is never
	Deadline        *time.Duration // from its start; nil is none
	BackoffLimit    *int           // nil is none
	MinAvailable    int            // pods that must have a place before any gets one; 0 is all

	AllWorkers bool // of a TFJob: it succeeds when all workers have, not when the first has
	Dynamic    bool // of a TFJob: enableDynamicWorker

	Processes string   // of a PyTorchJob: nprocPerNode; "" where Elastic has it
	Elastic   *Elastic // of a PyTorchJob

	Restarts Restarts // of its pods that were created again after a failure
	Round    int      // of its pods: those of an earlier one are deleted together, and none is created until they are gone
	Status   Status
}

// Replica is the pods of one type.
type Replica struct {
	Type    string
	Count   int
	Port    int // on which the others reach it
	Restart Restart
}

// Elastic is the elastic policy of a PyTorchJob.
type Elastic struct {
	Min, Max    int    // workers
	Backend     string // "" is c10d
	Host        string // "" is the first worker
	Port        int    // 0 is the port of workers
	ID          string
	Conf        string // key=value,key=value
	Standalone  bool
	Processes   *int // deprecated: nProcPerNode
	MaxRestarts *int
	Metrics     bool // a HorizontalPodAutoscaler changes the number of workers, by metrics that the job has
}

// Replica returns the replicas of a type, nil if the job has none.
func (j *Job) Replica(of string) *Replica {
	for i := range j.Replicas {
		if j.Replicas[i].Type == of {
			return &j.Replicas[i]
		}
	}
	return nil
}

// Total returns how many pods the job has when all are there.
func (j *Job) Total() int {
	n := 0
	for _, r := range j.Replicas {
		n += r.Count
	}
	return n
}

// Least returns how many pods must have a place before any gets one: those that
// schedulingPolicy.minAvailable names, or of an elastic job those beside its workers and
// the fewest workers, or all. Pods that have succeeded no longer need a place. It is at
// least 1.
func (j *Job) Least() int {
	least := j.Total()
	if w := j.Replica(Worker); j.Elastic != nil && w != nil && j.Elastic.Min > 0 {
		least += min(j.Elastic.Min, w.Count) - w.Count
	}
	if j.MinAvailable > 0 {
		least = min(j.MinAvailable, j.Total())
	}
	for _, r := range j.Status.Replicas {
		least -= r.Succeeded
	}
	return max(least, 1)
}

// Leader returns the type of the one replica whose end ends the job, or "" if the workers decide.
func (j *Job) Leader() string {
	for _, t := range []string{Chief, Master} {
		if j.Replica(t) != nil {
			return t
		}
	}
	return ""
}

// Leads reports whether a member has the label training.kubeflow.org/job-role: master.
func (j *Job) Leads(m Member) bool {
	if j.Kind == TrainJob {
		return false // it has no such label
	}
	if l := j.Leader(); l != "" {
		return m.Type == Chief || m.Type == Master
	}
	return m.Type == Worker && m.Index == 0
}
