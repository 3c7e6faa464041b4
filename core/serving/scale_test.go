package serving_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"berth.dev/berth/core/serving"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func scale(least, most int) serving.Scale {
	return serving.Scale{Min: least, Max: most, Metric: serving.ByConcurrency, Target: 10, IdleAfter: 5 * time.Minute, DownAfter: 2 * time.Minute}
}

func stopping(s serving.Scale, after time.Duration) serving.Scale {
	s.StopAfter = after
	return s
}

func TestWant(t *testing.T) {
	type step struct {
		after   time.Duration // since the step before
		has     serving.Replicas
		traffic *serving.Traffic
		want    int
		why     string
	}
	at := func(stable, quick float64) *serving.Traffic {
		return &serving.Traffic{InFlight: 1, Stable: stable, Panic: quick, Since: start, Last: start}
	}
	for _, tt := range []struct {
		name  string
		scale serving.Scale
		steps []step
	}{
		{"without counts a service keeps its minimum", scale(2, 5), []step{{0, serving.Replicas{}, nil, 2, "minReplicas"}}},
		// KServe's raw mode makes 0 into 1 (kserve#3514). Here that happens only where nothing could start the first replica, and is said.
		{"without counts zero would never end, so one replica stays", scale(0, 5), []step{{0, serving.Replicas{}, nil, 1, "requests are not counted"}}},
		{"while some requests are not counted, none goes, and one may come", scale(0, 5), []step{
			{0, serving.Replicas{}, &serving.Traffic{Partial: true}, 0, "no requests"},
			{time.Hour, serving.Replicas{Wanted: 2, Ready: 2}, &serving.Traffic{Last: start, Partial: true}, 2, "some requests are not counted at the moment"},
			{5 * time.Minute, serving.Replicas{Wanted: 2, Ready: 2}, &serving.Traffic{Last: start}, 0, "no requests for 5m0s"},
			{time.Second, serving.Replicas{}, &serving.Traffic{Held: 1, Partial: true}, 1, "1.0 requests at once"},
		}},
		{"zero is honored (kserve#3514)", scale(0, 5), []step{
			{0, serving.Replicas{}, &serving.Traffic{}, 0, "no requests"},
			{time.Hour, serving.Replicas{}, &serving.Traffic{}, 0, "no requests"},
		}},
		{"the first request starts a replica", scale(0, 5), []step{{0, serving.Replicas{}, &serving.Traffic{Held: 1}, 1, "1.0 requests at once"}}},
		{"the last replica goes when nothing was asked for a time", scale(0, 5), []step{
			{0, serving.Replicas{Wanted: 1, Ready: 1}, at(0.1, 0.1), 1, ""},
			{time.Minute, serving.Replicas{Wanted: 1, Ready: 1}, &serving.Traffic{Last: start}, 1, "not long ago"},
			{4 * time.Minute, serving.Replicas{Wanted: 1, Ready: 1}, &serving.Traffic{Last: start}, 0, "no requests for 5m0s"},
		}},
		{"averages of requests that have ended do not keep the last replica, or start one", scale(0, 5), []step{
			{0, serving.Replicas{Wanted: 1, Ready: 1}, at(0.5, 0), 1, ""},
			{5 * time.Minute, serving.Replicas{Wanted: 1, Ready: 1}, &serving.Traffic{Last: start, Stable: 0.03}, 0, "no requests for 5m0s"},
			{time.Second, serving.Replicas{}, &serving.Traffic{Last: start, Stable: 0.03}, 0, "no requests"},
		}},
		{"a request that was refused at once starts a replica too", scale(0, 5), []step{
			{0, serving.Replicas{}, &serving.Traffic{Last: start}, 1, ""},
		}},
		{"a new process does not know of requests before it, and waits", scale(0, 5), []step{
			{0, serving.Replicas{Wanted: 1, Ready: 1}, &serving.Traffic{Since: start}, 1, "not long ago"},
		}},
		// A service that waited for a GPU node was scaled to zero before it came (kserve#1247).
		{"a replica that waits for its GPU is kept while requests are held (kserve#1247)", scale(0, 5), []step{
			{0, serving.Replicas{}, &serving.Traffic{Held: 3, Last: start}, 1, ""},
			{time.Hour, serving.Replicas{Wanted: 1}, &serving.Traffic{Held: 1, Last: start}, 1, "1 held until a replica is ready"},
		}},
		{"the time in which a replica starts is not idle", scale(0, 5), []step{
			{0, serving.Replicas{}, &serving.Traffic{Held: 1, Last: start}, 1, ""},
			{time.Minute, serving.Replicas{Wanted: 1}, &serving.Traffic{Last: start.Add(time.Minute)}, 1, "not long ago"}, // who asked has given up
			{8 * time.Minute, serving.Replicas{Wanted: 1}, &serving.Traffic{Last: start.Add(time.Minute)}, 1, "not long ago"},
			{time.Second, serving.Replicas{Wanted: 1, Ready: 1}, &serving.Traffic{Last: start.Add(time.Minute)}, 1, "not long ago"},
			{time.Minute, serving.Replicas{Wanted: 1}, &serving.Traffic{Last: start.Add(time.Minute)}, 1, "not long ago"},
			{4 * time.Minute, serving.Replicas{Wanted: 1, Ready: 1}, &serving.Traffic{Last: start.Add(time.Minute)}, 0, "no requests for 5m0s"},
		}},
		{"a replica that does not become ready goes all the same", scale(0, 5), []step{
			{0, serving.Replicas{}, &serving.Traffic{Held: 1, Last: start}, 1, ""},
			{9 * time.Minute, serving.Replicas{Wanted: 1}, &serving.Traffic{Last: start}, 1, "not long ago"},
			{time.Minute, serving.Replicas{Wanted: 1}, &serving.Traffic{Last: start}, 0, "no requests for 10m0s"},
		}},
		{"a policy for idle workloads takes the last replicas whatever the minimum is, and the first request starts all of them", stopping(scale(2, 5), time.Hour), []step{
			{0, serving.Replicas{New: true}, &serving.Traffic{}, 2, "minReplicas"},
			{time.Minute, serving.Replicas{Wanted: 2}, &serving.Traffic{}, 2, "minReplicas"},
			{time.Minute, serving.Replicas{Wanted: 2, Ready: 2}, &serving.Traffic{Last: start.Add(time.Minute), Stable: 0.1}, 2, "minReplicas"},
			{59 * time.Minute, serving.Replicas{Wanted: 2, Ready: 2}, &serving.Traffic{Last: start.Add(time.Minute)}, 2, "minReplicas"},
			{time.Minute, serving.Replicas{Wanted: 2, Ready: 2}, &serving.Traffic{Last: start.Add(time.Minute)}, 0, "no requests for 1h0m0s"},
			{time.Hour, serving.Replicas{}, &serving.Traffic{}, 0, "no requests"}, // of a process that has just started
			{time.Second, serving.Replicas{}, &serving.Traffic{Held: 1}, 2, "minReplicas"},
			{time.Second, serving.Replicas{Wanted: 2}, &serving.Traffic{Held: 1}, 2, "1 held until a replica is ready"},
		}},
		{"a policy for idle workloads does not lengthen what the service says itself", stopping(scale(0, 5), time.Hour), []step{
			{0, serving.Replicas{Wanted: 1, Ready: 1}, &serving.Traffic{Last: start}, 1, ""},
			{5 * time.Minute, serving.Replicas{Wanted: 1, Ready: 1}, &serving.Traffic{Last: start}, 0, "no requests for 5m0s"},
		}},
		{"without counts a policy for idle workloads takes nothing", stopping(scale(2, 5), time.Minute), []step{
			{time.Hour, serving.Replicas{Wanted: 2, Ready: 2}, nil, 2, "requests are not counted"},
		}},
		{"the average of a minute counts", scale(1, 5), []step{{0, serving.Replicas{Wanted: 3, Ready: 3}, at(25, 25), 3, "25.0 requests at once, at 10 a replica"}}},
		{"never more than the maximum", scale(1, 5), []step{{0, serving.Replicas{Wanted: 1, Ready: 1}, at(999, 999), 5, ""}}},
		{"a burst is answered at once, and its replicas stay for a time", scale(1, 9), []step{
			{0, serving.Replicas{Wanted: 1, Ready: 1}, at(2, 60), 6, ""},
			{10 * time.Second, serving.Replicas{Wanted: 6, Ready: 6}, at(9, 5), 6, ""},
			{70 * time.Second, serving.Replicas{Wanted: 6, Ready: 6}, at(9, 5), 6, ""},
			{3 * time.Minute, serving.Replicas{Wanted: 6, Ready: 6}, at(9, 5), 1, "minReplicas"},
		}},
		{"fewer are wanted only after a time", scale(1, 9), []step{
			{0, serving.Replicas{Wanted: 4, Ready: 4}, at(40, 40), 4, ""},
			{time.Minute, serving.Replicas{Wanted: 4, Ready: 4}, at(10, 10), 4, ""},
			{time.Minute, serving.Replicas{Wanted: 4, Ready: 4}, at(10, 10), 1, ""},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, now := &serving.History{}, start
			for i, s := range tt.steps {
				now = now.Add(s.after)
				if n, why := h.Want(now, &tt.scale, s.has, s.traffic); n != s.want || !strings.Contains(why, s.why) {
					t.Errorf("step %d: %d (%s), want %d (%s)", i, n, why, s.want, s.why)
				}
			}
		})
	}
}

