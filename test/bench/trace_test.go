package main

import (
	"encoding/json"
	"math/rand"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/sim"
)

// The bench reads traces apart from package sim; here the two are compared.
func TestArrivalsAreThoseOfTheSimulation(t *testing.T) {
	dir := filepath.Join("..", "..", "sim", "testdata")
	for _, workload := range []string{"default", "gpuspec20", "multigpu30"} {
		mine, err := readTrace(filepath.Join(dir, "nodes.csv"), filepath.Join(dir, "pods_"+workload+".csv"))
		if err != nil {
			t.Fatal(err)
		}
		s, pods := clusterOf(t, mine)
		requests := sim.SortedRequests(s, pods)
		for _, load := range []float64{0.5, 1, 1.3} {
			for seed := range int64(5) {
				want := sim.Arrivals(rand.New(rand.NewSource(seed)), requests, load*float64(1000*mine.gpus))
				var got []cluster.Request
				for _, p := range mine.arrivals(seed, load) {
					got = append(got, cluster.Request{CPUMilli: p.cpuMilli, MemoryBytes: p.memoryMiB << 20, GPUs: int32(p.gpus), MilliGPU: int32(p.milli)})
				}
				for i := range want {
					want[i].Products = 0
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("%s, load %v, seed %d: -want +got\n%s", workload, load, seed, diff)
				}
			}
		}
	}
}

func clusterOf(t *testing.T, mine *trace) (*cluster.Snapshot, []sim.Pod) {
	t.Helper()
	in, err := os.Open(mine.nodesFile)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	specs, err := sim.ReadNodes("nodes", in)
	if err != nil {
		t.Fatal(err)
	}
	s, err := cluster.New(specs)
	if err != nil {
		t.Fatal(err)
	}
	list, err := os.Open(mine.podsFile)
	if err != nil {
		t.Fatal(err)
	}
	defer list.Close()
	pods, err := sim.ReadPods("pods", list, specs)
	if err != nil {
		t.Fatal(err)
	}
	return s, pods
}

func TestTheFleetHasTheNodesOfTheTrace(t *testing.T) {
	dir := filepath.Join("..", "..", "sim", "testdata")
	mine, err := readTrace(filepath.Join(dir, "nodes.csv"), filepath.Join(dir, "pods_default.csv"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "fleet.json")
	if err := mine.writeFleet(file); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var f struct {
		Nodes []struct {
			Count int
			GPUs  struct{ Count int }
		}
	}
	if err := json.Unmarshal(raw, &f); err != nil {
		t.Fatal(err)
	}
	nodes, gpus := 0, 0
	for _, g := range f.Nodes {
		nodes += g.Count
		gpus += g.Count * g.GPUs.Count
	}
	if nodes != len(mine.nodes) || gpus != mine.gpus {
		t.Errorf("%d nodes with %d GPUs, want %d with %d", nodes, gpus, len(mine.nodes), mine.gpus)
	}
}
