package nvml_test

import (
	"context"
	"syscall"
	"testing"
	"time"
)

// BenchmarkSamples asks for 8 GPUs with 56 MIG devices over the pipe, and counts
// the CPU of both processes: the child's by what it has used when it is gone.
func BenchmarkSamples(b *testing.B) {
	n := start(b, `
gpus:
- {product: NVIDIA H100 80GB HBM3, count: 8, mig: [1g.10gb, 1g.10gb, 1g.10gb, 1g.10gb, 1g.10gb, 1g.10gb, 1g.10gb]}
loads:
- {gpu: 0, mig: 0, pid: 7, utilization: 0.5, memoryMiB: 1000}
`)
	ctx := context.Background()
	if s, err := n.Snapshot(ctx); err != nil || len(s.GPUs) != 8 {
		b.Fatal(s, err)
	}
	began := cpu(b, syscall.RUSAGE_SELF)
	b.ResetTimer()
	for b.Loop() {
		samples, err := n.Samples(ctx)
		if err != nil || len(samples) != 64 {
			b.Fatal(len(samples), err)
		}
	}
	b.StopTimer()
	here := cpu(b, syscall.RUSAGE_SELF) - began
	before := cpu(b, syscall.RUSAGE_CHILDREN)
	n.stop()
	there := cpu(b, syscall.RUSAGE_CHILDREN) - before // and its start, some ms
	b.ReportMetric(float64(here.Microseconds())/float64(b.N), "parent-cpu-µs/op")
	b.ReportMetric(float64(there.Microseconds())/float64(b.N), "child-cpu-µs/op")
}

func cpu(b *testing.B, who int) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(who, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
