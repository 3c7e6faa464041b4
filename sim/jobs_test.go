package sim_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gang"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/sim"
)

// runJobs runs jobs on nodes "a" and "b" with four GPUs each, and prints what
// starts as "pod@seconds".
func runJobs(t *testing.T, jobs ...sim.Job) []string {
	t.Helper()
	p, ok := gpu.Find("Tesla T4")
	if !ok {
		t.Fatal("no Tesla T4")
	}
	s, err := cluster.New([]cluster.Spec{{Name: "a", GPUs: gpu.New("a", p, 4)}, {Name: "b", GPUs: gpu.New("b", p, 4)}})
	if err != nil {
		t.Fatal(err)
	}
	run := sim.Jobs{Cluster: s, Jobs: jobs, Policy: func(s placement.Setup) placement.Policy {
		return placement.NewBerth(s, placement.DefaultParams())
	}}
	started, err := run.Run(time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortStableFunc(started, func(a, b sim.Start) int {
		return cmp.Or(cmp.Compare(a.At.Truncate(time.Second), b.At.Truncate(time.Second)), cmp.Compare(a.Pod, b.Pod))
	})
	var out []string
	for _, start := range started {
		out = append(out, fmt.Sprintf("%s@%v", start.Pod, start.At.Round(time.Second).Seconds()))
	}
	return out
}

func TestJobs(t *testing.T) {
	job := func(name string, at, run time.Duration, pods, least int, gpus int32) sim.Job {
		return sim.Job{
			Name: name, At: at, Run: run, Pods: pods, Least: least, Within: gang.Cluster,
			Request: cluster.Request{GPUs: gpus, MilliGPU: cluster.Whole, Units: true},
		}
	}
	const second = time.Second
	first := job("first", 0, 10*second, 2, 2, 4)
	urgent := job("urgent", 2*second, 0, 1, 0, 4)
	urgent.Priority = 1
	together := job("together", second, 0, 2, 2, 3)
	together.Within = gang.Node
	for _, tt := range []struct {
		name string
		jobs []sim.Job
		want []string
	}{
		{"a gang starts together", []sim.Job{job("g", second, 0, 4, 4, 2)}, []string{"g-0@1", "g-1@1", "g-2@1", "g-3@1"}},
		{"a gang that does not fit starts nothing, and others pass it", []sim.Job{
			job("huge", 0, 0, 3, 3, 4), job("small", second, 0, 1, 0, 1),
		}, []string{"small-0@1"}},
		{"a gang waits until as much is free as it needs", []sim.Job{first, job("next", second, 0, 3, 3, 2)}, []string{
			"first-0@0", "first-1@0", "next-0@10", "next-1@10", "next-2@10",
		}},
		{"what a gang may have beyond its least comes when there is room", []sim.Job{
			job("first", 0, 10*second, 1, 0, 4), job("next", second, 0, 2, 1, 4),
		}, []string{"first-0@0", "next-0@1", "next-1@10"}},
		{"pods that ask for the same start when there is room for both", []sim.Job{
			first, job("early", second, 0, 1, 0, 4), urgent,
		}, []string{"first-0@0", "first-1@0", "early-0@10", "urgent-0@10"}},
		{"a gang that must be on one node does not start on two", []sim.Job{together}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := runJobs(t, tt.jobs...)
			if diff := gocmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if diff := gocmp.Diff(got, runJobs(t, tt.jobs...)); diff != "" {
				t.Errorf("a second run differs: -first +second\n%s", diff)
			}
		})
	}
}
