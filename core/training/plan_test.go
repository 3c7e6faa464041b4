package training_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/core/training"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// tfJob returns a TFJob with a Chief and three workers.
func tfJob(change ...func(*training.Job)) training.Job {
	j := training.Job{
		Kind: training.TFJob, Namespace: "ml", Name: "mnist", Clean: training.CleanNone,
		Replicas: []training.Replica{
			{Type: training.Chief, Count: 1, Port: 2222, Restart: training.RestartNever},
			{Type: training.Worker, Count: 3, Port: 2222, Restart: training.RestartNever},
		},
	}
	for _, c := range change {
		c(&j)
	}
	return j
}

// torchJob returns a PyTorchJob with a Master and two workers.
func torchJob(change ...func(*training.Job)) training.Job {
	j := training.Job{
		Kind: training.PyTorchJob, Namespace: "ml", Name: "bert", Clean: training.CleanNone, Processes: "auto",
		Replicas: []training.Replica{
			{Type: training.Master, Count: 1, Port: 23456, Restart: training.RestartOnFailure},
			{Type: training.Worker, Count: 2, Port: 23456, Restart: training.RestartOnFailure},
		},
	}
	for _, c := range change {
		c(&j)
	}
	return j
}

// restart sets the restart policy of all replicas.
func restart(policy training.Restart) func(*training.Job) {
	return func(j *training.Job) {
		for i := range j.Replicas {
			j.Replicas[i].Restart = policy
		}
	}
}

// workersOnly leaves the workers alone.
func workersOnly(j *training.Job) {
	j.Replicas = slices.DeleteFunc(j.Replicas, func(r training.Replica) bool { return r.Type != training.Worker })
}

// pods returns the pods of a job in phases, written as "chief-0 Running, worker-1 Failed 137". A phase with
// an exclamation mark is of a pod that is being deleted, and one with a question mark of one that was evicted.
func pods(j *training.Job, text string) (out []training.Pod) {
	for one := range strings.SplitSeq(text, ", ") {
		var who, phase string
		code := -1
		if n, _ := fmt.Sscanf(one, "%s %s %d", &who, &phase, &code); n < 2 {
			continue
		}
		of, index, _ := strings.Cut(who, "-")
		p := training.Pod{Member: training.Member{Type: j.Kind.TypeOf(of)}, Name: j.Name + "-" + who, UID: "u-" + who, Created: start}
		_, _ = fmt.Sscan(index, &p.Index) // without one it is 0
		p.Deleting, p.Disrupted = strings.HasSuffix(phase, "!"), strings.HasSuffix(phase, "?")
		p.Phase = training.Phase(strings.TrimRight(phase, "!?"))
		if code >= 0 {
			p.Exit = &code
		}
		if p.Phase != training.Pending {
			p.Node = "n1"
		}
		if p.Disrupted {
			p.Why = "EvictionByEvictionAPI"
		}
		out = append(out, p)
	}
	return out
}

