package training_test

import (
	"fmt"
	"strings"
	"testing"

	"berth.dev/berth/core/training"
)

func TestState(t *testing.T) {
	for _, tt := range []struct {
		name       string
		suspend    bool
		conditions string // those that are True
		want, why  string
	}{
		{"a job whose pods are to be placed", false, "Created", "Created", ""},
		{"a job that waits for GPUs", false, "GPUQueued Created", "Queued", "says GPUQueued"},
		{"a job that runs, of which one pod waits", false, "GPUQueued Created Running", "Running", "says GPUQueued"},
		{"a job that restarts", false, "Created Restarting", "Restarting", "says Restarting"},
		{"a job that restarts and waits for GPUs", false, "GPUQueued Created Restarting", "Restarting", "says GPUQueued"},
		{"a job that is to be suspended", true, "GPUQueued Created Running", "Suspending", ""},
		{"a job that is suspended", true, "Created Suspended", "Suspended", ""},
		{"a job that is suspended until its turn", true, "GPUQueued Created Suspended", "Queued", "says GPUQueued"},
		{"a job that has failed waits for nothing", false, "GPUQueued Created Failed", "Failed", "says Failed"},
		{"a job that has succeeded", false, "Created Succeeded", "Succeeded", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			j := training.Job{Suspend: tt.suspend}
			for c := range strings.FieldsSeq(tt.conditions) {
				j.Status.Conditions = append(j.Status.Conditions, training.Condition{Type: c, True: true, Message: "says " + c})
			}
			if got, why := j.State(), j.Why(); got != tt.want || why != tt.why {
				t.Errorf("%s, %q; want %s, %q", got, why, tt.want, tt.why)
			}
		})
	}
}

func TestSlowest(t *testing.T) {
	for _, tt := range []struct {
		name string
		busy map[int]float64
		want string
	}{
		{"one rank is not compared", map[int]float64{0: 0.5}, "false"},
		{"the least busy rank is the slowest", map[int]float64{0: 0.9, 1: 0.3, 2: 0.9}, "1 0.70 true"},
		{"of equal ranks it is the first", map[int]float64{3: 0.5, 1: 0.5, 2: 0.8}, "1 0.60 true"},
		{"ranks that are about equally busy are equally fast", map[int]float64{0: 0.91, 1: 0.89, 2: 0.9}, "false"},
		{"nothing is known", nil, "false"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rank, mean, ok := training.Slowest(tt.busy)
			got := fmt.Sprint(ok)
			if ok {
				got = fmt.Sprintf("%d %.2f %t", rank, mean, ok)
			}
			if got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

func TestBrief(t *testing.T) {
	for _, tt := range []struct{ name, message, want string }{
		{"the frame of kube-scheduler goes", "0/3 nodes are available: gang m: 3 of 4 pods fit together, for the next: 3 Insufficient nvidia.com/gpu. preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod.", "gang m: 3 of 4 pods fit together, for the next: 3 Insufficient nvidia.com/gpu"},
		{"other messages stay", "waiting for gang m to be placed", "waiting for gang m to be placed"},
		{"a sentence about nodes stays", "no nodes are available: none", "no nodes are available: none"},
		{"nothing", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := training.Brief(tt.message); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
