package training_test

import (
	"testing"

	"berth.dev/berth/core/training"
)

func TestAdopts(t *testing.T) {
	chief := training.Pod{Member: training.Member{Type: training.Chief}, Name: "mnist-chief-0", Phase: training.Running}
	for _, tt := range []struct {
		name   string
		change func(*training.Job)
		pod    func(*training.Pod)
		want   bool
	}{
		{"a pod of the job's name and labels that runs", nil, nil, true},
		{"one that waits for a node", nil, func(p *training.Pod) { p.Phase = training.Pending }, true},
		{"also if the job is suspended, as its pods go then", func(j *training.Job) { j.Suspend = true }, nil, true},
		{"not one that has ended: the job would have ended with it", nil, func(p *training.Pod) { p.Phase = training.Succeeded }, false},
		{"not one beyond the count of its type", nil, func(p *training.Pod) { p.Index, p.Name = 1, "mnist-chief-1" }, false},
		{"not one of another name with the job's labels", nil, func(p *training.Pod) { p.Name = "debug" }, false},
		{"not for a job that has ended", func(j *training.Job) {
			j.Status.Conditions = []training.Condition{{Type: training.ConditionSucceeded, True: true}}
		}, nil, false},
		{"not for a job of another controller", func(j *training.Job) { j.ManagedBy = "kueue.x-k8s.io/multikueue" }, nil, false},
	} {
		job, pod := tfJob(), chief
		if tt.change != nil {
			tt.change(&job)
		}
		if tt.pod != nil {
			tt.pod(&pod)
		}
		if got := job.AdoptsPod(&pod); got != tt.want {
			t.Errorf("%s: AdoptsPod is %v", tt.name, got)
		}
	}
}

func TestAutoscale(t *testing.T) {
	elastic := func(metrics bool) func(*training.Job) {
		return func(j *training.Job) { j.Elastic = &training.Elastic{Min: 1, Max: 4, Metrics: metrics} }
	}
	for _, tt := range []struct {
		name   string
		job    training.Job
		change func(*training.Job)
		want   bool
	}{
		{"an elastic job with metrics", torchJob(elastic(true)), nil, true},
		{"an elastic job without", torchJob(elastic(false)), nil, false},
		{"a job that is not elastic", torchJob(), nil, false},
		{"a suspended job has no workers to scale", torchJob(elastic(true)), func(j *training.Job) { j.Suspend = true }, false},
		{"nor has one that has ended", torchJob(elastic(true)), func(j *training.Job) {
			j.Status.Conditions = []training.Condition{{Type: training.ConditionFailed, True: true}}
		}, false},
	} {
		if tt.change != nil {
			tt.change(&tt.job)
		}
		if got := training.Next(training.Observed{Job: tt.job, Now: start}).Autoscale; got != tt.want {
			t.Errorf("%s: Autoscale is %v", tt.name, got)
		}
	}
}

// TestEndedJobsDoNotWait holds that what has ended has upstream's conditions alone: clients count them.
func TestEndedJobsDoNotWait(t *testing.T) {
	job := tfJob()
	wait := training.Next(training.Observed{Job: job, Queued: training.Queued{Waits: true, Reason: "Unschedulable", Message: "3 of 4 fit"}, Now: start})
	job.Status = wait.Status
	if !job.Status.Is(training.ConditionQueued) {
		t.Fatalf("a job that waits has %+v", job.Status.Conditions)
	}
	ends := training.Next(training.Observed{Job: job, Pods: pods(&job, "chief-0 Succeeded 0"), Now: start})
	for _, c := range ends.Status.Conditions {
		if c.Type == training.ConditionQueued {
			t.Errorf("a job that has ended has %+v", c)
		}
	}
	if !ends.Status.Ended() {
		t.Errorf("the Chief has succeeded: %+v", ends.Status.Conditions)
	}
}
