package training_test

import (
	"strings"
	"testing"
	"time"

	"berth.dev/berth/core/checkpoint"
	"berth.dev/berth/core/training"
)

// TestMoves holds which pods go when others are lost, and why the job says it restarts.
func TestMoves(t *testing.T) {
	zero := 0
	dynamic := func(j *training.Job) { j.Dynamic = true }
	servers := func(j *training.Job) {
		j.Replicas = append(j.Replicas, training.Replica{Type: training.PS, Count: 1}, training.Replica{Type: training.Evaluator, Count: 1})
	}
	for _, tt := range []struct {
		name, pods string
		job        training.Job
		want       string // deleted and created
		says       string // part of the message of Restarting
	}{
		{"a worker is drained", "master-0 Running, worker-0 Running, worker-1 Running!", torchJob(), "-master-0 -worker-0", "worker-1 was deleted on node n1, and the others cannot go on without it"},
		{"two workers are evicted", "master-0 Running, worker-0 Failed?, worker-1 Failed?", torchJob(), "-master-0 -worker-0 -worker-1", "because 2 of its pods are lost, and the others cannot go on without them: bert-worker-0 was evicted from node n1, as by kubectl drain"},
		{"a peer fails when a worker is evicted, under policy Never and backoff limit 0", "chief-0 Running, worker-0 Failed 1, worker-1 Failed?, worker-2 Running", tfJob(func(j *training.Job) { j.BackoffLimit = &zero }), "-chief-0 -worker-0 -worker-1 -worker-2", "worker-1"},
		{"a pod that has no node yet is deleted", "master-0 Pending, worker-0 Pending, worker-1 Pending!", torchJob(), "", ""},
		{"the only pod is evicted", "worker-0 Failed?", torchJob(workersOnly, func(j *training.Job) { j.Replicas[0].Count = 1 }), "-worker-0", "restarting because its pod bert-worker-0 was evicted"},
		{"enough workers of an elastic job are left", "worker-0 Running, worker-1 Failed?", torchJob(workersOnly, elastic(1, 2)), "-worker-1", "Worker replica(s) were evicted or deleted"},
		{"too few workers of an elastic job are left", "worker-0 Running, worker-1 Failed?", torchJob(workersOnly, elastic(2, 2)), "-worker-0 -worker-1", "as a whole"},
		{"the worker of an elastic job at which all meet is lost", "worker-0 Failed?, worker-1 Running", torchJob(workersOnly, elastic(1, 2)), "-worker-0 -worker-1", "as a whole"},
		{"the job names how many pods it needs, and they are left", "master-0 Running, worker-0 Running, worker-1 Failed?", torchJob(func(j *training.Job) { j.MinAvailable = 2 }), "-worker-1", "were evicted or deleted"},
		{"a dynamic worker is lost", "chief-0 Running, worker-0 Running, worker-1 Failed?, worker-2 Running", tfJob(dynamic), "-worker-1", ""},
		{"a worker that parameter servers serve is lost", "chief-0 Running, worker-0 Running, worker-1 Failed?, worker-2 Running, ps-0 Running, evaluator-0 Running", tfJob(servers), "-worker-1", ""},
		{"a parameter server is lost", "chief-0 Running, worker-0 Running, worker-1 Running, worker-2 Running, ps-0 Failed?, evaluator-0 Running", tfJob(servers), "-chief-0 -worker-0 -worker-1 -worker-2 -ps-0 -evaluator-0", "ps-0"},
		{"an evaluator is lost", "chief-0 Running, worker-0 Running, worker-1 Running, worker-2 Running, ps-0 Running, evaluator-0 Failed?", tfJob(servers), "-evaluator-0", ""},
		{"a worker of a TFJob is lost when another has succeeded", "chief-0 Running, worker-0 Succeeded 0, worker-1 Failed?, worker-2 Running", tfJob(), "-worker-1", ""},
		{"the leader has succeeded", "master-0 Succeeded 0, worker-0 Failed?, worker-1 Running", torchJob(), "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			plan := training.Next(training.Observed{Job: tt.job, Pods: pods(&tt.job, tt.pods), Now: start})
			if got := names(&plan); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
			if whole := strings.Contains(message(&plan.Status), "as a whole"); (plan.Round > 0) != (whole || strings.Contains(message(&plan.Status), "its pod")) {
				t.Errorf("round %d, and it says %q", plan.Round, message(&plan.Status))
			}
			if !strings.Contains(message(&plan.Status), tt.says) || plan.Status.Is(training.ConditionFailed) || len(plan.Restarts) > 0 {
				t.Errorf("it says %q after %v, want %q", message(&plan.Status), plan.Restarts, tt.says)
			}
		})
	}
}

