package exporter

import (
	"math/rand/v2"
	"testing"
)

func FuzzInProportion(f *testing.F) {
	f.Add(uint64(1), int64(100))
	f.Fuzz(func(t *testing.T, seed uint64, total int64) {
		r := rand.New(rand.NewPCG(seed, 1))
		total = max(0, total%(1<<30))
		weights := make([]int64, 1+r.IntN(20))
		var all, got int64
		for i := range weights {
			weights[i] = r.Int64N(5000)
			all += weights[i]
		}
		if all == 0 {
			weights[0], all = 1, 1
		}
		for i, part := range inProportion(total, weights) {
			got += part
			if due := float64(total) * float64(weights[i]) / float64(all); float64(part) <= due-1 || float64(part) >= due+1 {
				t.Errorf("part %d of %d by %v is %d, due is %v", i, total, weights, part, due)
			}
		}
		if got != total {
			t.Errorf("inProportion(%d, %v) adds up to %d", total, weights, got)
		}
	})
}

func TestPartsAddUp(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 2))
		known := r.IntN(4) > 0
		pods := make([]Pod, 1+r.IntN(6))
		for i := range pods {
			pods[i] = Pod{Known: known, Running: known && r.IntN(2) == 0, MilliGPU: r.Int64N(1000)}
			if pods[i].Running {
				pods[i].MemoryBytes = r.Int64N(20 << 30)
			}
		}
		total := r.Int64N(80 << 10)
		for name, divide := range map[string]func(int64, []Pod) ([]int64, int64){"memoryParts": memoryParts, "workParts": workParts} {
			parts, rest := divide(total, pods)
			sum := rest
			for i, p := range parts {
				if p < 0 || known && !pods[i].Running && p > 0 {
					t.Errorf("seed %d: %s(%d, %+v) gives pod %d %d", seed, name, total, pods, i, p)
				}
				sum += p
			}
			if sum != total || rest < 0 {
				t.Errorf("seed %d: %s(%d, %+v) adds up to %d with a rest of %d", seed, name, total, pods, sum, rest)
			}
		}
	}
}
