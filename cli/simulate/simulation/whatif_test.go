package simulation_test

import (
	"strings"
	"testing"

	"berth.dev/berth/cli/simulate/simulation"
	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gpu"
)

// small is a node of two T4 as the trace names them and one of four A100.
func small() []cluster.Spec {
	a100, _ := gpu.Find("NVIDIA A100-SXM4-40GB")
	return []cluster.Spec{
		{Name: "t4", CPUMilli: 96_000, MemoryBytes: 64 << 30, GPUs: []gpu.GPU{{Product: "T4", MemoryBytes: 16 << 30, Healthy: true}, {Index: 1, Product: "T4", MemoryBytes: 16 << 30, Healthy: true}}},
		{Name: "a100", CPUMilli: 48_000, MemoryBytes: 192 << 30, GPUs: gpu.New("a100", a100, 4)},
	}
}

func TestAdd(t *testing.T) {
	for _, tt := range []struct {
		name, what string
		nodes      int
		product    string
		gpus       int
		cpu        int64 // milli
	}{
		{"nodes are like those of that model, GPU for GPU", "3xt4x4", 3, "T4", 4, 192_000},
		{"case does not count", "1xA100x8", 1, "NVIDIA A100-SXM4-40GB", 8, 96_000},
		{"a model that no node has comes from the catalog", "4xh100x8", 4, "NVIDIA H100 80GB HBM3", 8, 96_000},
		{"of several products that with NVLink is meant", "1xv100x2", 1, "Tesla V100-SXM2-16GB", 2, 24_000},
		{"a product may have an x in its name", "1xa100-sxm4-80gbx8", 1, "NVIDIA A100-SXM4-80GB", 8, 96_000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			nodes, note, err := simulation.Add(small(), tt.what)
			if err != nil {
				t.Fatal(err)
			}
			if len(nodes) != 2+tt.nodes || note == "" {
				t.Fatalf("%d nodes, want %d more; note %q", len(nodes), tt.nodes, note)
			}
			got := nodes[len(nodes)-1]
			if got.GPUs[0].Product != tt.product || len(got.GPUs) != tt.gpus || got.CPUMilli != tt.cpu {
				t.Errorf("the last has %d %s and %d milli-CPU, want %d %s and %d", len(got.GPUs), got.GPUs[0].Product, got.CPUMilli, tt.gpus, tt.product, tt.cpu)
			}
			if _, err := cluster.New(nodes); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAddTwiceGivesNewNames(t *testing.T) {
	nodes, _, err := simulation.Add(small(), "2xt4x1")
	if err != nil {
		t.Fatal(err)
	}
	if nodes, _, err = simulation.Add(nodes, "2xt4x1"); err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.New(nodes); err != nil || len(nodes) != 6 {
		t.Errorf("%d nodes, %v; want 6 with names of their own", len(nodes), err)
	}
}

func TestCutAndShare(t *testing.T) {
	nodes := small()
	if _, err := simulation.Cut(nodes, "a100=1g.5gb"); err != nil {
		t.Fatal(err)
	}
	for _, g := range nodes[1].GPUs {
		if !g.MIGEnabled || len(g.MIG) != 7 {
			t.Errorf("GPU %d has %d MIG devices, want 7", g.Index, len(g.MIG))
		}
	}
	if _, err := simulation.Share(nodes, "t4=4"); err != nil {
		t.Fatal(err)
	}
	if got := nodes[0].GPUs; len(got) != 8 || got[7].Index != 7 || got[7].MemoryBytes != 4<<30 {
		t.Errorf("the T4 node offers %d devices, the last %+v; want 8 of 4 GiB", len(got), got[len(got)-1])
	}
	if _, err := cluster.New(nodes); err != nil {
		t.Error(err)
	}
	nodes = small()
	if _, err := simulation.Cut(nodes, "a100=3g.20gb,2g.10gb"); err != nil || len(nodes[1].GPUs[0].MIG) != 2 {
		t.Errorf("a GPU has %d MIG devices, want the two asked for (%v)", len(nodes[1].GPUs[0].MIG), err)
	}
}

func TestWhatIfRefusesWhatCannotBe(t *testing.T) {
	add := func(n []cluster.Spec, what string) error { _, _, err := simulation.Add(n, what); return err }
	cut := func(n []cluster.Spec, what string) error { _, err := simulation.Cut(n, what); return err }
	share := func(n []cluster.Spec, what string) error { _, err := simulation.Share(n, what); return err }
	for _, tt := range []struct {
		name, what string
		do         func([]cluster.Spec, string) error
		says       string
	}{
		{"nodes without a form", "four", add, "NODESxMODELxGPUS"},
		{"no nodes at all", "0xh100x8", add, "from 1 to 100000"},
		{"more GPUs than a node has", "1xh100x200", add, "from 1 to 127"},
		{"a model near another", "1xh10x8", add, "the nearest is"},
		{"a model that nobody makes", "1xquadruplex9000superx8", add, "unknown GPU model"},
		{"a cut without a profile", "a100", cut, "MODEL=PROFILE"},
		{"a profile that the product lacks", "a100=1g.10g", cut, "the nearest is 1g.10gb"},
		{"a product without MIG", "t4=1g.5gb", cut, "no known MIG"},
		{"a model that is not there", "h100=1g.10gb", cut, `no node has a "h100"; they have NVIDIA A100-SXM4-40GB, T4`},
		{"too few shares", "t4=1", share, "2 to 48"},
		{"more devices than a node offers", "a100=40", share, "at most 127 are possible"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.do(small(), tt.what); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%q gives error %v, want one that says %q", tt.what, err, tt.says)
			}
		})
	}
	nodes := small()
	if err := cut(nodes, "a100=1g.5gb"); err != nil {
		t.Fatal(err)
	}
	if err := share(nodes, "a100=2"); err == nil || !strings.Contains(err.Error(), "either --share or --cut") {
		t.Errorf("GPUs that are cut are shared too: %v", err)
	}
}
