package devices_test

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	core "berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gang"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/sim"
	"berth.dev/berth/test/soak"
)

// TestReservedAndReleasedJobsStartAsTheSimulationSays is TestJobsStartAsTheSimulationSays
// with places that are kept for those who are overtaken, and with gangs that lose pods, are
// released, and come again.
func TestReservedAndReleasedJobsStartAsTheSimulationSays(t *testing.T) {
	soak.Plainly(t)
	total, again, kept, evicted := 0, 0, 0, 0
	for seed := range int64(soak.Pick(15, 150)) {
		rng := rand.New(rand.NewSource(seed))
		specs, jobs := randomJobs(t, rng)
		losses := crowd(rng, jobs)
		s, err := core.New(specs)
		if err != nil {
			t.Fatal(err)
		}
		simulated := sim.Jobs{Cluster: s, Jobs: jobs, Losses: losses, ReserveAfter: 10 * time.Second, Policy: func(s placement.Setup) placement.Policy {
			return placement.NewBerth(s, placement.DefaultParams())
		}}
		want, err := simulated.Run(playFor)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		synctest.Test(t, func(t *testing.T) {
			got, evictions := playMaking(t, specs, jobs, losses)
			evicted += evictions
			if diff := cmp.Diff(want, got); diff != "" {
				for _, j := range jobs {
					t.Logf("%+v", j)
				}
				t.Fatalf("seed %d:\n-simulated +scheduled\n%s", seed, diff)
			}
		})
		simulated.ReserveAfter = 0
		without, err := simulated.Run(playFor)
		if err != nil {
			t.Fatal(err)
		}
		if total += len(want); cmp.Diff(want, without) != "" {
			kept++
		}
		for _, start := range want {
			if strings.Contains(start.Pod, "-r") {
				again++
			}
		}
	}
	t.Logf("%d pods started, %d of them again, %d were evicted with their gangs; reservations changed %d plays", total, again, evicted, kept)
	if again < 15 || evicted < 5 || kept < 10 {
		t.Error("too few to show anything")
	}
}

// crowd makes jobs ask for more, so some are overtaken, gives most of them controllers, and
// chooses pods that are lost.
func crowd(rng *rand.Rand, jobs []sim.Job) (losses []sim.Loss) {
	for i := range jobs {
		j := &jobs[i]
		j.Declared = rng.Intn(2) == 0
		if rng.Intn(4) == 0 {
			j.Request.GPUs = int32(1 + rng.Intn(4))
		}
		if rng.Intn(4) > 0 {
			j.Replace = time.Duration(1 + rng.Int63n(int64(6*time.Second)))
			j.Grace = time.Second + time.Duration(rng.Int63n(int64(4*time.Second)))
		}
		if j.Within != gang.Cluster && rng.Intn(2) == 0 {
			j.Within = gang.Cluster
		}
		if j.Least > 0 && rng.Intn(2) == 0 {
			j.Least = j.Pods
		}
		j.Run += time.Duration(rng.Int63n(int64(30 * time.Second)))
		for range rng.Intn(4) {
			losses = append(losses, sim.Loss{
				At: j.At + time.Duration(rng.Int63n(int64(80*time.Second))), Pod: fmt.Sprint(j.Name, "-", rng.Intn(j.Pods)),
			})
		}
	}
	return losses
}

// playMaking plays jobs on a scheduler that keeps places and releases gangs.
func playMaking(t *testing.T, specs []core.Spec, jobs []sim.Job, losses []sim.Loss) (started []sim.Start, evicted int) {
	t.Helper()
	m := newMaking(t)
	for i := range specs {
		m.nodes = append(m.nodes, &info{node: nodeOf(t, &specs[i]), generation: 1})
	}
	m.reserveAfter, m.inLines, m.silent, m.news = "10s", true, true, make(chan struct{}, 1)
	m.restart()
	y := newPlayer(m.rig, jobs, losses)
	m.leaves = func(name string) {
		m.later(func() {
			uid := types.UID(name)
			y.at(y.now()+time.Second, ends, name, func() { y.end(uid, true) })
		})
	}
	started = y.play()
	return started, len(m.evicted)
}
