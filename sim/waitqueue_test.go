package sim_test

import (
	"reflect"
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
	var specs []cluster.Spec
	for range 4 {
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
	_, pods := small(t, "default")
	return sim.Queue{Cluster: s, Pods: pods, Load: load, Rules: rules, Policy: placement.NewBestFit, Warm: 2 * 24 * time.Hour, Span: 4 * 24 * time.Hour, Longest: 24 * time.Hour}
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
	if got.Small.Jobs < 10 || got.Small.MedianError > 0.1 {
		t.Errorf("%+v", got.Small)
	}
	q.Rules.Exact = false
	if got := runQueue(t, &q, 2); got.Small.Jobs < 10 || got.Small.MedianError == 0 {
		t.Errorf("with run times of earlier jobs: %+v", got.Small)
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
