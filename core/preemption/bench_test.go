package preemption_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/preemption"
)

// full makes nodes of 8 A100, each GPU held by one pod, or by four shares.
func full(b testing.TB, nodes int, shares bool) *preemption.Cluster {
	r := rand.New(rand.NewPCG(1, 1))
	var specs []cluster.Spec
	for i := range nodes {
		specs = append(specs, spec(b, fmt.Sprint("n", i), "NVIDIA A100-SXM4-40GB", 8))
	}
	c := newCluster(b, specs...)
	for i := range nodes {
		for j := range 8 {
			n, q := 1, whole(1)
			if shares {
				n, q = 4, share(10)
			}
			for range n {
				q.CPUMilli = 1000
				hold(b, c, i, j, q, preemption.Holder{Priority: int32(1000 * (1 + r.IntN(3))), Start: now.Add(-time.Duration(r.IntN(1e6)) * time.Second)})
			}
		}
	}
	return c
}

// BenchmarkFind finds victims on 500 nodes of 8 GPUs, all held by pods of three
// priorities: 4,000 pods, or 16,000 shares.
func BenchmarkFind(b *testing.B) {
	gang := make([]cluster.Request, 512)
	for i := range gang {
		gang[i] = whole(1)
	}
	for _, bb := range []struct {
		name    string
		nodes   int
		shares  bool
		members []cluster.Request
	}{
		{"one GPU of 500 nodes", 500, false, []cluster.Request{whole(1)}},
		{"8 GPUs of 500 nodes", 500, false, []cluster.Request{whole(8)}},
		{"8 GPUs of 1000 nodes", 1000, false, []cluster.Request{whole(8)}},
		{"4 GPUs of 500 nodes full of shares", 500, true, []cluster.Request{whole(4)}},
		{"a share of 500 nodes full of shares", 500, true, []cluster.Request{share(15)}},
		{"a gang of 512 GPUs of 500 nodes", 500, false, gang},
		{"one GPU of 5000 nodes", 5000, false, []cluster.Request{whole(1)}},
		{"nowhere on 500 nodes", 500, false, []cluster.Request{whole(9)}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			c := full(b, bb.nodes, bb.shares)
			for b.Loop() {
				plan, _, _ := preemption.Find(c, &preemption.Preemptor{Members: bb.members, Priority: 10000}, now)
				b.ReportMetric(float64(len(plan.Victims)), "victims")
			}
		})
	}
}
