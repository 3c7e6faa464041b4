package store_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"golang.org/x/sys/unix"

	"berth.dev/berth/metrics/store"
)

// curve is how one of the twelve series of a GPU that runs goes on.
var curves = []struct {
	name string
	next func(rnd *rand.Rand, i int, was float64) float64
}{
	{"DCGM_FI_DEV_GPU_UTIL", func(rnd *rand.Rand, _ int, _ float64) float64 { return 85 + float64(rnd.IntN(15)) }},
	{"DCGM_FI_DEV_MEM_COPY_UTIL", func(rnd *rand.Rand, _ int, _ float64) float64 { return 40 + float64(rnd.IntN(10)) }},
	{"DCGM_FI_DEV_FB_USED", func(rnd *rand.Rand, i int, was float64) float64 {
		return max(20000, was) + float64(i%40/39*rnd.IntN(64))
	}},
	{"DCGM_FI_DEV_FB_FREE", func(rnd *rand.Rand, i int, was float64) float64 {
		return max(20000, was) - float64(i%40/39*rnd.IntN(64))
	}},
	{"DCGM_FI_DEV_GPU_TEMP", func(rnd *rand.Rand, i int, was float64) float64 { return max(60, was) + float64(i%8/7*(rnd.IntN(3)-1)) }},
	{"DCGM_FI_DEV_SM_CLOCK", func(rnd *rand.Rand, _ int, _ float64) float64 { return 1410 - 15*float64(rnd.IntN(8)/6) }},
	{"DCGM_FI_DEV_MEM_CLOCK", func(*rand.Rand, int, float64) float64 { return 1215 }},
	{"DCGM_FI_DEV_XID_ERRORS", func(*rand.Rand, int, float64) float64 { return 0 }},
	{"berth_gpu_held", func(*rand.Rand, int, float64) float64 { return 1 }},
	{"DCGM_FI_DEV_POWER_USAGE", func(rnd *rand.Rand, _ int, _ float64) float64 { return math.Round(1400+200*rnd.Float64()) / 4 }},
	{"DCGM_FI_PROF_GR_ENGINE_ACTIVE", func(rnd *rand.Rand, _ int, _ float64) float64 {
		return math.Round((0.85+0.1*rnd.Float64())*1024) / 1024
	}},
	{"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", func(rnd *rand.Rand, _ int, was float64) float64 {
		return was + 1024*math.Round(5000+1000*rnd.Float64())
	}},
}

// day fills a store with a day of so many GPUs.
func day(gpus int) (s *store.Store, end time.Time) {
	s = store.New(store.Options{})
	rnd := rand.New(rand.NewPCG(1, 2))
	batch := make([]store.Sample, 0, gpus*len(curves))
	for gpu := range gpus {
		for _, c := range curves {
			r, _ := s.Series(labels.FromStrings("__name__", c.name, "job", "gpu-exporter", "instance", fmt.Sprintf("gpu-node-%d:9400", gpu/8), "gpu", fmt.Sprint(gpu%8),
				"UUID", fmt.Sprintf("GPU-%08d-0000-4000-8000-000000000000", gpu), "hostname", fmt.Sprintf("gpu-node-%d", gpu/8), "modelName", "NVIDIA A100-SXM4-40GB",
				"namespace", fmt.Sprintf("team-%d", gpu%20), "pod", fmt.Sprintf("training-%d-x7k2p", gpu), "container", "trainer"))
			batch = append(batch, store.Sample{Series: r})
		}
	}
	for i := range 5760 {
		end = began.Add(time.Duration(i) * 15 * time.Second)
		for j := range batch {
			batch[j].Value = curves[j%len(curves)].next(rnd, i, batch[j].Value)
		}
		s.Append(end, batch)
	}
	return s, end
}

// resident is how much memory of the machine this process has, in bytes.
func resident(b *testing.B) int64 {
	raw, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Skip("only Linux says what a process takes")
	}
	var size, pages int64
	if _, err := fmt.Fscan(strings.NewReader(string(raw)), &size, &pages); err != nil {
		b.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// anonymous is resident without the pages of the program's file: the parts of it that run first are not growth of what `berth up` has.
func anonymous(b *testing.B) int64 {
	raw, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Skip("only Linux says what a process takes")
	}
	_, rest, _ := strings.Cut(string(raw), "RssAnon:")
	var kib int64
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		b.Fatal(err)
	}
	return kib << 10
}

// spent is the CPU time of this process.
func spent(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkSmallDay is a day of as many series as `berth up` has with its default fleet: what it takes.
func BenchmarkSmallDay(b *testing.B) {
	runtime.GC()
	before := anonymous(b)
	s, _ := day(174)
	runtime.GC()
	got := s.Stats()
	b.ReportMetric(float64(got.ChunkBytes+got.HeadBytes)/1e6, "chunk-MB")
	b.ReportMetric(float64(anonymous(b)-before)/1e6, "resident-MB")
	b.ReportMetric(0, "ns/op")
	runtime.KeepAlive(s)
}

// BenchmarkDay is a day of 1,000 GPUs with 12 series each at 15 seconds: what it takes, and what queries of it take.
func BenchmarkDay(b *testing.B) {
	runtime.GC()
	before := resident(b)
	s, end := day(1000)
	runtime.GC()
	got := s.Stats()
	grew := resident(b) - before
	b.Logf("%d series, %d chunks: %.0f MB of slabs, %.1f of heads; the process grew by %.0f MB",
		got.Series, got.Chunks, float64(got.ChunkBytes)/1e6, float64(got.HeadBytes)/1e6, float64(grew)/1e6)
	b.Run("stored", func(b *testing.B) {
		b.ReportMetric(float64(got.ChunkBytes+got.HeadBytes)/1e6, "chunk-MB")
		b.ReportMetric(float64(grew)/1e6, "resident-MB")
		b.ReportMetric(0, "ns/op")
	})
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 5e7, Timeout: time.Minute})
	for _, q := range []struct {
		name, expr string
		span       time.Duration
	}{
		{"an instant of 1000 series", "sum(DCGM_FI_DEV_GPU_UTIL)", 0},
		{"an instant of all series", `sum({job="gpu-exporter"})`, 0},
		{"a day of one metric", "sum(DCGM_FI_DEV_GPU_UTIL)", 24 * time.Hour},
		{"a day of a rate", "sum(rate(DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION[5m]))", 24 * time.Hour},
	} {
		b.Run(q.name, func(b *testing.B) {
			began := spent(b)
			for b.Loop() {
				var query promql.Query
				var err error
				if q.span == 0 {
					query, err = engine.NewInstantQuery(context.Background(), s, nil, q.expr, end)
				} else {
					query, err = engine.NewRangeQuery(context.Background(), s, nil, q.expr, end.Add(-q.span), end, time.Minute)
				}
				if err != nil {
					b.Fatal(err)
				}
				if got := query.Exec(context.Background()); got.Err != nil {
					b.Fatal(got.Err)
				}
				query.Close()
			}
			b.ReportMetric(float64((spent(b)-began).Microseconds())/1000/float64(b.N), "cpu-ms/op")
		})
	}
}
