package devices_test

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	core "berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gang"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/sim"
)

// TestJobsStartAsTheSimulationSays feeds the same jobs, gangs and single pods, to
// the plugins in a scheduler and to the simulation, and compares which pod starts
// when, where and in which order.
func TestJobsStartAsTheSimulationSays(t *testing.T) {
	gangs, later, total := 0, 0, 0
	for seed := range int64(40) {
		rng := rand.New(rand.NewSource(seed))
		specs, jobs := randomJobs(t, rng)
		s, err := core.New(specs)
		if err != nil {
			t.Fatal(err)
		}
		simulated := sim.Jobs{Cluster: s, Jobs: jobs, Policy: func(s placement.Setup) placement.Policy {
			return placement.NewBerth(s, placement.DefaultParams())
		}}
		want, err := simulated.Run(playFor)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		synctest.Test(t, func(t *testing.T) {
			got := play(newRigOf(t, specs), jobs, nil)
			if diff := cmp.Diff(want, got); diff != "" {
				for _, j := range jobs {
					t.Logf("%s at %v run %v pods %d least %d priority %d within %v gpus %d", j.Name, j.At, j.Run, j.Pods, j.Least, j.Priority, j.Within, j.Request.GPUs)
				}
				t.Fatalf("seed %d:\n-simulated +scheduled\n%s", seed, diff)
			}
		})
		for _, start := range want {
			job := jobs[slices.IndexFunc(jobs, func(j sim.Job) bool { return start.Pod[:len(j.Name)] == j.Name })]
			if total++; job.Least > 0 {
				gangs++
			}
			if start.At > job.At {
				later++
			}
		}
	}
	if t.Logf("%d pods started, %d of gangs, %d after a wait", total, gangs, later); gangs < 500 || total-gangs < 300 || later < 500 {
		t.Error("too few to show anything")
	}
}

// randomJobs makes a few nodes and jobs that come faster than there is room.
func randomJobs(t *testing.T, rng *rand.Rand) ([]core.Spec, []sim.Job) {
	t.Helper()
	product, ok := gpu.Find("Tesla T4")
	if !ok {
		t.Fatal("no Tesla T4")
	}
	var specs []core.Spec
	for i := range 2 + rng.Intn(3) {
		name := nodeName(i)
		specs = append(specs, core.Spec{Name: name, CPUMilli: 64000, MemoryBytes: 256 << 30, GPUs: gpu.New(name, product, 1+rng.Intn(8))})
	}
	var jobs []sim.Job
	for i := range 20 {
		j := sim.Job{
			Name: fmt.Sprintf("j%02d", i), At: time.Duration(rng.Int63n(int64(time.Minute))), Pods: 1 + rng.Intn(5),
			Run: time.Second + time.Duration(rng.Int63n(int64(20*time.Second))), Within: gang.Cluster,
			Spread:  time.Duration(1 + rng.Int63n(int64(time.Second))),
			Request: core.Request{GPUs: int32(1 + rng.Intn(2)), MilliGPU: core.Whole, Units: true},
		}
		if rng.Intn(3) > 0 {
			j.Least = 1 + rng.Intn(j.Pods)
		}
		if rng.Intn(4) == 0 {
			j.Within = gang.Node
		}
		if rng.Intn(4) == 0 {
			j.Priority = 10
		}
		jobs = append(jobs, j)
	}
	slices.SortStableFunc(jobs, func(a, b sim.Job) int { return int(a.At - b.At) })
	return specs, jobs
}

// newRigOf makes a rig of nodes as specs say, with lines.
func newRigOf(t *testing.T, specs []core.Spec) *rig {
	t.Helper()
	r := newRig(t)
	for i := range specs {
		r.nodes = append(r.nodes, &info{node: nodeOf(t, &specs[i]), generation: 1})
	}
	r.inLines, r.news = true, make(chan struct{}, 1)
	return r
}