// TestAFailedPodThatIsDeletedIsNotLost holds that the others go on while the pod of a member is created again because its program failed. Times of the API
// are whole seconds, so a program that fails just before its pod is deleted may have ended because of that.
func TestAFailedPodThatIsDeletedIsNotLost(t *testing.T) {
	j := torchJob(func(j *training.Job) {
		for i := range j.Replicas {
			j.Replicas[i].Restart = training.RestartExitCode
		}
	})
	all := pods(&j, "master-0 Running, worker-0 Running, worker-1 Failed 137!")
	all[2].Interrupted = true
	for _, tt := range []struct {
		name  string
		times training.Restarts
		round int
	}{
		{"the pod was counted as a failure", training.Restarts{"worker-1": {Times: 1, UID: all[2].UID}}, 0},
		{"another pod of the member was", training.Restarts{"worker-1": {Times: 1, UID: "before"}}, 1},
	} {
		j.Restarts = tt.times
		if plan := training.Next(training.Observed{Job: j, Pods: all, Now: start}); plan.Round != tt.round || (len(plan.DeletePods) > 0) != (tt.round > 0) {
			t.Errorf("%s: round %d, and %v are deleted", tt.name, plan.Round, names(&plan))
		}
	}
}

// TestCauses holds the words for what has happened to a pod.
func TestCauses(t *testing.T) {
	for why, want := range map[string]string{
		"PreemptionByScheduler":    "its pod bert-worker-1 was preempted on node n1,",
		"QuotaReclaimed":           "was evicted from node n1 to return quota,",
		"GangReleased":             "was evicted from node n1 (GangReleased),",
		"DeletionByTaintManager":   "was evicted from node n1, which does not respond or has a taint NoExecute,",
		"DeletionByPodGC":          "was lost with node n1,",
		"berth.dev/leaving (spot)": "is on node n1, which has the taint berth.dev/leaving, so it will be gone soon,",
	} {
		j := torchJob()
		all := pods(&j, "master-0 Running, worker-0 Running, worker-1 Running?")
		all[2].Why, all[2].Deleting = why, true
		if key, _, notice := strings.Cut(why, " "); notice {
			all[2].Why, all[2].Disrupted, all[2].Deleting, all[2].Notice = "", false, false, key
		}
		plan := training.Next(training.Observed{Job: j, Pods: all, Now: start})
		if got := message(&plan.Status); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", why, got, want)
		}
	}
}

// TestAMove follows a job from the loss of a worker until it runs again.
func TestAMove(t *testing.T) {
	j := torchJob()
	seen := training.Observed{Job: j, Pods: pods(&j, "master-0 Running, worker-0 Running, worker-1 Running"), Now: start}
	step := func() training.Plan {
		plan := training.Next(seen)
		seen.Job.Status, seen.Job.Restarts, seen.Job.Round = plan.Status, plan.Restarts, plan.Round
		return plan
	}
	step()
	seen.Pods[0].Restarts = 2
	seen.Gone, seen.Pods = seen.Pods[2:], seen.Pods[:2] // its node is gone
	plan := step()
	if got := names(&plan); got != "-master-0 -worker-0" || plan.Round != 1 || plan.Restarts.Of(training.Member{Type: training.Master}) != 2 {
		t.Fatalf("%q in round %d after %v", got, plan.Round, plan.Restarts)
	}
	seen.Gone = nil
	seen.Pods[0].Deleting, seen.Pods[1].Deleting = true, true
	if plan = step(); names(&plan) != "" || len(plan.Events) > 0 || conditions(&plan.Status) != "Created, Restarting" {
		t.Errorf("while pods leave: %q, %v, %s", names(&plan), plan.Events, conditions(&plan.Status))
	}
	seen.Pods[0].Phase, seen.Pods[0].Interrupted = training.Succeeded, true // it has saved its work, and ended with 0
	if plan = step(); names(&plan) != "" || plan.Status.Ended() {
		t.Errorf("a program that ends when it is asked to: %q, %s", names(&plan), conditions(&plan.Status))
	}
	seen.Pods = nil
	if plan = step(); names(&plan) != "+master-0 +worker-0 +worker-1" {
		t.Errorf("when all are gone: %q", names(&plan))
	}
	seen.Pods = pods(&j, "master-0 Running, worker-0 Running, worker-1 Running")
	for i := range seen.Pods {
		seen.Pods[i].Round = 1
	}
	if plan = step(); names(&plan) != "" || conditions(&plan.Status) != "Created, Running" {
		t.Errorf("afterwards: %q, %s", names(&plan), conditions(&plan.Status))
	}
}

