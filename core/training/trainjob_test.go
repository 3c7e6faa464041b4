package training_test

import (
	"testing"
	"time"

	"berth.dev/berth/core/training"
)

// trainJob returns a TrainJob of three pods.
func trainJob(change ...func(*training.Job)) training.Job {
	limit := 6
	j := training.Job{
		Kind: training.TrainJob, Namespace: "ml", Name: "bert", Clean: training.CleanRunning, BackoffLimit: &limit, Status: training.Status{Start: start},
		Replicas: []training.Replica{{Type: training.Node, Count: 3, Port: 29500, Restart: training.RestartOnFailure}},
	}
	for _, c := range change {
		c(&j)
	}
	return j
}

// TestTrainJob has the facts of trainer 2.2 (its setTrainJobStatus and reconcileDeadline, and the policies of jobset 0.11 and of indexed
// Jobs), as far as they are for one Job.
func TestTrainJob(t *testing.T) {
	deadline := time.Minute
	failed := "jobset failed due to one or more job failures (first failed job: bert-node-0)"
	counted := func(n int) func(*training.Job) {
		return func(j *training.Job) { j.Restarts = training.Restarts{"node-0-2": {Times: n, UID: "gone"}} }
	}
	for _, tt := range []struct {
		name         string
		job          training.Job
		pods         string
		want         string // conditions
		reason, says string // of the last one
		does         string // to the pods
	}{
		{"a new job", trainJob(), "", "Created", "", "", "+node-0-0 +node-0-1 +node-0-2"},
		{"its pods run", trainJob(), "node-0 Running, node-1 Running, node-2 Running", "Created, Running", "", "", ""},
		{"one has succeeded", trainJob(), "node-0 Succeeded 0, node-1 Running, node-2 Running", "Created, Running", "", "", ""},
		{"all have succeeded", trainJob(), "node-0 Succeeded 0, node-1 Succeeded 0, node-2 Succeeded 0", "Created, Succeeded", "AllJobsCompleted", "jobset completed successfully", ""},
		{"a pod has failed, and is created again", trainJob(), "node-0 Running, node-1 Failed 1, node-2 Running", "Created, Restarting", "", "", "-node-1"},
		{"a pod has failed under restart policy Never", trainJob(restart(training.RestartPod)), "node-0 Running, node-1 Failed 1, node-2 Running", "Created, Restarting", "", "", "-node-1"},
		{"a pod was evicted, without which the others cannot go on", trainJob(counted(5)), "node-0 Running, node-1 Failed?, node-2 Running", "Created, Restarting", "", "", "-node-0 -node-1 -node-2"},
		{"the backoff limit is reached", trainJob(counted(5)), "node-0 Running, node-1 Failed 1, node-2 Running", "Created, Failed", "FailedJobs", failed, ""},
		{"the deadline has passed", trainJob(func(j *training.Job) { j.Deadline, j.Status.Start = &deadline, start.Add(-deadline) }), "node-0 Running", "Created, Failed", "DeadlineExceeded", "TrainJob exceeded its active deadline", ""},
		{"the job is suspended", trainJob(func(j *training.Job) { j.Suspend = true }), "node-0 Running, node-1 Succeeded 0", "Created, Suspended", "Suspended", "TrainJob is suspended", "-node-0 -node-1"},
		{"the job is resumed", trainJob(func(j *training.Job) {
			j.Status.Conditions = []training.Condition{{Type: training.ConditionSuspended, True: true}}
		}), "", "Created, Suspended=False", "Resumed", "TrainJob is resumed", "+node-0-0 +node-0-1 +node-0-2"},
		{"another controller runs it", trainJob(func(j *training.Job) { j.ManagedBy = "kueue.x-k8s.io/multikueue" }), "", "", "", "", ""},
		{"the job names this one", trainJob(func(j *training.Job) { j.ManagedBy = "trainer.kubeflow.org/trainjob-controller" }), "node-0 Running, node-1 Running, node-2 Running", "Created, Running", "", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			plan := training.Next(training.Observed{Job: tt.job, Pods: pods(&tt.job, tt.pods), Services: []training.Service{{Member: training.Whole}}, Now: start})
			if got := conditions(&plan.Status); got != tt.want {
				t.Errorf("conditions %q, want %q", got, tt.want)
			}
			if n := len(plan.Status.Conditions); tt.says != "" && (plan.Status.Conditions[n-1].Message != tt.says || plan.Status.Conditions[n-1].Reason != tt.reason) {
				t.Errorf("it says %+v, want %s: %s", plan.Status.Conditions[n-1], tt.reason, tt.says)
			}
			if got := names(&plan); got != tt.does {
				t.Errorf("pods %q, want %q", got, tt.does)
			}
		})
	}
}

// TestTheEndOfATrainJob holds what is left of the pods and the Service, as a Job and its JobSet leave them.
func TestTheEndOfATrainJob(t *testing.T) {
	ttl := time.Hour
	ended := func(condition, message string) func(*training.Job) {
		return func(j *training.Job) {
			j.TTL = &ttl
			j.Status.End, j.Status.Conditions = start, []training.Condition{{Type: condition, True: true, Message: message}}
		}
	}
	for _, tt := range []struct {
		name    string
		job     training.Job
		pods    string
		after   time.Duration
		want    string
		service bool // stays
	}{
		{"pods that have succeeded stay, with their logs", trainJob(ended("Succeeded", "")), "node-0 Succeeded 0, node-1 Succeeded 0", 0, "", true},
		{"until the runtime's time to live is over", trainJob(ended("Succeeded", "")), "node-0 Succeeded 0, node-1 Succeeded 0", ttl, "-node-0 -node-1", false},
		{"those that run go when the job has failed", trainJob(ended("Failed", "jobset failed due to one or more job failures (first failed job: bert-node-0)")), "node-0 Failed 1, node-1 Running", 0, "-node-1", true},
		{"all go at the deadline", trainJob(ended("Failed", "TrainJob exceeded its active deadline")), "node-0 Failed 1, node-1 Running", 0, "-node-0 -node-1", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			plan := training.Next(training.Observed{Job: tt.job, Pods: pods(&tt.job, tt.pods), Services: []training.Service{{Member: training.Whole}}, Now: start.Add(tt.after)})
			if got := names(&plan); got != tt.want || plan.DeleteJob || (len(plan.DeleteServices) == 0) != tt.service {
				t.Errorf("pods %q, Services %v, want %q; deletes the job: %v", got, plan.DeleteServices, tt.want, plan.DeleteJob)
			}
			if tt.after < ttl && !plan.Again.Equal(start.Add(ttl)) {
				t.Errorf("planned again at %v, want the end of the time to live", plan.Again)
			}
		})
	}
}

func TestATrainJobHasOneService(t *testing.T) {
	j := trainJob()
	plan := training.Next(training.Observed{Job: j, Now: start})
	if len(plan.CreateServices) != 1 || plan.CreateServices[0].Name(j.Name) != "bert" {
		t.Errorf("Services %v, want one with the name of the job", plan.CreateServices)
	}
	if got := (training.Member{Type: training.Node, Index: 7}).Name("bert"); got != "bert-node-0-7" {
		t.Errorf("the host name of a pod is %s", got)
	}
}