func TestByRate(t *testing.T) {
	s := scale(1, 9)
	s.Metric, s.Target = serving.ByRate, 100
	n, why := new(serving.History).Want(start, &s, serving.Replicas{Wanted: 1, Ready: 1}, &serving.Traffic{StableRate: 250, PanicRate: 250, Stable: 900, Panic: 900})
	if n != 3 || !strings.Contains(why, "250.0 requests/s, at 100 a replica") {
		t.Errorf("%d (%s), want 3", n, why)
	}
}

// TestWantedProperties holds Want to what must be true whatever the traffic: limits, no replica fewer while requests are held and a
// replica is not ready, none gone while requests are at work, and no step down within DownAfter of a higher need.
func TestWantedProperties(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := scale(r.IntN(3), 1+r.IntN(6))
		if r.IntN(2) == 0 {
			s.StopAfter = time.Duration(1+r.IntN(10)) * time.Minute
		}
		h, now := &serving.History{}, start
		has, last := serving.Replicas{}, time.Time{}
		highest := map[time.Time]int{}
		for range 200 {
			now = now.Add(time.Duration(1+r.IntN(90)) * time.Second)
			tr := &serving.Traffic{Since: start, Last: last}
			if r.IntN(3) > 0 {
				tr.Last, tr.InFlight, tr.Held, tr.Stable, tr.Panic = now, r.IntN(3), r.IntN(3), r.Float64()*60, r.Float64()*60
				last = now
			}
			n, why := h.Want(now, &s, has, tr)
			if most := max(s.Max, s.Min, 1); n < s.Min && (n > 0 || s.StopAfter == 0) || n > max(most, has.Wanted) {
				t.Fatalf("seed %d: %d replicas (%s), with %d to %d", seed, n, why, s.Min, most)
			}
			if after, may := s.ToZero(); n == 0 && has.Wanted > 0 && (!may || now.Sub(tr.Last) < after) {
				t.Fatalf("seed %d: no replicas (%s) %s after a request, and may be %v after %s", seed, why, now.Sub(tr.Last), may, after)
			}
			if tr.InFlight+tr.Held > 0 && n == 0 {
				t.Fatalf("seed %d: no replicas (%s) with %+v", seed, why, tr)
			}
			if tr.Held > 0 && has.Ready < has.Wanted && n < has.Wanted {
				t.Fatalf("seed %d: %d replicas (%s), while %d of %d are ready and %d requests are held", seed, n, why, has.Ready, has.Wanted, tr.Held)
			}
			for at, was := range highest {
				if now.Sub(at) < s.DownAfter && n < min(was, has.Wanted) && n > 0 {
					t.Fatalf("seed %d: %d replicas (%s), %s after %d were needed", seed, n, why, now.Sub(at), was)
				}
			}
			highest[now] = min(int(math.Ceil(tr.Stable/s.Target)), max(s.Max, s.Min, 1))
			has.Wanted = n
			has.Ready = r.IntN(n + 1)
		}
	}
}
