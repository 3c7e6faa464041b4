package server

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"k8s.io/component-base/metrics/legacyregistry"

	"berth.dev/berth/api"
	"berth.dev/berth/scheduler/nodeindex"
)

// BenchmarkBackfill counts how often the scheduler searches for reservations while pods of a GPU each come and go on a full
// cluster with 1,000 queues, beside gangs of two whole nodes that have quota and wait for room, and others that wait for quota. Run it
// with -benchtime 2000x or so.
func BenchmarkBackfill(b *testing.B) {
	quietly()
	for _, c := range []struct{ nodes, room, quota int }{{100, 100, 100}, {1000, 1000, 9000}, {1000, 9000, 1000}} {
		b.Run(fmt.Sprintf("%d nodes, %d gangs wait for room and %d for quota", c.nodes, c.room, c.quota), func(b *testing.B) {
			if b.N == 1 {
				return // the framework tries this first
			}
			l := &lab{cluster: newCluster(b, 1)}
			l.slow, l.room, l.reserve = 1, 10_000_000, time.Second
			for i := range c.nodes {
				l.put("nodes", t4s(b, fmt.Sprintf("n%d", i), 8))
			}
			l.start()
			defer func() { l.stop() }()
			nodeindex.RegisterPreemptions()
			l.useQueues(1_000_000, 0)
			began := time.Now()
			var running []string
			come := func(i int) {
				p := inQueue(gpuPod(fmt.Sprintf("load-%d", i), 100, 1), "busy", i)
				p.Annotations = map[string]string{api.AnnotationMaxRunTime: fmt.Sprintf("%dm", 1+i%240)}
				l.put("pods", p)
				running = append(running, p.Name)
			}
			full := 8 * c.nodes
			for i := range full {
				come(i)
			}
			l.await(b, func() bool { return l.count(&l.given) == full })
			for i := range c.room + c.quota {
				tree := "busy"
				if i >= c.room {
					tree = "full"
				}
				for k := range 2 {
					p := inQueue(gpuPod(fmt.Sprintf("gang-%d-%d", i, k), 100, 8), tree, i)
					p.Annotations = map[string]string{api.AnnotationGang: fmt.Sprint("g", i), api.AnnotationGangMinCount: "2"}
					l.put("pods", p)
				}
			}
			for was, now := -1, 0; was != now; { // until all were tried
				time.Sleep(3 * time.Second)
				was, now = now, l.count(&l.patches)
			}
			b.Logf("ready after %v", time.Since(began).Round(time.Second))
			chance := rand.New(rand.NewPCG(1, 2))
			searches, seconds := reserved(b)
			cpu, churn := used(b), time.Now()
			for i := range b.N {
				k := chance.IntN(len(running))
				name := running[k]
				running[k] = running[len(running)-1]
				running = running[:len(running)-1]
				l.end(name, gpuPod(name, 100, 1).UID)
				come(full + i)
				at := time.Now()
				given := l.count(&l.given) // what ends after what is kept begins waits for other GPUs
				l.await(b, func() bool { return l.count(&l.given) > given || time.Since(at) > 100*time.Millisecond })
			}
			n, s := reserved(b)
			b.ReportMetric(float64(n-searches)/float64(b.N), "searches/op")
			b.ReportMetric(float64(n-searches)/time.Since(churn).Seconds(), "searches/s")
			b.ReportMetric(1e6*(s-seconds)/float64(b.N), "search-µs/op")
			b.ReportMetric(float64((used(b)-cpu).Microseconds())/float64(b.N), "cpu-µs/op")
			b.ReportMetric(float64(l.count(&l.given)-full)/float64(b.N), "bound/op")
		})
	}
}

// reserved is how often reservations were searched for, and how long that took.
func reserved(b *testing.B) (count uint64, seconds float64) {
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		b.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "berth_scheduler_reservation_seconds" {
			h := f.GetMetric()[0].GetHistogram()
			return h.GetSampleCount(), h.GetSampleSum()
		}
	}
	return 0, 0
}