// TestANodeThatDoesNotRespond holds that its pods are forgotten a minute after their grace period.
func TestANodeThatDoesNotRespond(t *testing.T) {
	j := torchJob()
	seen := training.Observed{Job: j, Pods: pods(&j, "master-0 Running, worker-0 Running, worker-1 Running!"), Now: start}
	seen.Pods[2].Disrupted, seen.Pods[2].Why, seen.Pods[2].Killed = true, "DeletionByTaintManager", start.Add(30*time.Second)
	if plan := training.Next(seen); len(plan.ForgetPods) > 0 || !plan.Again.Equal(start.Add(90*time.Second)) {
		t.Errorf("within its grace period: forgets %v, plans again at %v", plan.ForgetPods, plan.Again)
	}
	seen.Now = start.Add(90 * time.Second)
	if plan := training.Next(seen); len(plan.ForgetPods) != 1 || plan.ForgetPods[0].Name != "bert-worker-1" {
		t.Errorf("a minute after it: forgets %v", plan.ForgetPods)
	}
	seen.Pods[2].Why = "EvictionByEvictionAPI"
	if plan := training.Next(seen); len(plan.ForgetPods) > 0 {
		t.Errorf("a pod whose node responds is forgotten: %v", plan.ForgetPods)
	}
}

// TestLosses holds what a job says that a move loses, and that it says so of a checkpoint that was missed.
func TestLosses(t *testing.T) {
	j := torchJob()
	for _, tt := range []struct {
		name  string
		saves checkpoint.Saves
		last  checkpoint.Saves // of worker-1
		pods  string
		want  string
	}{
		{"a job that saves nothing", checkpoint.Saves{}, checkpoint.Saves{}, "master-0 Running, worker-0 Running, worker-1 Running!", "; it loses 12.0 GPU-hours of work, as it does not say that it saves any"},
		{"a job that saves when it is asked to stop", checkpoint.Saves{OnSignal: true}, checkpoint.Saves{OnSignal: true}, "master-0 Running, worker-0 Running, worker-1 Running!", "; it loses nothing if it saves its work when it is asked to stop, as it says"},
		{"a job that is not asked", checkpoint.Saves{OnSignal: true}, checkpoint.Saves{OnSignal: true}, "master-0 Running, worker-0 Running, worker-1 Failed?", "; it loses 12.0 GPU-hours of work, as it could not be asked to stop"},
		{"a checkpoint of one pod counts for all", checkpoint.Saves{}, checkpoint.Saves{Last: start.Add(50 * time.Minute)}, "master-0 Running, worker-0 Running, worker-1 Running!", "; it loses 2.0 GPU-hours of work, since its last checkpoint of 2026-01-02T03:54:05Z"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			seen := training.Observed{Job: j, Pods: pods(&j, tt.pods), Now: start.Add(time.Hour)}
			for i := range seen.Pods {
				seen.Pods[i].Start, seen.Pods[i].MilliGPUs, seen.Pods[i].Saves = start, 4000, tt.saves
			}
			seen.Pods[2].Saves = tt.last
			plan := training.Next(seen)
			if got := message(&plan.Status); !strings.HasSuffix(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
	for _, tt := range []struct {
		pod   string
		saves checkpoint.Saves
		want  string
	}{
		{"worker-0 Failed! 137", checkpoint.Saves{OnSignal: true}, "CheckpointMissed"},
		{"worker-0 Failed! 85", checkpoint.Saves{OnSignal: true, Code: 85}, "CheckpointSaved"},
		{"worker-0 Succeeded! 0", checkpoint.Saves{OnSignal: true, Last: start.Add(time.Second)}, "CheckpointSaved"},
		{"worker-0 Succeeded! 0", checkpoint.Saves{OnSignal: true}, ""},
	} {
		for _, suspend := range []bool{false, true} {
			seen := training.Observed{Job: j, Stopped: pods(&j, tt.pod), Now: start}
			seen.Job.Suspend, seen.Stopped[0].Saves, seen.Stopped[0].Interrupted, seen.Stopped[0].Asked = suspend, tt.saves, true, start
			got := ""
			for _, e := range training.Next(seen).Events {
				if strings.HasPrefix(e.Reason, "Checkpoint") {
					got += e.Reason
				}
			}
			if got != tt.want {
				t.Errorf("%s, suspended %v: %q, want %q", tt.pod, suspend, got, tt.want)
			}
		}
	}
}
