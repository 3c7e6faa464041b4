package training_test

import (
	"fmt"
	"strings"
	"testing"

	"berth.dev/berth/core/training"
)

func TestLayout(t *testing.T) {
	for _, tt := range []struct {
		name string
		kind training.Kind
		n    int
		want string
	}{
		{"a PyTorchJob of one pod is its Master", training.PyTorchJob, 1, "Master 1"},
		{"a PyTorchJob of four has three workers", training.PyTorchJob, 4, "Master 1, Worker 3"},
		{"a TFJob of one pod has a Worker alone", training.TFJob, 1, "Worker 1"},
		{"a TFJob of four has a Chief", training.TFJob, 4, "Chief 1, Worker 3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, r := range tt.kind.Layout(tt.n) {
				got = append(got, fmt.Sprintf("%s %d", r.Type, r.Count))
			}
			if text := strings.Join(got, ", "); text != tt.want {
				t.Errorf("%s, want %s", text, tt.want)
			}
		})
	}
}

// TestRanks holds Rank to its slow twin, the place in Ranks, for jobs of all shapes.
func TestRanks(t *testing.T) {
	for shape := range 3 * 3 * 3 * 3 {
		j := training.Job{Kind: training.TFJob, Name: "j"}
		rest := shape
		for _, r := range []string{training.Chief, training.Evaluator, training.PS, training.Worker} {
			if n := rest % 3; n > 0 {
				j.Replicas = append(j.Replicas, training.Replica{Type: r, Count: n})
			}
			rest /= 3
		}
		ranks := j.Ranks()
		if len(ranks) != j.Total() {
			t.Fatalf("%d ranks of %d pods", len(ranks), j.Total())
		}
		for i, m := range ranks {
			if got := j.Rank(m); got != i {
				t.Errorf("shape %d: the rank of %v is %d, want %d", shape, m, got, i)
			}
		}
		if len(ranks) > 0 && j.Replica(training.Chief) != nil && ranks[0].Type != training.Chief {
			t.Errorf("shape %d: rank 0 is %v, want the Chief", shape, ranks[0])
		}
	}
}

func TestScale(t *testing.T) {
	torchOf := func(master, workers int, edits ...func(*training.Job)) training.Job {
		j := training.Job{Kind: training.PyTorchJob, Name: "bert"}
		if master > 0 {
			j.Replicas = append(j.Replicas, training.Replica{Type: training.Master, Count: master})
		}
		if workers > 0 {
			j.Replicas = append(j.Replicas, training.Replica{Type: training.Worker, Count: workers})
		}
		for _, edit := range edits {
			edit(&j)
		}
		return j
	}
	suspended := func(j *training.Job) { j.Suspend = true }
	elastic := func(j *training.Job) { j.Elastic = &training.Elastic{Min: 2, Max: 4} }
	failed := func(j *training.Job) {
		j.Status.Conditions = []training.Condition{{Type: training.ConditionFailed, True: true}}
	}
	for _, tt := range []struct {
		name    string
		job     training.Job
		n       int
		workers int
		refusal string // contained in what is said
	}{
		{"a suspended job has the workers beside its Master", torchOf(1, 3, suspended), 8, 7, ""},
		{"a Master cannot be two", torchOf(1, 0, suspended), 2, 0, "has no Worker replicas, and a job has one Master"},
		{"a Worker has to stay", torchOf(1, 3, suspended), 1, 0, "use 2 or more"},
		{"pods that run know how many they are", torchOf(1, 3), 8, 0, "stop the job, scale it, and resume it"},
		{"the same number changes nothing, whatever runs", torchOf(1, 3), 4, 3, ""},
		{"an elastic job grows while it runs", torchOf(0, 2, elastic), 4, 4, ""},
		{"an elastic job stays within its bounds", torchOf(0, 2, elastic), 5, 0, "allows 2 to 4 workers, so 2 to 4 replicas"},
		{"its bounds are of its workers alone", torchOf(1, 2, elastic), 2, 0, "allows 2 to 4 workers, so 3 to 5 replicas"},
		{"a TFJob with dynamic workers grows while it runs", training.Job{Kind: training.TFJob, Dynamic: true, Replicas: []training.Replica{{Type: training.PS, Count: 2}, {Type: training.Worker, Count: 1}}}, 6, 4, ""},
		{"a job that has ended does not change", torchOf(1, 3, suspended, failed), 8, 0, "has ended"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			workers, refusal := tt.job.Scale(tt.n)
			if workers != tt.workers || !strings.Contains(refusal, tt.refusal) || (refusal == "") != (tt.refusal == "") {
				t.Errorf("%d workers, %q; want %d, %q", workers, refusal, tt.workers, tt.refusal)
			}
		})
	}
}
