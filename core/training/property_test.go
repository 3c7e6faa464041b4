package training_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/core/training"
)

// world is a cluster that carries out plans, and in which pods run, end, and are evicted at random.
type world struct {
	seen training.Observed
	uid  int
	safe bool // no program fails
}

// apply carries out a plan. A crash leaves it at a random place.
func (w *world) apply(plan *training.Plan, crash func() bool) {
	if crash() {
		return
	}
	w.seen.Job.Restarts, w.seen.Job.Round, w.seen.Gone = plan.Restarts, plan.Round, nil
	if crash() {
		return
	}
	w.seen.Job.Status = plan.Status
	for _, p := range plan.DeletePods {
		if crash() {
			return
		}
		i := slices.IndexFunc(w.seen.Pods, func(o training.Pod) bool { return o.UID == p.UID })
		if w.seen.Pods[i].Phase == training.Running {
			w.seen.Pods[i].Deleting = true
		} else {
			w.seen.Pods = slices.Delete(w.seen.Pods, i, i+1)
		}
	}
	for _, s := range plan.DeleteServices {
		w.seen.Services = slices.DeleteFunc(w.seen.Services, func(o training.Service) bool { return o.UID == s.UID })
	}
	for _, m := range plan.CreateServices {
		w.uid++
		w.seen.Services = append(w.seen.Services, training.Service{Member: m, Name: m.Name(w.seen.Job.Name), UID: fmt.Sprint(w.uid)})
	}
	for _, m := range plan.CreatePods {
		if crash() {
			return
		}
		w.uid++
		w.seen.Pods = append(w.seen.Pods, training.Pod{Member: m, Name: m.Name(w.seen.Job.Name), UID: fmt.Sprint(w.uid), Phase: training.Pending, Created: w.seen.Now, Round: w.seen.Job.Round})
	}
}

// happen lets something happen to the pods or the job.
func (w *world) happen(r *rand.Rand) {
	w.seen.Now = w.seen.Now.Add(time.Duration(r.IntN(20)) * time.Second)
	if r.IntN(40) == 0 {
		w.seen.Job.Suspend = !w.seen.Job.Suspend
	}
	if len(w.seen.Pods) == 0 {
		return
	}
	i := r.IntN(len(w.seen.Pods))
	p := &w.seen.Pods[i]
	switch {
	case p.Deleting && p.Phase == training.Running && r.IntN(2) == 0:
		p.Interrupted, p.Phase = true, []training.Phase{training.Failed, training.Succeeded}[r.IntN(2)]
	case p.Deleting:
		w.seen.Pods = slices.Delete(w.seen.Pods, i, i+1)
	case p.Phase == training.Pending:
		p.Phase, p.Node = training.Running, "n1"
	case p.Phase != training.Running:
	case r.IntN(12) == 0:
		p.Deleting = true // drained
	case r.IntN(12) == 0:
		p.Phase, p.Disrupted = training.Failed, true
	case r.IntN(20) == 0:
		p.Notice = "spot"
	case r.IntN(20) == 0:
		if p.Fault = (&training.Fault{GPU: 1, UUID: "GPU-x", Xid: 79}); r.IntN(2) == 0 {
			p.Phase = training.Failed
		}
	case r.IntN(20) == 0:
		w.seen.Gone = append(w.seen.Gone, *p)
		w.seen.Pods = slices.Delete(w.seen.Pods, i, i+1)
	case !w.safe && r.IntN(6) == 0:
		code := []int{0, 0, 1, 137}[r.IntN(4)]
		p.Exit, p.Phase = &code, training.Failed
		if code == 0 {
			p.Phase = training.Succeeded
		}
	}
}

// TestAnyJob holds, over random jobs, events, and crashes, that no name is used twice, that pods of two rounds are never
// there together, that a job whose programs do not fail has no failures however often it is moved, that a plan which is
// carried out leaves nothing to do, and that a job that has ended stays so.
func TestAnyJob(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 7))
		job := []func(...func(*training.Job)) training.Job{tfJob, torchJob, trainJob}[r.IntN(3)](
			restart([]training.Restart{training.RestartAlways, training.RestartOnFailure, training.RestartNever, training.RestartExitCode}[r.IntN(4)]),
			func(j *training.Job) {
				j.Clean = []training.Clean{training.CleanNone, training.CleanRunning, training.CleanAll}[r.IntN(3)]
				if limit := r.IntN(8); limit < 6 {
					j.BackoffLimit = &limit
				}
				switch {
				case j.Kind == training.TrainJob:
					j.Clean, j.Replicas[0].Restart = training.CleanRunning, []training.Restart{training.RestartOnFailure, training.RestartPod}[r.IntN(2)]
				case r.IntN(3) == 0:
					workersOnly(j)
				}
			})
		w := &world{seen: training.Observed{Job: job, Now: start}, safe: r.IntN(3) == 0}
		for step := range 200 {
			was := w.seen.Job.Status
			plan := training.Next(w.seen)
			w.apply(&plan, func() bool { return r.IntN(30) == 0 })
			if was.Ended() && !w.seen.Job.Status.Ended() {
				t.Fatalf("seed %d, step %d: a job that had ended goes on", seed, step)
			}
			if w.safe && (w.seen.Job.Status.Ended() || len(w.seen.Job.Restarts) > 0) {
				t.Fatalf("seed %d, step %d: no program has failed, and the job has %s and the restarts %v", seed, step, conditions(&w.seen.Job.Status), w.seen.Job.Restarts)
			}
			check(t, seed, step, w)
			if r.IntN(4) == 0 {
				settle(t, seed, step, w)
			}
			w.happen(r)
		}
	}
}

// check holds that each member has at most one pod and one Service, and that all pods are of one round.
func check(t *testing.T, seed uint64, step int, w *world) {
	t.Helper()
	names := map[string]int{}
	for _, p := range w.seen.Pods {
		if names["pod "+p.Name]++; p.Round != w.seen.Pods[0].Round {
			t.Fatalf("seed %d, step %d: pods of rounds %d and %d", seed, step, w.seen.Pods[0].Round, p.Round)
		}
	}
	for _, s := range w.seen.Services {
		names["Service "+s.Name]++
	}
	for name, n := range names {
		if n > 1 {
			t.Fatalf("seed %d, step %d: %d of %s", seed, step, n, name)
		}
	}
}

// settle carries out plans without crashes until nothing changes, which takes a few.
func settle(t *testing.T, seed uint64, step int, w *world) {
	t.Helper()
	for range 6 {
		plan := training.Next(w.seen)
		same := cmp.Equal(plan.Status, w.seen.Job.Status) && maps.Equal(plan.Restarts, w.seen.Job.Restarts) && plan.Round == w.seen.Job.Round &&
			len(plan.CreatePods)+len(plan.DeletePods)+len(plan.CreateServices)+len(plan.DeleteServices) == 0
		if same {
			return
		}
		w.apply(&plan, func() bool { return false })
	}
	t.Fatalf("seed %d, step %d: plans do not end: %s", seed, step, conditions(&w.seen.Job.Status))
}
