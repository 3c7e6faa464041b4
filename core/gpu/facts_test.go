package gpu_test

import (
	"testing"

	"berth.dev/berth/core/gpu"
)

func TestFamily(t *testing.T) {
	for _, c := range []struct {
		major, minor int
		want         string
	}{
		{3, 7, "kepler"},
		{5, 2, "maxwell"},
		{6, 1, "pascal"},
		{7, 0, "volta"},
		{7, 2, "volta"},
		{7, 5, "turing"},
		{8, 0, "ampere"},
		{8, 6, "ampere"},
		{8, 9, "ada-lovelace"},
		{9, 0, "hopper"},
		{10, 0, "blackwell"},
		{12, 0, "blackwell"},
		{13, 0, "rubin"},
		{0, 0, "undefined"},
		{99, 0, "undefined"},
	} {
		if got := gpu.Family(c.major, c.minor); got != c.want {
			t.Errorf("Family(%d, %d) = %q, want %q", c.major, c.minor, got, c.want)
		}
	}
	for _, p := range gpu.Products() {
		if got := gpu.Family(p.ComputeMajor, p.ComputeMinor); got != p.Family {
			t.Errorf("%s of compute capability %d.%d is %s in the catalog, %s by its capability", p.Name, p.ComputeMajor, p.ComputeMinor, p.Family, got)
		}
	}
}

func TestTheDriverGoesBeforeTheCatalogue(t *testing.T) {
	fabric := "7b968a6d-c8aa-45e1-9e07-e1e51be99c31.1"
	gpus := gpu.New("n1", gpu.Product{Name: "NVIDIA Future X1", MemoryMiB: 1 << 19}, 2)
	for i := range gpus {
		gpus[i].MIGEnabled = true
		gpus[i].MIG = []gpu.MIGDevice{{UUID: gpu.UUID("MIG", gpus[i].UUID), Profile: "1g.64gb", Slices: 1, MemoryBytes: 64 << 30}}
	}
	facts := map[string]gpu.Facts{}
	for _, g := range gpus {
		facts[g.UUID] = gpu.Facts{
			ComputeMajor: 13, MIGCapable: true, Display: true, Fabric: fabric,
			Profiles: []gpu.Profile{{Name: "1g.64gb", Multiprocessors: 24, CopyEngines: 2, Decoders: 1, JPEG: 1, OFA: 1}},
		}
	}
	want := map[string]string{
		"gpu.product": "NVIDIA-Future-X1", "gpu.family": "rubin", "gpu.compute.major": "13", "gpu.compute.minor": "0",
		"gpu.mode": "graphics", "mig.capable": "true", "gpu.clique": fabric,
		"mig-1g.64gb.multiprocessors": "24", "mig-1g.64gb.engines.copy": "2", "mig-1g.64gb.count": "2", "mig-1g.64gb.memory": "65536",
	}
	check := func() {
		t.Helper()
		got := gpu.DriverLabels(gpu.Node{GPUs: gpus}, gpu.Sharing{MIGStrategy: gpu.MIGMixed}, facts)
		for key, value := range want {
			if v, ok := got["nvidia.com/"+key]; v != value || ok != (value != "") {
				t.Errorf("label %s = %q, want %q", key, v, value)
			}
		}
	}
	check()
	facts[gpus[1].UUID] = gpu.Facts{ComputeMajor: 13, Fabric: "another.1"}
	want["gpu.clique"], want["gpu.mode"] = "", "unknown"
	check()
}
