package labels_test

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/agent/labels"
	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/devices"
)

// snapshot is a node with GPUs of these products, one each.
func snapshot(t *testing.T, products ...string) nvml.Snapshot {
	t.Helper()
	s := nvml.Snapshot{Driver: "570.124.06", CUDA: "12.8"}
	for i, name := range products {
		p, ok := gpu.Find(name)
		if !ok {
			t.Fatalf("no %s", name)
		}
		g := gpu.New("n1", p, len(products))[i]
		s.GPUs = append(s.GPUs, nvml.GPU{GPU: g, Minor: i, ComputeMajor: p.ComputeMajor, ComputeMinor: p.ComputeMinor, MIGCapable: len(p.Profiles) > 0, ComputeSlices: p.ComputeSlices, Profiles: p.Profiles})
	}
	return s
}

func TestGFD(t *testing.T) {
	s := snapshot(t, "NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3")
	s.GPUs[0].Fabric, s.GPUs[1].Fabric = "c.1", "c.1"
	got := labels.GFD(s, gpu.Sharing{MIGStrategy: gpu.MIGSingle}, labels.Discovery{
		Machine: "PowerEdge XE9680", Start: time.Unix(1763726400, 0), VGPU: labels.VGPU{Present: true, HostDriver: "550.90.05", HostBranch: "r553_22"},
	})
	for key, want := range map[string]string{
		"gfd.timestamp": "1763726400", "gpu.machine": "PowerEdge-XE9680", "gpu.count": "2", "gpu.product": "NVIDIA-H100-80GB-HBM3", "gpu.family": "hopper",
		"gpu.clique": "c.1", "gpu.mode": "compute", "mig.capable": "true", "mig.strategy": "single", "cuda.driver-version.full": "570.124.06",
		"vgpu.present": "true", "vgpu.host-driver-version": "550.90.05", "vgpu.host-driver-branch": "r553_22", "mps.capable": "false",
	} {
		if got["nvidia.com/"+key] != want {
			t.Errorf("%s = %q, want %q", key, got["nvidia.com/"+key], want)
		}
	}
	s.GPUs[0].Lost, s.GPUs[0].Healthy = true, false
	lost := labels.GFD(s, gpu.Sharing{MIGStrategy: gpu.MIGSingle}, labels.Discovery{})
	if lost["nvidia.com/gpu.count"] != "2" {
		t.Errorf("gpu.count with a lost GPU = %q, want 2 as before", lost["nvidia.com/gpu.count"])
	}
	if got := labels.GFD(nvml.Snapshot{Failed: "no driver"}, gpu.Sharing{}, labels.Discovery{Machine: "m", Start: time.Unix(1, 0)}); len(got) > 0 {
		t.Errorf("a node without a driver has labels: %v", got)
	}
	odd := labels.GFD(s, gpu.Sharing{}, labels.Discovery{VGPU: labels.VGPU{Present: true, HostDriver: "what is this?"}})
	if v, ok := odd["nvidia.com/vgpu.host-driver-version"]; ok {
		t.Errorf("a value that Kubernetes would refuse: %q", v)
	}
}

// The steps of NVIDIA/gpu-feature-discovery#27 and #66 and
// NVIDIA/k8s-device-plugin#731: a node has GPUs of two models, and its labels tell
// now of the one, now of the other.
func TestLabelsOfMixedGPUsDoNotFlap(t *testing.T) {
	s := snapshot(t, "Tesla T4", "NVIDIA A100-SXM4-40GB", "Tesla T4", "NVIDIA L4", "NVIDIA A100-SXM4-40GB")
	var want map[string]string
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		r.Shuffle(len(s.GPUs), func(i, j int) { s.GPUs[i], s.GPUs[j] = s.GPUs[j], s.GPUs[i] })
		got := labels.GFD(s, gpu.Sharing{}, labels.Discovery{Machine: "m"})
		if want == nil {
			want = got
		}
		if !maps.Equal(got, want) {
			t.Fatalf("seed %d: labels differ:\n%s", seed, cmp.Diff(want, got))
		}
	}
	// Two of each: the first by name, and what is told goes together.
	for key, value := range map[string]string{"gpu.product": "NVIDIA-A100-SXM4-40GB", "gpu.count": "2", "gpu.memory": "40960", "gpu.family": "ampere"} {
		if want["nvidia.com/"+key] != value {
			t.Errorf("%s = %q, want %q", key, want["nvidia.com/"+key], value)
		}
	}
}

func TestReadMachine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "product_name")
	if got := labels.ReadMachine(file); got != "" {
		t.Errorf("ReadMachine of no file = %q", got)
	}
	if err := os.WriteFile(file, []byte("DGX H100\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := labels.ReadMachine(file); got != "DGX H100" {
		t.Errorf("ReadMachine = %q", got)
	}
}

