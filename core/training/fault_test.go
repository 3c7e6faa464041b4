package training_test

import (
	"fmt"
	"strings"
	"testing"

	"berth.dev/berth/core/training"
)

// TestFaults holds what happens to a job of which the last pod has a GPU that has become unhealthy.
func TestFaults(t *testing.T) {
	zero := 0
	const lost = "lost GPU 3 (GPU-x) of node n1 to Xid 79 (GPU has fallen off the bus)"
	const out = "; no pod gets this GPU until it is healthy again"
	for _, tt := range []struct {
		name, pods string
		job        training.Job
		want       string // deleted
		says       string // the event
	}{
		{
			"its program still runs", "master-0 Running, worker-0 Running, worker-1 Running", torchJob(), "-master-0 -worker-0 -worker-1",
			"job bert is restarting as a whole because its pod bert-worker-1 " + lost + ", and the others cannot go on without it" + out,
		},
		{
			"its program has failed, which is not the program's failure", "chief-0 Running, worker-0 Running, worker-1 Running, worker-2 Failed 1", tfJob(func(j *training.Job) { j.BackoffLimit = &zero }), "-chief-0 -worker-0 -worker-1 -worker-2",
			"job mnist is restarting as a whole because its pod mnist-worker-2 " + lost + ", and the others cannot go on without it" + out,
		},
		{
			"another program has failed, as it lost its peer", "chief-0 Running, worker-0 Failed 1, worker-1 Running, worker-2 Running", tfJob(func(j *training.Job) { j.BackoffLimit = &zero }), "-chief-0 -worker-0 -worker-1 -worker-2",
			"job mnist is restarting as a whole because its pod mnist-worker-2 " + lost + ", and the others cannot go on without it" + out,
		},
		{
			"another pod was drained, and the fault is named", "master-0 Running, worker-0 Running!, worker-1 Running", torchJob(), "-master-0 -worker-1",
			"job bert is restarting as a whole because 2 of its pods are lost, and the others cannot go on without them: bert-worker-1 " + lost + out,
		},
		{
			"the others of an elastic job go on", "worker-0 Running, worker-1 Running", torchJob(workersOnly, elastic(1, 2)), "-worker-1",
			"job bert is restarting its pod bert-worker-1, which " + lost + out,
		},
		{"its program had done its work", "master-0 Running, worker-0 Running, worker-1 Succeeded 0", torchJob(), "", ""},
		{"the pod waits for its node", "master-0 Running, worker-0 Running, worker-1 Pending", torchJob(), "", ""},
		{"the job has ended with its Master", "master-0 Succeeded 0, worker-0 Running, worker-1 Running", torchJob(), "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			seen := training.Observed{Job: tt.job, Pods: pods(&tt.job, tt.pods), Now: start}
			seen.Pods[len(seen.Pods)-1].Fault = &training.Fault{GPU: 3, UUID: "GPU-x", Xid: 79}
			seen.Pods[len(seen.Pods)-1].Restarts = 2
			plan := training.Next(seen)
			if got := names(&plan); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
			said := ""
			for _, e := range plan.Events {
				if strings.HasSuffix(e.Reason, "Restarting") {
					said += e.Message
				}
			}
			if said != tt.says || plan.Status.Is(training.ConditionFailed) || len(plan.Restarts) > 0 {
				t.Errorf("it says %q after %v, want %q", said, plan.Restarts, tt.says)
			}
		})
	}
}

// TestTheSameExitCode follows a member whose program ends on one node after the other.
func TestTheSameExitCode(t *testing.T) {
	for _, tt := range []struct {
		name, ends string // exit code and node of each pod
		want       string
	}{
		{"three nodes, the same code", "139 n1, 139 n2, 139 n3", "bert-worker-1 has ended with exit code 139 on 3 nodes in a row (n1, n2, n3), so the likely cause is the program or its data, not a node or a GPU"},
		{"one event in all", "139 n1, 139 n2, 139 n3, 139 n4", "bert-worker-1 has ended with exit code 139 on 3 nodes in a row (n1, n2, n3), so the likely cause is the program or its data, not a node or a GPU"},
		{"a node twice counts once", "139 n1, 139 n2, 139 n1", ""},
		{"then it can still be said", "139 n1, 139 n1, 139 n2, 139 n3", "bert-worker-1 has ended with exit code 139 on 3 nodes in a row (n1, n2, n3), so the likely cause is the program or its data, not a node or a GPU"},
		{"another code begins the row again", "139 n1, 139 n2, 134 n3, 139 n4", ""},
		{"one node", "139 n1, 139 n1, 139 n1", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			j := torchJob(restart(training.RestartExitCode))
			said := ""
			for i, end := range strings.Split(tt.ends, ", ") {
				code, node := 0, ""
				if _, err := fmt.Sscan(end, &code, &node); err != nil {
					t.Fatal(err)
				}
				seen := training.Observed{Job: j, Pods: pods(&j, fmt.Sprintf("master-0 Running, worker-0 Running, worker-1 Failed %d", code)), Now: start}
				seen.Pods[2].Node, seen.Pods[2].UID = node, fmt.Sprint(i)
				for range 2 { // the second sees the same pod
					plan := training.Next(seen)
					for _, e := range plan.Events {
						if e.Reason == "SameExitCode" {
							said += e.Message
						}
					}
					j.Restarts, j.Status = plan.Restarts, plan.Status
					seen.Job = j
				}
			}
			if said != tt.want {
				t.Errorf("it says %q, want %q", said, tt.want)
			}
			if got := j.Program(); got != tt.want {
				t.Errorf("afterwards the job says %q, want %q", got, tt.want)
			}
		})
	}
}
