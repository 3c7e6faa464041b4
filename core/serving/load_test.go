package serving_test

import (
	"strings"
	"testing"
	"time"

	"berth.dev/berth/core/serving"
)

// reads are replicas of which all that are ready report a figure.
func reads(at time.Time, wanted int, values ...float64) serving.Replicas {
	l := &serving.Load{At: at}
	for _, v := range values {
		l.Figures = append(l.Figures, serving.Figure{Value: v})
	}
	return serving.Replicas{Wanted: wanted, Ready: len(values), Load: l}
}

func TestReplicasFollowWhatTheyReport(t *testing.T) {
	type step struct {
		after   time.Duration
		has     func(at time.Time) serving.Replicas
		traffic *serving.Traffic
		want    int
		why     string
	}
	by := func(m serving.Metric, least, most int) serving.Scale {
		s := scale(least, most)
		s.Metric, s.Target = m, m.Target()
		return s
	}
	all := func(wanted int, values ...float64) func(time.Time) serving.Replicas {
		return func(at time.Time) serving.Replicas { return reads(at, wanted, values...) }
	}
	missing := func(wanted int, values ...float64) func(time.Time) serving.Replicas {
		return func(at time.Time) serving.Replicas {
			r := reads(at, wanted, values...)
			r.Load.Missing, r.Ready = 1, r.Ready+1
			return r
		}
	}
	works := func(wanted int, waiting, running float64) func(time.Time) serving.Replicas {
		return func(at time.Time) serving.Replicas {
			r := reads(at, wanted, make([]float64, wanted)...)
			for i := range r.Load.Figures {
				r.Load.Figures[i] = serving.Figure{Value: waiting, Running: running}
			}
			return r
		}
	}
	for _, tt := range []struct {
		name  string
		scale serving.Scale
		steps []step
	}{
		{"a busy GPU asks for another one, without a count of requests", by(serving.ByUtilization, 1, 4), []step{
			{0, all(1, 95), nil, 2, "GPUs busy for 95% in all, at 70% a replica"},
			{20 * time.Second, all(2, 95, 95), nil, 3, "GPUs busy for 190% in all"},
		}},
		{"idle GPUs are released after a time", by(serving.ByUtilization, 1, 4), []step{
			{0, all(1, 100), nil, 2, ""},
			{time.Minute, all(2, 10, 10), nil, 2, ""},
			{59 * time.Second, all(2, 10, 10), nil, 2, ""},
			{time.Minute, all(2, 10, 10), nil, 1, "minReplicas"},
		}},
		{"requests that wait in the servers ask for replicas at once", by(serving.ByQueue, 1, 4), []step{
			{0, all(1, 1), nil, 1, "minReplicas"},
			{time.Minute, all(1, 11), nil, 3, "11.0 requests wait in the servers, at 4 a replica"},
		}},
		{"an empty queue ends no replica whose work fills the others", by(serving.ByQueue, 1, 4), []step{
			{0, works(1, 9, 8), nil, 3, ""},
			{2 * time.Minute, works(3, 0, 7), nil, 3, ""},
			{2 * time.Minute, works(3, 0, 7), nil, 3, ""},
			{time.Minute, works(3, 0, 2), nil, 3, "0.0 requests wait in the servers"}, // for DownAfter
			{2 * time.Minute, works(3, 0, 2), nil, 1, "minReplicas"},
		}},
		{"none ends while one is not read, and one may come", by(serving.ByUtilization, 1, 4), []step{
			{0, missing(2, 20), nil, 2, ""},
			{time.Hour, missing(2, 20), nil, 2, ""},
			{time.Hour, missing(2, 180), nil, 3, ""},
			{time.Hour, func(time.Time) serving.Replicas { return serving.Replicas{Wanted: 3, Ready: 3} }, nil, 3, ""},
		}},
		{"after a start nothing is ended by the first figure", by(serving.ByUtilization, 1, 4), []step{
			{0, all(4, 1, 1, 1, 1), nil, 4, ""},
			{30 * time.Second, all(4, 1, 1, 1, 1), nil, 4, ""},
			{3 * time.Minute, all(4, 1, 1, 1, 1), nil, 1, ""},
		}},
		{"an old figure is none", by(serving.ByUtilization, 1, 4), []step{
			{0, func(at time.Time) serving.Replicas { return reads(at.Add(-2*serving.StableWindow), 1, 300) }, nil, 1, "minReplicas"},
		}},
		{"zero needs a count of requests, and the status says so", by(serving.ByQueue, 0, 4), []step{
			{0, all(1, 0), nil, 1, serving.Uncounted},
			{10 * time.Second, all(1, 20), nil, 4, ""},
		}},
		{"with a count there are none while nothing is asked, and the first request starts one", by(serving.ByUtilization, 0, 4), []step{
			{0, all(1, 0), &serving.Traffic{Last: start}, 1, ""},
			{6 * time.Minute, all(1, 0), &serving.Traffic{Last: start}, 0, "no requests for 5m0s"},
			{time.Second, func(time.Time) serving.Replicas { return serving.Replicas{} }, &serving.Traffic{Held: 1}, 1, ""},
		}},
		{"a replica that waits for its GPU is kept while requests are held", by(serving.ByQueue, 1, 4), []step{
			{0, all(1, 11), &serving.Traffic{InFlight: 12}, 3, ""},
			{time.Hour, all(3, 0), &serving.Traffic{Held: 1}, 3, "1 held until a replica is ready"},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, now := &serving.History{}, start
			for i, s := range tt.steps {
				now = now.Add(s.after)
				if n, why := h.Want(now, &tt.scale, s.has(now), s.traffic); n != s.want || !strings.Contains(why, s.why) {
					t.Errorf("step %d: %d (%s), want %d (%s)", i, n, why, s.want, s.why)
				}
			}
		})
	}
}

func TestRequestsAreCountedWhereTheyDecide(t *testing.T) {
	for _, tt := range []struct {
		name        string
		metric      serving.Metric
		least, most int
		follows     bool
	}{
		{"requests decide", serving.ByRate, 1, 2, true},
		{"replicas report what decides", serving.ByQueue, 1, 2, false},
		{"so they do, and the last one goes without requests", serving.ByUtilization, 0, 2, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := scale(tt.least, tt.most)
			if s.Metric = tt.metric; s.Follows() != tt.follows {
				t.Errorf("requests are to be counted: %v, want %v", s.Follows(), tt.follows)
			}
		})
	}
}
