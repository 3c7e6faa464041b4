package training_test

import (
	"testing"

	"berth.dev/berth/core/training"
)

func TestLeast(t *testing.T) {
	for _, tt := range []struct {
		name string
		job  training.Job
		want int
	}{
		{"all pods", tfJob(), 4},
		{"as many as the scheduling policy says", tfJob(func(j *training.Job) { j.MinAvailable = 2 }), 2},
		{"those that have not succeeded", tfJob(func(j *training.Job) {
			j.Status.Replicas = map[string]training.ReplicaStatus{"Worker": {Succeeded: 1, Active: 2}}
		}), 3},
		{"no more than there are", tfJob(func(j *training.Job) { j.MinAvailable = 9 }), 4},
		{"the fewest workers of an elastic job, and its Master", torchJob(elastic(1, 4)), 2},
		{"those of a TrainJob that have not succeeded", trainJob(func(j *training.Job) {
			j.Status.Replicas = map[string]training.ReplicaStatus{training.Node: {Succeeded: 1, Active: 2}}
		}), 2},
		{"an elastic job that has fewer workers than it may", torchJob(workersOnly, elastic(3, 4)), 2},
	} {
		if got := tt.job.Least(); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}
