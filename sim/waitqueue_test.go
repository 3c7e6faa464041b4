package sim_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/forecast"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/sim"
)

// queued is a short protocol on a few nodes.
func queued(t *testing.T, load float64, rules forecast.Rules) sim.Queue {
	t.Helper()
	_, pods := small(t, "default")
	return sim.Queue{Cluster: eights(t, 4), Pods: pods, Load: load, Rules: rules, Policy: placement.NewBestFit, Warm: 2 * 24 * time.Hour, Span: 4 * 24 * time.Hour, Longest: 24 * time.Hour}
}

// eights is so many nodes of eight GPUs.
func eights(t *testing.T, count int) *cluster.Snapshot {
	t.Helper()
	var specs []cluster.Spec
	for range count {
		n := cluster.Spec{Name: "node-" + string(rune('a'+len(specs))), CPUMilli: 128_000, MemoryBytes: 1 << 40}
		for k := range 8 {
			n.GPUs = append(n.GPUs, gpu.GPU{Index: k, UUID: n.Name + string(rune('0'+k)), Product: "A10", Healthy: true})
		}
		specs = append(specs, n)
	}
	s, err := cluster.New(specs)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func runQueue(t *testing.T, q *sim.Queue, seed int64) sim.QueueRun {
	t.Helper()
	out, err := q.Run(seed)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestRulesAreComparedOnEqualJobs(t *testing.T) {
	fifo := queued(t, 1.3, forecast.Rules{})
	fifo.Estimates = 100
	base := runQueue(t, &fifo, 1)
	if again := runQueue(t, &fifo, 1); !reflect.DeepEqual(base, again) {
		t.Errorf("the same seed gives %+v and then %+v", base, again)
	}
	if base.Jobs < 50 || base.MeanWait == 0 {
		t.Fatalf("%+v: nothing waits", base)
	}
	strict := queued(t, 1.3, forecast.Rules{Strict: true})
	shortest := queued(t, 1.3, forecast.Rules{Order: forecast.Shortest, Exact: true})
	slowdown := queued(t, 1.3, forecast.Rules{Order: forecast.Slowdown, Reservations: 4})
	for name, c := range map[string]struct {
		q      *sim.Queue
		better bool
	}{"in strict order": {&strict, false}, "the shortest first": {&shortest, true}, "by slowdown": {&slowdown, true}} {
		got := runQueue(t, c.q, 1)
		if got.Jobs != base.Jobs || got.MeanWait < base.MeanWait != c.better {
			t.Errorf("%s: %d jobs wait %.0f s on average; in order of arrival %d jobs wait %.0f s", name, got.Jobs, got.MeanWait, base.Jobs, base.MeanWait)
		}
	}
}

func TestJobsOfNodesThatFailStartAnew(t *testing.T) {
	whole, broken := queued(t, 0.9, forecast.Rules{Reservations: 2}), queued(t, 0.9, forecast.Rules{Reservations: 2})
	broken.Failures = 20
	want, got := runQueue(t, &whole, 3), runQueue(t, &broken, 3)
	if got.Lost == 0 || got.LostGPUHours <= 0 || got.Jobs != want.Jobs || want.Lost != 0 {
		t.Errorf("with failures %+v, without %+v", got, want)
	}
}

func TestStartsThatAreEstimatedWithExactRunTimesAreRight(t *testing.T) {
	q := queued(t, 1.3, forecast.Rules{Exact: true})
	q.Estimates = 100
	got := runQueue(t, &q, 2)
	if got.Starts[sim.SmallJobs].Estimates < 10 || got.Starts[sim.SmallJobs].MedianError > 0.1 {
		t.Errorf("%+v", got.Starts)
	}
	q.Rules.Exact = false
	if got := runQueue(t, &q, 2); got.Starts[sim.SmallJobs].Estimates < 10 || got.Starts[sim.SmallJobs].MedianError == 0 {
		t.Errorf("with run times of earlier jobs: %+v", got.Starts)
	}
}

// TestPodsOfAGangStartTogether has jobs of two pods of five GPUs on two nodes of eight: one runs at a time, though GPUs are free
// for a pod of the next. The slow twin of the queue itself is in core/forecast.
func TestPodsOfAGangStartTogether(t *testing.T) {
	trace := func(pods int) sim.Queue {
		q := queued(t, 1, forecast.Rules{Exact: true})
		q.Cluster, q.Pods = eights(t, 2), nil
		for i := range 10 {
			q.Pods = append(q.Pods, sim.Pod{
				Name: fmt.Sprint(i), GPUs: 5, MilliGPU: cluster.Whole, Pods: pods,
				Arrival: float64(i), HasArrival: true, Run: 3600, HasRun: true,
			})
		}
		return q
	}
	gangs, alone := trace(2), trace(0)
	gangs.Estimates = 1000
	got, one := runQueue(t, &gangs, 1), runQueue(t, &alone, 1)
	if got.Starts[sim.GangJobs].Estimates == 0 || got.Starts[sim.SmallJobs].Estimates+got.Starts[sim.LargeJobs].Estimates > 0 {
		t.Errorf("estimates by size: %+v", got.Starts)
	}
	if got.UsePercent > 62.5+1e-6 || got.Done < 3600*float64(got.Jobs) {
		t.Errorf("%d gangs of an hour, of which one fits, have ended after %.0f s, and used %.1f %% of the GPUs", got.Jobs, got.Done, got.UsePercent)
	}
	if one.Done > 0.9*3600*float64(one.Jobs) { // the jobs of the first days are not counted
		t.Errorf("%d pods alone, of which two fit, have ended after %.0f s", one.Jobs, one.Done)
	}
	large := trace(3)
	if _, err := large.Run(1); err == nil || !strings.Contains(err.Error(), "there is nothing to queue") {
		t.Errorf("a gang that never fits: %v", err)
	}
}

func TestStartsAreEstimatedAgainWhileJobsWait(t *testing.T) {
	q := queued(t, 1.3, forecast.Rules{Exact: true})
	q.Estimates = 100
	got := runQueue(t, &q, 2)
	first, later := got.Starts[sim.SmallJobs], got.Later[sim.SmallJobs]
	if later.Estimates < 10 || later.Estimates > 3*first.Estimates || later.MedianError > 0.1 {
		t.Errorf("with exact run times, at first %+v, later %+v", first, later)
	}
	q.Rules.Exact = false
	if got := runQueue(t, &q, 2).Later[sim.SmallJobs]; got.Estimates < 10 || got.MedianError == 0 {
		t.Errorf("with run times of earlier jobs: %+v", got)
	}
}

func TestAMixHasGangsOfAllSizes(t *testing.T) {
	var pods []sim.Pod
	for i := range 10_000 {
		pods = append(pods, sim.Pod{Name: fmt.Sprint("pod-", i), GPUs: 1, MilliGPU: 500, CPUMilli: 1000})
	}
	pods = append(pods, sim.Pod{Name: "cpu", CPUMilli: 1000})
	mixed, counts := sim.WithGangs(pods), map[[2]int]int{}
	for i := range mixed {
		counts[[2]int{mixed[i].Pods, mixed[i].GPUs}]++
	}
	for gang, percent := range map[[2]int]int{{2, 1}: 10, {4, 1}: 10, {8, 1}: 11, {2, 8}: 5, {4, 8}: 2, {0, 1}: 62} {
		if n := counts[gang]; n < 80*percent || n > 120*percent {
			t.Errorf("%d of 10,000 are %d pods of %d GPUs, want %d %%", n, gang[0], gang[1], percent)
		}
	}
	if len(counts) != 7 || pods[0].Pods+pods[1].Pods != 0 || !reflect.DeepEqual(mixed, sim.WithGangs(pods)) {
		t.Errorf("sizes %v", counts)
	}
}

func TestWhatCannotBeQueuedIsRefused(t *testing.T) {
	for want, change := range map[string]func(*sim.Queue){
		"load 0: it must be above 0 and at most 100 times the cluster": func(q *sim.Queue) { q.Load = 0 },
		"no pod of the trace asks for GPUs, says when it came and how long it ran, and fits a node: there is nothing to queue": func(q *sim.Queue) {
			for i := range q.Pods {
				q.Pods[i].HasRun = false
			}
		},
		"-1 failures: there must be from 0 to 1000 of each node in 30 days": func(q *sim.Queue) { q.Failures = -1 },
	} {
		q := queued(t, 1, forecast.Rules{})
		change(&q)
		if _, err := q.Run(1); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
