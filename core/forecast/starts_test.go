package forecast_test

import (
	"fmt"
	"math/rand"
	"testing"
	"time"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/forecast"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/core/queue"
)

// want is a job for so many GPUs that says how long it runs at most; 0 is that it does not.
func want(name string, gpus int32, limit time.Duration) *forecast.Job {
	return &forecast.Job{Name: name, Template: queue.Template{Name: name, Class: fmt.Sprint(gpus)}, Request: cluster.Request{GPUs: gpus, MilliGPU: cluster.Whole}, Pods: 1, GPUs: float64(gpus), Limit: limit}
}

// held are whole GPUs of a node, from one on.
func held(node int, from, n int32) []cluster.Placement {
	p := cluster.Placement{Node: node, Request: cluster.Request{GPUs: n, MilliGPU: cluster.Whole}}
	for i := range n {
		p.Devices = append(p.Devices, cluster.Device{GPU: from + i, MilliGPU: cluster.Whole, MemoryBytes: 80 << 30})
	}
	return []cluster.Placement{p}
}

// TestJobsStartWhenThoseBeforeThemHaveEnded has two nodes with four GPUs; all times are declared.
func TestJobsStartWhenThoseBeforeThemHaveEnded(t *testing.T) {
	const h = time.Hour
	line := forecast.New(nodesWith(t, 4, 4), placement.NewBestFit, forecast.Rules{Order: forecast.Given, Reservations: 4}, queue.NewRunTimes())
	begin := func(name string, limit, ran time.Duration, placed []cluster.Placement) {
		if err := line.Begin(want(name, 4, limit), -ran, placed); err != nil {
			t.Fatal(err)
		}
	}
	begin("a", 3*h, h, held(0, 0, 4))
	begin("b", 5*h, h, held(1, 0, 3))
	for rank, j := range []*forecast.Job{want("first", 4, 10*h), want("second", 4, h), want("short", 1, h), want("long", 1, 50*h), want("endless", 4, 0), want("huge", 5, h)} {
		j.Rank = rank
		line.Wait(j)
	}
	starts, err := line.Starts(placement.NewBestFit, 10, 72*h)
	if err != nil {
		t.Fatal(err)
	}
	for name, at := range map[string]time.Duration{"first": 2 * h, "second": 4 * h, "short": 0, "long": 5 * h, "huge": forecast.Never} {
		if got := starts[name]; got.P50 != at || got.P90 != at {
			t.Errorf("%s starts at %v, and by %v; want %v", name, got.P50, got.P90, at)
		}
	}
	if again, _ := line.Starts(placement.NewBestFit, 10, 72*h); fmt.Sprint(again) != fmt.Sprint(starts) {
		t.Errorf("asked again: %v, then %v", starts, again)
	}
}

// TestStartsRestOnWhatEarlierJobsRan has one job hold all GPUs whose like ran for 1 to 10 hours.
func TestStartsRestOnWhatEarlierJobsRan(t *testing.T) {
	times := queue.NewRunTimes()
	for i := range 10 {
		times.Ended(queue.Template{Name: "runs", Class: "4"}, time.Duration(i+1)*time.Hour)
	}
	line := forecast.New(nodesWith(t, 4), placement.NewBestFit, forecast.Rules{Order: forecast.Given, Reservations: 4}, times)
	if err := line.Begin(want("runs", 4, 0), -90*time.Minute, held(0, 0, 4)); err != nil {
		t.Fatal(err)
	}
	line.Wait(want("next", 1, 0))
	starts, err := line.Starts(placement.NewBestFit, 9, 72*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	// Of 2 to 10 hours, less the hour and a half that it has run, the fifth and the ninth.
	if got := starts["next"]; got.P50 != 4*time.Hour+30*time.Minute || got.P90 != 8*time.Hour+30*time.Minute {
		t.Errorf("the next starts at %v, and by %v", got.P50, got.P90)
	}
}

// TestClassesKeepJobsOffNodes has each job use one node, which is held until 1 h and until 2 h.
func TestClassesKeepJobsOffNodes(t *testing.T) {
	s := nodesWith(t, 4, 4)
	for n := range uint32(2) {
		verdicts := make([]cluster.Verdict, 2)
		verdicts[1-n].Reason = 1
		s.SetClass(n+1, verdicts)
	}
	line := forecast.New(s, placement.NewBestFit, forecast.Rules{Order: forecast.Given, Reservations: 1}, queue.NewRunTimes())
	for n := range 2 {
		if err := line.Begin(want(fmt.Sprint("holds", n), 4, time.Duration(n+1)*time.Hour), 0, held(n, 0, 4)); err != nil {
			t.Fatal(err)
		}
		for k, gpus := range []int32{4, 1} {
			j := want(fmt.Sprint("on", n, "-", gpus), gpus, 5*time.Hour)
			j.Request.Class, j.Rank = uint32(n+1), k
			line.Wait(j)
		}
	}
	starts, err := line.Starts(placement.NewBestFit, 5, 72*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for name, at := range map[string]time.Duration{"on0-4": time.Hour, "on0-1": 6 * time.Hour, "on1-4": 2 * time.Hour, "on1-1": 7 * time.Hour} {
		if starts[name].P50 != at {
			t.Errorf("%s starts at %v, want %v", name, starts[name].P50, at)
		}
	}
}

// TestWithKnownRunTimesTheForecastIsWhatComes compares starts with those of the queue itself, of random jobs.
func TestWithKnownRunTimesTheForecastIsWhatComes(t *testing.T) {
	for seed := range int64(20) {
		rnd := rand.New(rand.NewSource(seed))
		line := forecast.New(nodesWith(t, 4, 2, 8), placement.NewBestFit, forecast.Rules{Order: forecast.Given, Reservations: 4, Exact: true}, queue.NewRunTimes())
		for i := range 60 {
			j := want(fmt.Sprint("j", i), int32(1+rnd.Intn(4)), time.Duration(1+rnd.Intn(100))*time.Minute)
			j.Run, j.Rank = j.Limit, i
			line.Wait(j)
		}
		starts, err := line.Starts(placement.NewBestFit, 3, 1000*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		line.Started = func(j *forecast.Job) {
			if got := starts[j.Name]; got.P50 != line.Now() || got.P90 != line.Now() {
				t.Errorf("seed %d: %s starts at %v, and %v and %v were expected", seed, j.Name, line.Now(), got.P50, got.P90)
			}
		}
		if err := line.Run(1000 * time.Hour); err != nil {
			t.Fatal(err)
		}
	}
}
