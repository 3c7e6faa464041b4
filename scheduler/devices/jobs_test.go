package devices_test

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
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
			got := newRigOf(t, specs).play(jobs)
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

// playFor is how long jobs are played.
const playFor = 5 * time.Minute

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

// play brings jobs, ends pods when their run is over, and schedules whenever there
// is something to do. It returns what has started.
func (r *rig) play(jobs []sim.Job) (started []sim.Start) {
	type end struct {
		at   time.Duration
		name string
	}
	var ends []end
	run, began := map[string]time.Duration{}, time.Now()
	r.answer = func(b *v1.Binding) error {
		at := time.Since(began)
		started = append(started, sim.Start{At: at, Pod: b.Name, Node: b.Target.Name})
		ends = append(ends, end{at + run[b.Name], b.Name})
		slices.SortFunc(ends, func(a, b end) int { return cmpEnds(a.at, b.at, a.name, b.name) })
		return nil
	}
	for {
		next := playFor
		if len(jobs) > 0 {
			next = min(next, jobs[0].At)
		}
		if len(ends) > 0 {
			next = min(next, ends[0].at)
		}
		select {
		case <-r.news:
			synctest.Wait()
			r.run()
			continue
		case <-time.After(next - time.Since(began)):
		}
		switch {
		case next == playFor:
			return started
		case len(ends) > 0 && ends[0].at == next:
			name := ends[0].name
			ends = ends[1:]
			r.remove(name)
		default:
			for i, pod := range podsOf(&jobs[0]) {
				run[pod.Name] = jobs[0].Run + time.Duration(i)*jobs[0].Spread
				r.add(pod)
			}
			jobs = jobs[1:]
		}
		r.run()
	}
}

func cmpEnds(a, b time.Duration, x, y string) int {
	switch {
	case a != b:
		return int(a - b)
	case x < y:
		return -1
	}
	return 1
}

// podsOf makes the pods of a job, which come now.
func podsOf(j *sim.Job) []*v1.Pod {
	pods := gangOf(j.Name, j.Pods, j.Least, fmt.Sprint("gpu=", j.Request.GPUs))
	for _, p := range pods {
		p.CreationTimestamp, p.Spec.Priority = metav1.NewTime(time.Now()), &j.Priority
		if p.Annotations[api.AnnotationTopology] = j.Within.String(); j.Least == 0 {
			p.Annotations = map[string]string{}
		}
	}
	return pods
}
