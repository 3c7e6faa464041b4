package sim_test

import (
	"iter"
	"testing"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/sim"
	"berth.dev/berth/sim/baseline"
)

// spreading is kube-scheduler's default: the node with the largest part free, of CPU and of GPUs.
type spreading struct{ placement.Steady }

func newSpreading(placement.Setup) placement.Policy { return spreading{} }

func (spreading) Score(s *cluster.Snapshot, i int, r *cluster.Request) placement.Score {
	n := s.Node(i)
	cpu := float64(n.FreeCPUMilli-r.CPUMilli) / float64(max(1, n.CPUMilli))
	gpus := float64(int64(n.OpenMilli)-r.TotalMilli()) / float64(max(1, len(s.Cards(i))*cluster.Whole))
	return placement.Score(50 * (cpu + gpus))
}

func (spreading) Devices(s *cluster.Snapshot, i int, r *cluster.Request, out []cluster.Device) []cluster.Device {
	return placement.Take(s, i, r, placement.Lowest, out)
}

// TestFewerGPUsAreStrandedThanBySpreading lets the pods of Alibaba's trace that ask for one GPU or four
// come and go on its nodes at 70 % of the GPUs. A GPU is stranded if it is free on a node of four
// GPUs or more that has no room for four.
//
// rows: AS-57
func TestFewerGPUsAreStrandedThanBySpreading(t *testing.T) {
	s, all := whole(t, "default")
	var pods []sim.Pod
	for _, p := range all {
		if p.MilliGPU == cluster.Whole && (p.GPUs == 1 || p.GPUs == 4) {
			pods = append(pods, p)
		}
	}
	four := cluster.Request{GPUs: 4, MilliGPU: cluster.Whole}
	stranded := func(policy placement.Maker) float64 {
		sum, looks := 0, 0
		churn := sim.Churn{Cluster: s.Clone(), Pods: pods, Load: 0.7, Policy: policy, Runs: 2, Patience: 1e9}
		churn.Look = func(s *cluster.Snapshot, _ iter.Seq[*cluster.Placement]) {
			looks++
			for i := range s.Len() {
				if len(s.Cards(i)) >= 4 && placement.Fit(s, i, &four) != placement.Fits {
					sum += int(s.Node(i).OpenMilli) / cluster.Whole
				}
			}
		}
		if _, err := churn.Run(57); err != nil {
			t.Fatal(err)
		}
		return float64(sum) / float64(max(1, looks))
	}
	berth, err := baseline.Lookup("berth")
	if err != nil {
		t.Fatal(err)
	}
	packed, spread := stranded(berth), stranded(newSpreading)
	if t.Logf("stranded of %d GPUs: %.1f, and %.1f by spreading", s.TotalGPUs(), packed, spread); packed >= spread/2 {
		t.Errorf("%.1f GPUs are stranded, and %.1f by spreading; want less than half", packed, spread)
	}
}
