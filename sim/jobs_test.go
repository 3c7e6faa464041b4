package sim_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
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
	return runOf(t, sim.Jobs{Jobs: jobs})
}

// runOf runs the rest of run there.
func runOf(t *testing.T, run sim.Jobs) []string {
	t.Helper()
	p, ok := gpu.Find("Tesla T4")
	if !ok {
		t.Fatal("no Tesla T4")
	}
	s, err := cluster.New([]cluster.Spec{{Name: "a", GPUs: gpu.New("a", p, 4)}, {Name: "b", GPUs: gpu.New("b", p, 4)}})
	if err != nil {
		t.Fatal(err)
	}
	run.Cluster, run.Policy = s, func(s placement.Setup) placement.Policy {
		return placement.NewBerth(s, placement.DefaultParams())
	}
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

const second = time.Second

// job is a job that may be on any nodes.
func job(name string, at, run time.Duration, pods, least int, gpus int32) sim.Job {
	return sim.Job{
		Name: name, At: at, Run: run, Pods: pods, Least: least, Within: gang.Cluster,
		Request: cluster.Request{GPUs: gpus, MilliGPU: cluster.Whole, Units: true},
	}
}

func TestJobs(t *testing.T) {
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

// smalls are jobs of one pod with one GPU each: eight that fill both nodes, and then one
// whenever one of them ends.
func smalls(runs time.Duration, most int) []sim.Job {
	var out []sim.Job
	for i := range most {
		at := time.Duration(0)
		if i >= 8 {
			at = time.Duration(i-7) * runs / 8
		}
		out = append(out, job(fmt.Sprintf("small%03d", i), at, runs+time.Duration(min(i, 7))*runs/8, 1, 0, 1))
	}
	for i := 8; i < most; i++ {
		out[i].Run = runs
	}
	return out
}

// TestOneThatIsOvertakenStartsInTime has a pod with four GPUs, and a gang of six, wait while
// pods with one GPU come after them and take each that becomes free.
func TestOneThatIsOvertakenStartsInTime(t *testing.T) {
	for _, tt := range []struct {
		name string
		job  sim.Job
		last string // of its pods
	}{
		{"a pod", job("large", second, 10*second, 1, 0, 4), "large-0"},
		{"a gang", job("gang", second, 10*second, 6, 6, 1), "gang-5"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			jobs := append(smalls(16*second, 90), tt.job)
			at := func(after time.Duration) time.Duration {
				got := runOf(t, sim.Jobs{Jobs: jobs, ReserveAfter: after})
				for _, start := range got {
					if pod, seconds, _ := strings.Cut(start, "@"); pod == tt.last {
						d, err := time.ParseDuration(seconds + "s")
						if err != nil {
							t.Fatal(err)
						}
						return d
					}
				}
				return time.Hour
			}
			with, without := at(10*second), at(0)
			if t.Logf("the last pod starts after %v, and after %v where nothing is kept", with, without); with > 45*second || without < 2*time.Minute {
				t.Errorf("the last pod starts after %v, want 45s at most; and after %v where nothing is kept", with, without)
			}
		})
	}
}

// TestAGangThatLosesAPodIsReleased has a gang that fills both nodes lose a pod, whose place
// is taken before its controller creates another: after its grace the gang is evicted, and
// starts as a whole when the other has ended.
func TestAGangThatLosesAPodIsReleased(t *testing.T) {
	whole := job("gang", 0, 0, 8, 8, 1)
	whole.Replace, whole.Grace = 2*second, 5*second
	taker := job("taker", second, 30*second, 1, 0, 1)
	taker.Priority = 1
	lost := []sim.Loss{{At: 10 * second, Pod: "gang-3"}}
	var want []string
	for i := range 8 {
		want = append(want, fmt.Sprintf("gang-%d@0", i))
	}
	want = append(want, "taker-0@10")
	for i := range 8 { // the others end a second after the grace, and are created again 2 s later
		want = append(want, fmt.Sprintf("gang-%d-r1@40", i))
	}
	if diff := gocmp.Diff(want, runOf(t, sim.Jobs{Jobs: []sim.Job{whole, taker}, Losses: lost})); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	whole.Replace = 0
	if got := runOf(t, sim.Jobs{Jobs: []sim.Job{whole, taker}, Losses: lost}); len(got) != 9 {
		t.Errorf("a gang whose pods nothing creates again stays as it is; it starts %v", got)
	}
}
