package allocation_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/core/gpu"
)

// crowd is a node on which 200 pods hold devices, as the kubelet's checkpoint
// has them, and one more that is admitted.
func crowd(b *testing.B) (*world, *v1.Pod) {
	b.Helper()
	w := newWorld(b, product(b, "NVIDIA B200", 8))
	w.settings.Strategy, w.settings.Replicas = gpu.SharingTimeSlicing, map[string]int{whole: 26}
	w.start()
	var pods []*v1.Pod
	bytes := w.snapshot.GPUs[0].MemoryBytes
	for i := range 201 {
		p := commits(pod(fmt.Sprintf("p%d", i), asks("c", whole, 1)), map[string][]string{
			"c": {fmt.Sprintf("%s %d %d", w.uuid(i%8), 1000/26, bytes)},
		})
		w.pods.put(p, true)
		w.held[held{string(p.UID), "c", whole}] = answer{[]string{fmt.Sprintf("gpu-%d", i)}, nil}
		pods = append(pods, p)
	}
	for h, a := range w.held {
		out, err := w.node.Allocate(b.Context(), whole, [][]string{a.ids})
		if err != nil {
			b.Fatal(err)
		}
		w.held[h] = answer{a.ids, out.ContainerResponses[0]}
	}
	w.checkpoint()
	for _, p := range pods[:200] {
		if err := w.node.PreStart(b.Context(), whole, w.held[held{string(p.UID), "c", whole}].ids); err != nil {
			b.Fatal(err)
		}
	}
	return w, pods[200]
}

// timed runs one call after another and reports the 99th percentile.
func timed(b *testing.B, before, call func()) {
	b.Helper()
	var took []time.Duration
	for b.Loop() {
		b.StopTimer()
		before()
		b.StartTimer()
		start := time.Now()
		call()
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}

func BenchmarkAllocate(b *testing.B) {
	w, p := crowd(b)
	ids := w.held[held{string(p.UID), "c", whole}].ids
	timed(b, func() {}, func() {
		if _, err := w.node.Allocate(context.Background(), whole, [][]string{ids}); err != nil {
			b.Fatal(err)
		}
	})
}

// A pod's first start: the checkpoint is new, the pod is held, the spec written.
func BenchmarkPreStart(b *testing.B) {
	w, p := crowd(b)
	ids := w.held[held{string(p.UID), "c", whole}].ids
	timed(b, func() {
		w.pods.remove(string(p.UID), true)
		if err := w.node.Tidy(context.Background()); err != nil {
			b.Fatal(err)
		}
		w.pods.put(p, true)
		w.checkpoint()
	}, func() {
		if err := w.node.PreStart(context.Background(), whole, ids); err != nil {
			b.Fatal(err)
		}
	})
}

// An agent's start on a node with 200 pods.
func BenchmarkStart(b *testing.B) {
	w, _ := crowd(b)
	timed(b, func() {}, func() { w.start() })
}
