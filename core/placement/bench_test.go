package placement_test

import (
	"fmt"
	"math/rand"
	"runtime"
	"testing"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/sim/baseline"
)

// benchCluster makes nodes of 8 GPUs: a third of three products each.
func benchCluster(tb testing.TB, nodes int) *cluster.Snapshot {
	tb.Helper()
	products := []string{"Tesla T4", "NVIDIA A100-SXM4-40GB", "NVIDIA H100 80GB HBM3"}
	specs := make([]cluster.Spec, nodes)
	for i := range specs {
		specs[i] = cluster.Spec{Name: fmt.Sprintf("node-%05d", i), CPUMilli: 96000, MemoryBytes: 768 << 30}
		p, _ := gpu.Find(products[i%len(products)])
		for j := range 8 {
			specs[i].GPUs = append(specs[i].GPUs, gpu.GPU{Index: j, Product: products[i%len(products)], MemoryBytes: p.MemoryMiB << 20, Healthy: true, Clique: 1})
		}
	}
	s, err := cluster.New(specs)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// benchShapes are 100 shapes: shares, 1 to 8 GPUs, and none.
func benchShapes(s *cluster.Snapshot) []cluster.Request {
	rng := rand.New(rand.NewSource(1))
	shapes := make([]cluster.Request, 100)
	for i := range shapes {
		r := cluster.Request{CPUMilli: int64(1+rng.Intn(16)) * 1000, MemoryBytes: int64(1+i) << 30}
		switch k := rng.Intn(20); {
		case k < 2:
		case k < 10:
			r.GPUs, r.MilliGPU = 1, int32(5+rng.Intn(90))*10
		case k < 18:
			r.GPUs, r.MilliGPU = 1, cluster.Whole
		default:
			r.GPUs, r.MilliGPU = int32(2<<rng.Intn(3)), cluster.Whole
		}
		if i%5 == 0 {
			r.Products, _ = s.Products("Tesla T4")
		}
		shapes[i] = r
	}
	return shapes
}

// churn fills s to about 95% and then, for each call of the func it gives,
// places one request and lets enough go to stay there.
func churn(tb testing.TB, s *cluster.Snapshot, policy string) func() {
	return churnWith(tb, s, policy, false)
}

// churnWith is churn where each request declares when it ends, if ends says so.
func churnWith(tb testing.TB, s *cluster.Snapshot, policy string, ends bool) func() {
	maker, err := baseline.Lookup(policy)
	if err != nil {
		tb.Fatal(err)
	}
	rng := rand.New(rand.NewSource(2))
	shapes := benchShapes(s)
	mix := make([]placement.Class, len(shapes))
	for i := range shapes {
		mix[i] = placement.Class{Request: shapes[i], Weight: 1}
	}
	x := placement.NewIndex(s, maker(placement.Setup{Cluster: s, Typical: mix, Rand: rng.Intn}), nil, rng.Intn)
	var held []cluster.Placement
	got, now := int64(0), int64(0)
	step := func() {
		r := &shapes[rng.Intn(len(shapes))]
		x.Arrive(r)
		var stay placement.Stay
		if now++; ends {
			stay.Run = 1 + rng.Int63n(100_000)
			stay.Ends = now + stay.Run
		}
		placed, ok, err := placement.PlaceFor(x, r, stay)
		if err != nil {
			tb.Fatal(err)
		}
		if !ok {
			x.Refuse(r)
		} else {
			held, got = append(held, placed), got+placed.TotalMilli()
		}
		for !ok || got > int64(s.TotalGPUs())*950 {
			i := rng.Intn(len(held))
			if err := s.Release(&held[i]); err != nil {
				tb.Fatal(err)
			}
			got -= held[i].TotalMilli()
			held[i] = held[len(held)-1]
			held = held[:len(held)-1]
			ok = true
		}
	}
	for got < int64(s.TotalGPUs())*900 {
		step()
	}
	for range 2000 {
		step()
	}
	return step
}

// BenchmarkDecision is one arrival with its placement, and the departures that
// make room for it, at 95% of 100 shapes.
func BenchmarkDecision(b *testing.B) {
	for _, policy := range []string{"berth", "fgd", "first-fit"} {
		for _, nodes := range []int{1213, 5000, 12130} {
			b.Run(fmt.Sprintf("%s/nodes=%d", policy, nodes), func(b *testing.B) {
				step := churn(b, benchCluster(b, nodes), policy)
				for b.Loop() {
					step()
				}
			})
		}
	}
}

// BenchmarkDecisionWithEnds is BenchmarkDecision for requests that declare when they end.
func BenchmarkDecisionWithEnds(b *testing.B) {
	for _, nodes := range []int{1213, 5000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			step := churnWith(b, benchCluster(b, nodes), "berth", true)
			for b.Loop() {
				step()
			}
		})
	}
}

// BenchmarkScan is a decision that scores every node.
func BenchmarkScan(b *testing.B) {
	for _, nodes := range []int{1213, 12130} {
		b.Run(fmt.Sprintf("berth/nodes=%d", nodes), func(b *testing.B) {
			s := benchCluster(b, nodes)
			churn(b, s, "berth")
			p := placement.NewBerth(placement.Setup{Cluster: s}, placement.DefaultParams())
			x, shapes := placement.NewScan(s, p, nil, nil), benchShapes(s)
			for i := range shapes {
				x.Arrive(&shapes[i])
			}
			i := 0
			for b.Loop() {
				x.Best(&shapes[i%len(shapes)])
				i++
			}
		})
	}
}

// BenchmarkIndexUpdate is asking again after one node has changed.
func BenchmarkIndexUpdate(b *testing.B) {
	for _, nodes := range []int{1213, 5000, 12130} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			s := benchCluster(b, nodes)
			x := placement.NewIndex(s, placement.NewBerth(placement.Setup{Cluster: s}, placement.DefaultParams()), nil, nil)
			r := benchShapes(s)[1]
			x.Best(&r)
			i := 0
			for b.Loop() {
				s.SetHealthy(i%nodes, 0, i/nodes%2 == 1)
				x.Best(&r)
				i++
			}
		})
	}
}

// BenchmarkClone copies a Snapshot.
func BenchmarkClone(b *testing.B) {
	for _, nodes := range []int{1213, 5000, 12130} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			s := benchCluster(b, nodes)
			b.ReportAllocs()
			for b.Loop() {
				s.Clone()
			}
		})
	}
}

// TestIndexMemory: 40,000 GPUs on 5,000 nodes with 100 shapes take at most
// 40 MB of index, and more shapes than fit into 32 MiB are let go.
func TestIndexMemory(t *testing.T) {
	s := benchCluster(t, 5000)
	shapes := benchShapes(s)
	before := heap()
	x := placement.NewIndex(s, placement.NewBerth(placement.Setup{Cluster: s}, placement.DefaultParams()), nil, nil)
	for i := range shapes {
		x.Arrive(&shapes[i])
		x.Best(&shapes[i])
	}
	used := heap() - before
	t.Logf("100 shapes take %.1f MB", float64(used)/1e6)
	if used > 40e6 {
		t.Errorf("100 shapes take %d bytes; at most 40 MB", used)
	}
	for i := range 2000 {
		x.Best(&cluster.Request{CPUMilli: int64(i + 1)})
	}
	if used := heap() - before; used > 40e6 {
		t.Errorf("2,100 shapes take %d bytes; at most 40 MB", used)
	}
	runtime.KeepAlive(x)
}

// heap returns the bytes in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