// pciConfig is a PCI configuration space with a power management capability and,
// after it, a vendor-specific one.
func pciConfig(vendor []byte) []byte {
	c := make([]byte, 256)
	c[0x06], c[0x34] = 0x10, 0x60
	c[0x60], c[0x61] = 0x01, 0x90
	copy(c[0x90:], vendor)
	return c
}

func TestReadVGPU(t *testing.T) {
	record := append([]byte{9, 0, 5 + 4 + 22, 'V', 'F', 3, 4, 1, 1, 0, 22}, append([]byte("550.90.05\x00"), []byte("r553_22\x00\x00\x00")...)...)
	device := func(vendor string, config []byte) fstest.MapFS {
		return fstest.MapFS{
			"bus/pci/devices/0000:00:02.0/vendor": {Data: []byte("0x8086\n")},
			"bus/pci/devices/0000:02:00.0/vendor": {Data: []byte(vendor + "\n")},
			"bus/pci/devices/0000:02:00.0/config": {Data: config},
		}
	}
	for _, c := range []struct {
		name string
		sys  fstest.MapFS
		want labels.VGPU
	}{
		{"a virtual GPU with its host's driver", device("0x10de", pciConfig(record)), labels.VGPU{Present: true, HostDriver: "550.90.05", HostBranch: "r553_22"}},
		{"a virtual GPU that says no more", device("0x10de", pciConfig([]byte{9, 0, 5, 'V', 'F'})), labels.VGPU{Present: true}},
		{"a real GPU", device("0x10de", pciConfig([]byte{9, 0, 20, 'X', 'Y'})), labels.VGPU{}},
		{"another vendor", device("0x1af4", pciConfig(record)), labels.VGPU{}},
		{"a short configuration space", device("0x10de", make([]byte, 64)), labels.VGPU{}},
		{"capabilities in a circle", device("0x10de", func() []byte { c := pciConfig(nil); c[0x90], c[0x91] = 1, 0x60; return c }()), labels.VGPU{}},
		{"no PCI", fstest.MapFS{}, labels.VGPU{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := labels.ReadVGPU(c.sys); got != c.want {
				t.Errorf("ReadVGPU = %+v, want %+v", got, c.want)
			}
		})
	}
}

// What is written is what package kube/devices reads.
func TestAnnotationsAreReadBack(t *testing.T) {
	s := snapshot(t, "NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB")
	p, _ := gpu.Find("NVIDIA A100-SXM4-40GB")
	if err := gpu.Cut(&s.GPUs[1].GPU, p, []string{"3g.20gb", "3g.20gb"}); err != nil {
		t.Fatal(err)
	}
	s.GPUs[0].NUMANode = -1
	how := gpu.Sharing{MIGStrategy: gpu.MIGMixed, Strategy: gpu.SharingTimeSlicing, Replicas: map[string]int{"nvidia.com/gpu": 4}}
	list := labels.Inventory(s, how, func(uuid string) (bool, int) {
		if uuid == s.GPUs[0].UUID {
			return false, 48
		}
		return true, 0
	})
	held := []labels.Held{{PodUID: "u", Container: "c", Devices: []sharing.Device{{UUID: s.GPUs[0].UUID, MilliGPU: 250, MemoryBytes: 10 << 30}}}}
	notes, err := labels.Annotations(list, how, held)
	if err != nil {
		t.Fatal(err)
	}
	gpus, got, err := devices.GPUs(&v1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: notes}})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(how, got); d != "" {
		t.Errorf("sharing (-want +got):\n%s", d)
	}
	if g := gpus[0]; g.Healthy || g.Xid != 48 || g.NUMANode != -1 || g.UUID != s.GPUs[0].UUID {
		t.Errorf("GPU 0 reads back as %+v", g)
	}
	if g := gpus[1]; !g.Healthy || !g.MIGEnabled || len(g.MIG) != 2 || g.MIG[1].Start != 4 {
		t.Errorf("GPU 1 reads back as %+v", g)
	}
	if list[0].Shares != 4 || list[1].Shares != 0 {
		t.Errorf("shares %d and %d, want 4 and 0", list[0].Shares, list[1].Shares)
	}
	var observed map[string]map[string][]map[string]any
	if err := json.Unmarshal([]byte(notes[api.AnnotationObserved]), &observed); err != nil || observed["u"]["c"][0]["milliGPU"] != 250.0 {
		t.Errorf("observed: %v, %v", observed, err)
	}
	if got, err := labels.Annotations(nil, how, nil); err != nil || len(got) > 0 {
		t.Errorf("annotations of a node without GPUs: %v, %v", got, err)
	}
}