// conditions writes a status as "Created, Running, Suspended=False".
func conditions(s *training.Status) string {
	var out []string
	for _, c := range s.Conditions {
		text := c.Type
		if !c.True {
			text += "=False"
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// message returns the message of the last condition.
func message(s *training.Status) string { return s.Conditions[len(s.Conditions)-1].Message }

// TestOutcome has the cases of training-operator's own tables for the status of TFJobs and PyTorchJobs
// (tensorflow/status_test.go, pytorch/pytorchjob_controller_test.go, core/job_test.go), by their facts.
// rows: ML-34 ML-35
func TestOutcome(t *testing.T) {
	for _, tt := range []struct {
		name string
		job  training.Job
		pods string
		want string // conditions
		says string // message of the last one
	}{
		{"pods that are pending leave the job created", tfJob(), "chief-0 Pending, worker-0 Pending", "Created", "TFJob mnist is created."},
		{"the Chief runs", tfJob(), "chief-0 Running, worker-0 Pending", "Created, Running", "TFJob ml/mnist is running."},
		{"workers alone do not make a job with a Chief run", tfJob(), "chief-0 Pending, worker-0 Running", "Created", "TFJob mnist is created."},
		{"the Chief has succeeded while workers run", tfJob(), "chief-0 Succeeded 0, worker-0 Running", "Created, Succeeded", "TFJob ml/mnist successfully completed."},
		{"all workers have succeeded while the Chief runs", tfJob(), "chief-0 Running, worker-0 Succeeded 0, worker-1 Succeeded 0, worker-2 Succeeded 0", "Created, Running", ""},
		{"the Chief has failed", tfJob(), "chief-0 Failed 1", "Created, Failed", "TFJob ml/mnist has failed because 1 Chief replica(s) failed."},
		{"two workers have failed", tfJob(), "chief-0 Running, worker-0 Failed 1, worker-1 Failed 2", "Created, Running=False, Failed", "TFJob ml/mnist has failed because 2 Worker replica(s) failed."},
		{"a worker without a Chief has succeeded, and it is the first", tfJob(workersOnly), "worker-0 Succeeded 0, worker-1 Running", "Created, Succeeded", ""},
		{"a worker without a Chief has succeeded, and it is not the first", tfJob(workersOnly), "worker-0 Running, worker-1 Succeeded 0", "Created, Running", ""},
		{"the first worker has succeeded, but all workers must", tfJob(workersOnly, func(j *training.Job) { j.AllWorkers = true }), "worker-0 Succeeded 0, worker-1 Running", "Created, Running", ""},
		{"all workers have succeeded, as they must", tfJob(workersOnly, func(j *training.Job) { j.AllWorkers = true }), "worker-0 Succeeded 0, worker-1 Succeeded 0, worker-2 Succeeded 0", "Created, Succeeded", ""},
		{"a worker of a job with dynamic workers has failed", tfJob(func(j *training.Job) { j.Dynamic = true }), "chief-0 Running, worker-1 Failed 1", "Created, Running", ""},
		{"a worker that restarts on failure has failed", tfJob(restart(training.RestartOnFailure)), "chief-0 Running, worker-0 Failed 1", "Created, Restarting", "job mnist is restarting because Worker replica(s) failed."},
		{"exit code 1 is permanent", tfJob(restart(training.RestartExitCode)), "chief-0 Running, worker-0 Failed 1", "Created, Running=False, Failed", `job "mnist" is failing because "Worker" replica(s) failed.`},
		{"exit code 127 is permanent", tfJob(restart(training.RestartExitCode)), "chief-0 Running, worker-0 Failed 127", "Created, Running=False, Failed", ""},
		{"exit code 130 is retried", tfJob(restart(training.RestartExitCode)), "chief-0 Running, worker-0 Failed 130", "Created, Restarting", ""},
		{"a worker is evicted", tfJob(), "chief-0 Running, worker-0 Failed?", "Created, Restarting", "job mnist is restarting as a whole because its pod mnist-worker-0 was evicted from node n1, as by kubectl drain, and the others cannot go on without it"},
		{"a worker is being deleted", tfJob(), "chief-0 Running, worker-0 Running!", "Created, Restarting", ""},

		{"the Master runs", torchJob(), "master-0 Running, worker-0 Running", "Created, Running", "PyTorchJob bert is running."},
		{"the Master has succeeded", torchJob(), "master-0 Succeeded 0, worker-0 Running", "Created, Succeeded", "PyTorchJob bert is successfully completed."},
		{"the Master restarts on failure", torchJob(), "master-0 Failed 1, worker-0 Running", "Created, Restarting", "job bert is restarting because Master replica(s) failed."},
		{"the Master is never restarted", torchJob(restart(training.RestartNever)), "master-0 Failed 1, worker-0 Running", "Created, Failed", "PyTorchJob bert is failed because 1 Master replica(s) failed."},
		{"workers without a Master run", torchJob(workersOnly), "worker-0 Running", "Created, Running", "PyTorchJob ml/bert is running."},
		{"one of two workers without a Master has succeeded", torchJob(workersOnly), "worker-0 Succeeded 0, worker-1 Running", "Created, Running", ""},
		{"both workers without a Master have succeeded", torchJob(workersOnly), "worker-0 Succeeded 0, worker-1 Succeeded 0", "Created, Succeeded", "PyTorchJob ml/bert successfully completed."},
		{"any worker of an elastic job has succeeded", torchJob(workersOnly, elastic(1, 2)), "worker-0 Running, worker-1 Succeeded 0", "Created, Succeeded", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			plan := training.Next(training.Observed{Job: tt.job, Pods: pods(&tt.job, tt.pods), Now: start})
			if got := conditions(&plan.Status); got != tt.want {
				t.Errorf("conditions %q, want %q", got, tt.want)
			}
			if got := message(&plan.Status); tt.says != "" && got != tt.says {
				t.Errorf("message %q, want %q", got, tt.says)
			}
			if plan.Status.Ended() && (plan.Status.End.IsZero() || len(plan.CreatePods)+len(plan.DeletePods) > 0) {
				t.Errorf("at its end: completed at %v, creates %v, deletes %v", plan.Status.End, plan.CreatePods, plan.DeletePods)
			}
		})
	}
}

func elastic(least, most int) func(*training.Job) {
	return func(j *training.Job) { j.Elastic = &training.Elastic{Min: least, Max: most} }
}

// names writes what a plan deletes and creates, as "-worker-0 +chief-0".
func names(p *training.Plan) string {
	var out []string
	for _, pod := range p.DeletePods {
		_, short, _ := strings.Cut(pod.Name, "-")
		out = append(out, "-"+short)
	}
	for _, m := range p.CreatePods {
		out = append(out, "+"+strings.TrimPrefix(m.Name(""), "-"))
	}
	return strings.Join(out, " ")
}

func TestPods(t *testing.T) {
	seconds := func(n int) *time.Duration { d := time.Duration(n) * time.Second; return &d }
	limit := func(n int) func(*training.Job) { return func(j *training.Job) { j.BackoffLimit = &n } }
	ended := func(condition string, clean training.Clean) func(*training.Job) {
		return func(j *training.Job) {
			j.Clean = clean
			j.Status = training.Status{End: start, Conditions: []training.Condition{{Type: condition, True: true}}, Replicas: map[string]training.ReplicaStatus{}}
		}
	}
	const all = "+chief-0 +worker-0 +worker-1 +worker-2"
	for _, tt := range []struct {
		name string
		job  training.Job
		pods string
		want string
	}{
		{"a new job gets all its pods", tfJob(), "", all},
		{"a pod that is being deleted keeps its name", tfJob(), "chief-0 Running, worker-0 Pending!", "+worker-1 +worker-2"},
		{"a pod beyond the count goes", tfJob(), "chief-0 Running, worker-0 Running, worker-1 Running, worker-2 Running, worker-3 Running", "-worker-3"},
		{"a pod that failed and restarts goes first", tfJob(restart(training.RestartAlways)), "chief-0 Running, worker-0 Running, worker-1 Failed 1, worker-2 Running", "-worker-1"},
		{"all pods go with one that is evicted, under policy Never too", tfJob(), "chief-0 Running, worker-0 Running, worker-1 Failed?, worker-2 Running", "-chief-0 -worker-0 -worker-1 -worker-2"},
		{"a pod that has succeeded stays", tfJob(), "chief-0 Running, worker-0 Succeeded 0, worker-1 Running, worker-2 Running", ""},
		{"a suspended job has none", tfJob(func(j *training.Job) { j.Suspend = true }), "chief-0 Running, worker-0 Pending", "-chief-0 -worker-0"},
		{"another controller's job is left alone", tfJob(func(j *training.Job) { j.ManagedBy = "kueue.x-k8s.io/multikueue" }), "", ""},
		{"policy None leaves pods that run", tfJob(ended("Succeeded", training.CleanNone)), "chief-0 Succeeded 0, worker-0 Running", ""},
		{"policy Running deletes those that run or wait", tfJob(ended("Succeeded", training.CleanRunning)), "chief-0 Succeeded 0, worker-0 Running, worker-1 Pending", "-worker-0 -worker-1"},
		{"policy All deletes all", tfJob(ended("Failed", training.CleanAll)), "chief-0 Failed 1, worker-0 Running", "-chief-0 -worker-0"},
		{"a first failure is within a limit of two", tfJob(restart(training.RestartOnFailure), limit(2)), "chief-0 Running, worker-0 Failed 1, worker-1 Running, worker-2 Running", "-worker-0"},
		{"a first failure reaches a limit of 0, and the next pass cleans up", tfJob(restart(training.RestartOnFailure), limit(0)), "chief-0 Running, worker-0 Failed 1", ""},
		{"a deadline that has passed ends the job", tfJob(func(j *training.Job) { j.Deadline, j.Status.Start = seconds(60), start.Add(-time.Minute) }), "chief-0 Running", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			plan := training.Next(training.Observed{Job: tt.job, Pods: pods(&tt.job, tt.pods), Now: start})
			if got := names(&plan); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// TestLimits follows jobs that reach a limit until their pods are gone: policy None does not keep them.
func TestLimits(t *testing.T) {
	deadline, zero, two := time.Minute, 0, 2
	for _, tt := range []struct {
		name string
		job  training.Job
		pods string
		want string
	}{
		{"the deadline", tfJob(func(j *training.Job) { j.Deadline, j.Status.Start = &deadline, start.Add(-time.Minute) }), "chief-0 Running, worker-0 Pending", "Job mnist has failed because it was active longer than specified deadline"},
		{"a backoff limit of 0", tfJob(restart(training.RestartOnFailure), func(j *training.Job) { j.BackoffLimit = &zero }), "chief-0 Running, worker-0 Failed 1", "Job mnist has failed because it has reached the specified backoff limit"},
		{"a backoff limit of 2, at the second failure", tfJob(restart(training.RestartOnFailure), func(j *training.Job) {
			j.BackoffLimit, j.Restarts = &two, training.Restarts{"worker-1": {Times: 1, UID: "gone"}}
		}), "chief-0 Running, worker-0 Failed 1", "Job mnist has failed because it has reached the specified backoff limit"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			seen := training.Observed{Job: tt.job, Pods: pods(&tt.job, tt.pods), Now: start}
			plan := training.Next(seen)
			if got := message(&plan.Status); got != tt.want || !plan.Status.Is(training.ConditionFailed) {
				t.Fatalf("it says %q, want %q", got, tt.want)
			}
			seen.Job.Status = plan.Status
			plan = training.Next(seen)
			if len(plan.DeletePods) != len(seen.Pods) {
				t.Errorf("%q is deleted, want all pods", names(&plan))
			}
		})
	}
	j := tfJob(func(j *training.Job) { j.Deadline = &deadline })
	if plan := training.Next(training.Observed{Job: j, Now: start}); !plan.Again.Equal(start.Add(deadline)) {
		t.Errorf("planned again at %v, want the deadline", plan.Again)
	}
}

func TestSuspendAndResume(t *testing.T) {
	j := tfJob()
	seen := training.Observed{Job: j, Pods: pods(&j, "chief-0 Running, worker-0 Running"), Now: start}
	step := func(after time.Duration) training.Plan {
		seen.Now = start.Add(after)
		plan := training.Next(seen)
		seen.Job.Status, seen.Job.Restarts = plan.Status, plan.Restarts
		return plan
	}
	step(0)
	seen.Job.Suspend = true
	plan := step(time.Minute)
	if got := conditions(&plan.Status); got != "Created, Running=False, Suspended" || plan.Status.Conditions[1].Reason != "TFJobSuspended" {
		t.Errorf("suspended: %s", got)
	}
	if len(plan.Events) != 1 || plan.Events[0].Message != "TFJob mnist is suspended." {
		t.Errorf("suspended: events %v", plan.Events)
	}
	seen.Pods = nil
	if again := step(2 * time.Minute); len(again.Events) != 0 || cmp.Diff(again.Status, plan.Status) != "" {
		t.Errorf("a second pass changes %s and tells %v", cmp.Diff(plan.Status, again.Status), again.Events)
	}
	seen.Job.Suspend = false
	plan = step(time.Hour)
	if got := conditions(&plan.Status); got != "Created, Running=False, Suspended=False" || plan.Status.Conditions[2].Reason != "TFJobResumed" {
		t.Errorf("resumed: %s", got)
	}
	if !plan.Status.Start.Equal(start.Add(time.Hour)) || len(plan.CreatePods) != 4 {
		t.Errorf("resumed: started %v, creates %v", plan.Status.Start, plan.CreatePods)
	}
}

func TestAJobThatIsSuspendedUntilItsTurnIsQueued(t *testing.T) {
	j := tfJob(func(j *training.Job) {
		j.Suspend, j.Restarts = true, training.Restarts{"worker-0": {Times: 2, UID: "u"}}
	})
	plan := training.Next(training.Observed{Job: j, InTurn: true, Now: start})
	if got := conditions(&plan.Status); got != "GPUQueued, Created, Suspended" || plan.Status.Conditions[0].Reason != "SuspendedUntilTurn" {
		t.Errorf("the job is %s, reason %s", got, plan.Status.Conditions[0].Reason)
	}
	if want := "suspended until its turn; berth why tfjob/mnist -n ml shows its place in line"; plan.Status.Conditions[0].Message != want {
		t.Errorf("the condition says %q, want %q", plan.Status.Conditions[0].Message, want)
	}
	if plan.Restarts["worker-0"].Times != 2 {
		t.Errorf("restarts that count towards its limit are forgotten: %v", plan.Restarts)
	}
	j.Status = plan.Status
	if plan = training.Next(training.Observed{Job: j, Now: start}); conditions(&plan.Status) != "GPUQueued=False, Created, Suspended" || plan.Restarts != nil {
		t.Errorf("parked by a person it is %s, restarts %v", conditions(&plan.Status), plan.Restarts)
	}
}

func TestTimeToLive(t *testing.T) {
	ttl := time.Hour
	j := tfJob(func(j *training.Job) {
		j.TTL = &ttl
		j.Status = training.Status{End: start, Conditions: []training.Condition{{Type: "Succeeded", True: true}}, Replicas: map[string]training.ReplicaStatus{"Worker": {Active: 2, Succeeded: 1}}}
	})
	plan := training.Next(training.Observed{Job: j, Now: start.Add(time.Minute)})
	if plan.DeleteJob || !plan.Again.Equal(start.Add(ttl)) || plan.Status.Replicas["Worker"] != (training.ReplicaStatus{Succeeded: 3}) {
		t.Errorf("a minute after its end: %+v", plan)
	}
	if plan = training.Next(training.Observed{Job: j, Now: start.Add(ttl)}); !plan.DeleteJob {
		t.Errorf("at the end of its time to live it is not deleted")
	}
}

// TestPodsThatAreKept holds the event about pods that hold GPUs after the end of their job.
// rows: ML-39
func TestPodsThatAreKept(t *testing.T) {
	for _, tt := range []struct {
		name, pods string
		job        training.Job
		want       string
	}{
		{"policy None", "chief-0 Succeeded 0, worker-0 Running, worker-1 Pending", tfJob(), "TFJob mnist has ended, and 2 of its pods keep what they hold, as spec.runPolicy.cleanPodPolicy is None: set it to Running to delete them"},
		{"policy None, with pods that have ended", "chief-0 Succeeded 0, worker-0 Succeeded 0", tfJob(), ""},
		{"policy Running", "chief-0 Succeeded 0, worker-0 Running", tfJob(func(j *training.Job) { j.Clean = training.CleanRunning }), ""},
		{"a job that still runs", "chief-0 Running, worker-0 Running", tfJob(), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			for _, e := range training.Next(training.Observed{Job: tt.job, Pods: pods(&tt.job, tt.pods), Now: start}).Events {
				if e.Reason == "PodsKept" {
					got = e.Message
				}
			}
			if got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
