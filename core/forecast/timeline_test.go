package forecast_test

import (
	"cmp"
	"fmt"
	"math/rand"
	"slices"
	"testing"
	"time"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/forecast"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/core/queue"
)

// nodes makes a cluster of nodes with eight GPUs each.
func nodes(t testing.TB, count int) *cluster.Snapshot {
	return nodesWith(t, slices.Repeat([]int{8}, count)...)
}

// nodesWith makes a cluster of nodes with so many GPUs.
func nodesWith(t testing.TB, gpus ...int) *cluster.Snapshot {
	t.Helper()
	specs := make([]cluster.Spec, len(gpus))
	for i := range specs {
		specs[i] = cluster.Spec{Name: fmt.Sprint("node-", i), CPUMilli: 96_000, MemoryBytes: 1 << 40}
		for k := range gpus[i] {
			specs[i].GPUs = append(specs[i].GPUs, gpu.GPU{Index: k, UUID: fmt.Sprint(i, "-", k), Product: "NVIDIA A100-SXM4-80GB", MemoryBytes: 80 << 30, Healthy: true})
		}
	}
	s, err := cluster.New(specs)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// job makes a job of pods with so many GPUs each.
func job(name string, at time.Duration, pods int, gpus int32, run time.Duration) *forecast.Job {
	return &forecast.Job{
		Name: name, At: at, Template: queue.Template{Name: fmt.Sprint(pods, "x", gpus, run)}, Pods: pods, Run: run,
		GPUs: float64(pods) * float64(gpus), Request: cluster.Request{GPUs: gpus, MilliGPU: cluster.Whole},
	}
}

// begins runs jobs to their ends, and returns when each started and was promised to.
func begins(t testing.TB, s *cluster.Snapshot, rules forecast.Rules, jobs []*forecast.Job) (started, promised map[string]time.Duration) {
	t.Helper()
	return beginsWith(t, s, rules, queue.NewRunTimes(), jobs)
}

// beginsWith is begins with run times that are known.
func beginsWith(t testing.TB, s *cluster.Snapshot, rules forecast.Rules, times *queue.RunTimes, jobs []*forecast.Job) (started, promised map[string]time.Duration) {
	t.Helper()
	line := forecast.New(s, placement.NewBestFit, rules, times)
	started, promised = map[string]time.Duration{}, map[string]time.Duration{}
	line.Started = func(j *forecast.Job) { started[j.Name] = line.Now() }
	line.Promised = func(j *forecast.Job, at time.Duration) { promised[j.Name] = at }
	rest := jobs
	for {
		end, runs := line.Next()
		var err error
		switch {
		case runs && (len(rest) == 0 || end <= rest[0].At):
			err = line.Step()
		case len(rest) > 0:
			err = line.Arrive(rest[0])
			rest = rest[1:]
		default:
			return started, promised
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestJobsPassOneThatWaitsOnlyIfItIsNotDelayed(t *testing.T) {
	jobs := func() []*forecast.Job {
		return []*forecast.Job{
			job("runs", 0, 1, 4, 4*time.Hour),
			job("whole", time.Minute, 1, 8, time.Hour),
			job("short", 2*time.Minute, 1, 2, time.Hour),
			job("long", 3*time.Minute, 1, 2, 9*time.Hour),
		}
	}
	for _, c := range []struct {
		name  string
		rules forecast.Rules
		want  map[string]time.Duration
	}{
		{"strictly in order", forecast.Rules{Strict: true, Exact: true}, map[string]time.Duration{
			"runs": 0, "whole": 4 * time.Hour, "short": 5 * time.Hour, "long": 5 * time.Hour,
		}},
		{"whatever fits", forecast.Rules{Exact: true}, map[string]time.Duration{
			"runs": 0, "whole": 9*time.Hour + 3*time.Minute, "short": 2 * time.Minute, "long": 3 * time.Minute,
		}},
		{"with a reservation", forecast.Rules{Exact: true, Reservations: 1}, map[string]time.Duration{
			"runs": 0, "whole": 4 * time.Hour, "short": 2 * time.Minute, "long": 5 * time.Hour,
		}},
	} {
		got, promised := begins(t, nodes(t, 1), c.rules, jobs())
		for name, want := range c.want {
			if got[name] != want {
				t.Errorf("%s: %s starts at %v, want %v", c.name, name, got[name], want)
			}
		}
		if at, had := promised["whole"]; had != (c.rules.Reservations > 0) || had && at != 4*time.Hour {
			t.Errorf("%s: whole was promised %v", c.name, at)
		}
	}
}

func TestAJobBesideAReservationMayRunLonger(t *testing.T) {
	got, _ := begins(t, nodes(t, 1), forecast.Rules{Exact: true, Reservations: 1}, []*forecast.Job{
		job("runs", 0, 1, 6, 4*time.Hour),
		job("most", time.Minute, 1, 6, time.Hour),
		job("beside", 2*time.Minute, 1, 2, 9*time.Hour),
	})
	if got["most"] != 4*time.Hour || got["beside"] != 2*time.Minute {
		t.Errorf("starts: %v", got)
	}
}

func TestPodsOfAJobStartTogether(t *testing.T) {
	got, promised := begins(t, nodes(t, 2), forecast.Rules{Exact: true, Reservations: 1}, []*forecast.Job{
		job("left", 0, 1, 4, 2*time.Hour),
		job("right", 0, 1, 8, 5*time.Hour),
		job("gang", time.Minute, 2, 8, time.Hour),
		job("early", 2*time.Minute, 1, 4, 3*time.Hour),
		job("late", 3*time.Minute, 1, 4, 30*time.Hour),
	})
	if got["gang"] != 5*time.Hour || promised["gang"] != 5*time.Hour || got["early"] != 2*time.Minute || got["late"] != 6*time.Hour {
		t.Errorf("starts: %v, promised: %v", got, promised)
	}
}

// drawn draws jobs of all sizes; some of them are gangs.
func drawn(rng *rand.Rand, count int) []*forecast.Job {
	var out []*forecast.Job
	for i := range count {
		size, pods := []int32{1, 1, 1, 2, 4, 8}[rng.Intn(6)], []int{1, 1, 1, 2, 3}[rng.Intn(5)]
		j := job(fmt.Sprint("j", i), time.Duration(rng.Intn(count*300))*time.Second, pods, size, time.Duration(1+rng.Intn(40000))*time.Second)
		j.Template.Name = fmt.Sprint(pods, "x", size)
		out = append(out, j)
	}
	slices.SortStableFunc(out, func(a, b *forecast.Job) int { return cmp.Compare(a.At, b.At) })
	return out
}

// TestNobodyStartsLaterThanPromised holds where run times are known and the order does not change.
func TestNobodyStartsLaterThanPromised(t *testing.T) {
	for seed := range int64(30) {
		rng := rand.New(rand.NewSource(seed))
		jobs := drawn(rng, 150)
		for i, j := range jobs { // no two are alike: those of one line wait for each other
			j.Template.Name = fmt.Sprint(i)
		}
		started, promised := begins(t, nodes(t, 3), forecast.Rules{Exact: true, Reservations: 1 + int(seed%4)}, jobs)
		if len(started) != len(jobs) || len(promised) == 0 {
			t.Fatalf("seed %d: %d of %d started, %d were promised", seed, len(started), len(jobs), len(promised))
		}
		for name, at := range promised {
			if started[name] > at+time.Microsecond { // what is left of a promise is looked at a nanosecond after it
				t.Errorf("seed %d: %s was promised %v and started at %v", seed, name, at, started[name])
			}
		}
	}
}

// TestALimitThatHoldsBreaksNoPromise has jobs of which all before ran as long as they may, and which run for a part of that.
func TestALimitThatHoldsBreaksNoPromise(t *testing.T) {
	for seed := range int64(20) {
		rng := rand.New(rand.NewSource(seed))
		jobs, times := drawn(rng, 150), queue.NewRunTimes()
		for i, j := range jobs {
			j.Template.Name = fmt.Sprint(i)
			j.Limit = j.Run + time.Duration(rng.Int63n(int64(j.Run)))
			for range 5 {
				times.Ended(j.Template, j.Limit)
			}
		}
		started, promised := beginsWith(t, nodes(t, 3), forecast.Rules{Reservations: 1 + int(seed%4)}, times, jobs)
		if len(started) != len(jobs) || len(promised) == 0 {
			t.Fatalf("seed %d: %d of %d started, %d were promised", seed, len(started), len(jobs), len(promised))
		}
		for name, at := range promised {
			if started[name] > at+time.Microsecond {
				t.Errorf("seed %d: %s was promised %v and started at %v", seed, name, at, started[name])
			}
		}
	}
}

// TestWithoutReservationsWhatFitsStarts compares with a list that is tried from its beginning whenever something happens.
func TestWithoutReservationsWhatFitsStarts(t *testing.T) {
	for seed := range int64(20) {
		jobs := drawn(rand.New(rand.NewSource(seed)), 200)
		gangs := 0
		for i, j := range jobs {
			if j.Template.Name = fmt.Sprint(i); j.Pods > 1 {
				gangs++
			}
		}
		got, _ := begins(t, nodes(t, 3), forecast.Rules{Exact: true}, jobs)
		want := slow(t, nodes(t, 3), jobs)
		if gangs < 20 {
			t.Fatalf("seed %d: %d gangs", seed, gangs)
		}
		for _, j := range jobs {
			if got[j.Name] != want[j.Name] {
				t.Fatalf("seed %d: %s starts at %v, want %v", seed, j.Name, got[j.Name], want[j.Name])
			}
		}
	}
}

// slow is the obvious way to run a queue in order of arrival, where all pods of a job start or none.
func slow(t *testing.T, s *cluster.Snapshot, jobs []*forecast.Job) map[string]time.Duration {
	type held struct {
		ends   time.Duration
		name   string
		placed []cluster.Placement
	}
	place := placement.NewIndex(s, placement.NewBestFit(placement.Setup{Cluster: s}), nil, nil)
	began, waits, runs, rest := map[string]time.Duration{}, []*forecast.Job{}, []held{}, jobs
	for len(rest)+len(runs) > 0 {
		slices.SortFunc(runs, func(a, b held) int { return cmp.Or(cmp.Compare(a.ends, b.ends), cmp.Compare(a.name, b.name)) })
		var now time.Duration
		if len(runs) > 0 && (len(rest) == 0 || runs[0].ends <= rest[0].At) {
			now = runs[0].ends
			for k := range runs[0].placed {
				if err := s.Release(&runs[0].placed[k]); err != nil {
					t.Fatal(err)
				}
			}
			runs = runs[1:]
		} else {
			now, waits = rest[0].At, append(waits, rest[0])
			rest = rest[1:]
		}
		waits = slices.DeleteFunc(waits, func(j *forecast.Job) bool {
			var all []cluster.Placement
			m := s.Mark()
			for range j.Pods {
				p, ok, err := placement.Place(place, &j.Request)
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					s.RollBack(m)
					return false
				}
				all = append(all, p)
			}
			s.Keep(m)
			began[j.Name] = now
			runs = append(runs, held{now + j.Run, j.Name, all})
			return true
		})
	}
	return began
}

func TestAJobThatLosesItsNodeWaitsInItsOldPlace(t *testing.T) {
	line := forecast.New(nodes(t, 2), placement.NewBestFit, forecast.Rules{}, queue.NewRunTimes())
	var told []string
	line.Started = func(j *forecast.Job) { told = append(told, fmt.Sprint(j.Name, " starts at ", line.Now())) }
	line.Ended = func(j *forecast.Job, lost bool) {
		told = append(told, fmt.Sprint(j.Name, map[bool]string{true: " is lost", false: " ends"}[lost], " at ", line.Now()))
	}
	step := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, j := range []*forecast.Job{job("a", 0, 1, 8, 5*time.Hour), job("b", 0, 1, 8, 8*time.Hour), job("c", time.Minute, 1, 8, 5*time.Hour)} {
		step(line.Arrive(j))
	}
	step(line.Fail(0, time.Hour))
	step(line.Return(0, 2*time.Hour))
	for line.Running() > 0 {
		step(line.Step())
	}
	want := []string{
		"a starts at 0s", "b starts at 0s", "a is lost at 1h0m0s", "a starts at 2h0m0s", "a ends at 7h0m0s", "c starts at 7h0m0s", "b ends at 8h0m0s", "c ends at 12h0m0s",
	}
	if !slices.Equal(told, want) {
		t.Errorf("got %q\nwant %q", told, want)
	}
}

func TestAForkWithTheRealRunTimesTellsTheRealStart(t *testing.T) {
	for seed := range int64(10) {
		jobs := drawn(rand.New(rand.NewSource(seed)), 120)
		for _, rules := range []forecast.Rules{{Exact: true}, {Exact: true, Reservations: 2}, {Exact: true, Order: forecast.Slowdown, Reservations: 4}} {
			started, _ := begins(t, nodes(t, 3), rules, jobs)
			line, runs := forecast.New(nodes(t, 3), placement.NewBestFit, rules, queue.NewRunTimes()), map[string]bool{}
			line.Started = func(j *forecast.Job) { runs[j.Name] = true }
			for i, j := range jobs {
				for end, ok := line.Next(); ok && end <= j.At; end, ok = line.Next() {
					if err := line.Step(); err != nil {
						t.Fatal(err)
					}
				}
				if err := line.Arrive(j); err != nil {
					t.Fatal(err)
				}
				if i%20 != 19 || runs[j.Name] {
					continue
				}
				ahead := line.Fork(placement.NewBestFit, func(j *forecast.Job, ran time.Duration) time.Duration { return j.Run - ran })
				at, ok, err := ahead.StartOf(j.Name, jobs[i+1:], 1000*time.Hour)
				if err != nil || !ok || rules.Reservations == 0 && at != started[j.Name] { // reservations may be made for other nodes
					t.Errorf("seed %d, %+v: %s starts at %v (%v, %v) in the copy and at %v", seed, rules, j.Name, at, ok, err, started[j.Name])
				}
			}
		}
	}
}

func TestEstimatesAreCorrectedByThoseOfJobsThatHaveStarted(t *testing.T) {
	a := forecast.NewAccuracy()
	for i := range 20 {
		if _, ok := a.Corrected(time.Hour, 1, 0.9); ok {
			t.Fatalf("corrected after %d", i)
		}
		a.Came(time.Hour, time.Hour+time.Duration(i)*time.Minute, 1)
	}
	p90, ok := a.Corrected(time.Hour, 1, 0.9)
	if !ok || p90 < 77*time.Minute || p90 > 79*time.Minute {
		t.Errorf("corrected to %v, %v", p90, ok)
	}
	if p90, ok := a.Corrected(10*time.Hour, 1, 0.9); !ok || p90 < 770*time.Minute || p90 > 790*time.Minute {
		t.Errorf("a wait of which there are too few is corrected to %v, %v", p90, ok)
	}
	if p90, ok := a.Corrected(time.Hour, 8, 0.9); ok {
		t.Errorf("that of a large job is corrected to %v", p90)
	}
}
