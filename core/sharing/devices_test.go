package sharing_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
)

const a100 = "NVIDIA A100-SXM4-40GB"

// node makes count GPUs of a product, each cut into profiles if there are any.
func node(t testing.TB, product string, count int, profiles ...string) []gpu.GPU {
	t.Helper()
	p, ok := gpu.Find(product)
	if !ok {
		t.Fatalf("no product %q", product)
	}
	gpus := gpu.New("n1", p, count)
	for i := range gpus {
		if len(profiles) == 0 {
			continue
		}
		if err := gpu.Cut(&gpus[i], p, profiles); err != nil {
			t.Fatal(err)
		}
	}
	return gpus
}

func slicing(resource string, replicas int) gpu.Sharing {
	return gpu.Sharing{Strategy: gpu.SharingTimeSlicing, Replicas: map[string]int{resource: replicas}}
}

func mig(s gpu.Sharing, m gpu.MIGStrategy) gpu.Sharing { s.MIGStrategy = m; return s }

// summary writes each device as resource GPU/replica milliGPU MiB, equal
// neighbors (but for GPU and replica) joined.
func summary(devs []sharing.Device) []string {
	var out []string
	var last string
	n := 0
	flush := func() {
		if n > 0 {
			out = append(out, fmt.Sprintf("%dx %s", n, last))
		}
	}
	for _, d := range devs {
		s := fmt.Sprintf("%s %dm %dMiB", d.Resource, d.MilliGPU, d.MemoryBytes>>20)
		if s != last {
			flush()
			last, n = s, 0
		}
		n++
	}
	flush()
	return out
}

func TestDevices(t *testing.T) {
	seven := slices.Repeat([]string{"1g.5gb"}, 7)
	renamed := slicing("nvidia.com/gpu", 4)
	renamed.RenameByDefault = true
	mps := slicing("nvidia.com/gpu", 4)
	mps.Strategy = gpu.SharingMPS
	tests := []struct {
		name    string
		gpus    []gpu.GPU
		sharing gpu.Sharing
		want    []string
		gib     int64
	}{
		// 40960 MiB are 40 GiB each.
		{"whole GPUs", node(t, a100, 8), gpu.Sharing{}, []string{"8x nvidia.com/gpu 1000m 40960MiB"}, 320},
		// 81559 MiB are 79 whole GiB each.
		{"GiB are rounded down for each GPU", node(t, "NVIDIA H100 PCIe", 2), gpu.Sharing{}, []string{"2x nvidia.com/gpu 1000m 81559MiB"}, 158},
		{
			"time-slicing gives every share all the memory", node(t, a100, 8), slicing("nvidia.com/gpu", 4),
			[]string{"32x nvidia.com/gpu 250m 40960MiB"},
			0,
		},
		{"MPS divides the memory", node(t, a100, 1), mps, []string{"4x nvidia.com/gpu 250m 10240MiB"}, 0},
		{"renamed shares", node(t, "Tesla T4", 2), renamed, []string{"8x nvidia.com/gpu.shared 250m 15360MiB"}, 0},
		{
			"replicas without a strategy are not read", node(t, a100, 1),
			gpu.Sharing{Replicas: map[string]int{"nvidia.com/gpu": 4}},
			[]string{"1x nvidia.com/gpu 1000m 40960MiB"},
			40,
		},
		{
			"strategy none offers GPUs whole even with MIG on", node(t, a100, 2, seven...),
			gpu.Sharing{},
			[]string{"2x nvidia.com/gpu 1000m 40960MiB"},
			0,
		},
		// 1000 * 1/7 = 142.
		{
			"strategy single offers MIG devices as GPUs", node(t, a100, 8, seven...),
			gpu.Sharing{MIGStrategy: gpu.MIGSingle},
			[]string{"56x nvidia.com/gpu 142m 4864MiB"},
			0,
		},
		{
			"strategy single with MIG off offers GPUs", node(t, a100, 2),
			gpu.Sharing{MIGStrategy: gpu.MIGSingle},
			[]string{"2x nvidia.com/gpu 1000m 40960MiB"},
			80,
		},
		{
			"strategy mixed offers a resource for each profile", node(t, a100, 8, seven...),
			gpu.Sharing{MIGStrategy: gpu.MIGMixed},
			[]string{"56x nvidia.com/mig-1g.5gb 142m 4864MiB"},
			0,
		},
		{
			"strategy mixed with MIG on some GPUs", append(node(t, a100, 1, "4g.20gb", "2g.10gb", "1g.5gb+me"), node(t, "NVIDIA A30", 1)...),
			gpu.Sharing{MIGStrategy: gpu.MIGMixed},
			[]string{"1x nvidia.com/gpu 1000m 24576MiB", "1x nvidia.com/mig-1g.5gb.me 142m 4864MiB", "1x nvidia.com/mig-2g.10gb 285m 9856MiB", "1x nvidia.com/mig-4g.20gb 571m 20096MiB"},
			24,
		},
		// 1000 * 3/7 = 428, shared by two 214.
		{
			"shares of a MIG device", node(t, a100, 1, "3g.20gb", "3g.20gb"), mig(slicing("nvidia.com/mig-3g.20gb", 2), gpu.MIGMixed),
			[]string{"4x nvidia.com/mig-3g.20gb 214m 19968MiB"},
			0,
		},
		{"strategy mixed with MIG on and nothing cut", cutNone(t), gpu.Sharing{MIGStrategy: gpu.MIGMixed}, nil, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			devs, err := sharing.Devices(tt.gpus, tt.sharing)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, summary(devs)); diff != "" {
				t.Errorf("Devices (-want +got):\n%s", diff)
			}
			if got := sharing.MemoryGiB(tt.gpus, tt.sharing); got != tt.gib {
				t.Errorf("MemoryGiB = %d, want %d", got, tt.gib)
			}
			ids := map[string]bool{}
			for _, d := range devs {
				ids[d.ID] = true
			}
			if len(ids) != len(devs) {
				t.Errorf("%d devices have %d IDs", len(devs), len(ids))
			}
		})
	}
}

func cutNone(t *testing.T) []gpu.GPU {
	gpus := node(t, a100, 1)
	gpus[0].MIGEnabled = true
	return gpus
}

func TestDevicesRefuses(t *testing.T) {
	seven := slices.Repeat([]string{"1g.5gb"}, 7)
	mps := func(n int, m gpu.MIGStrategy) gpu.Sharing {
		s := mig(slicing("nvidia.com/gpu", n), m)
		s.Strategy = gpu.SharingMPS
		return s
	}
	unknown := node(t, a100, 1, seven...)
	unknown[0].Product = "NVIDIA Z1"
	single := gpu.Sharing{MIGStrategy: gpu.MIGSingle}
	tests := []struct {
		name    string
		gpus    []gpu.GPU
		sharing gpu.Sharing
		want    string
	}{
		{
			"single with MIG on some", append(node(t, a100, 1, seven...), node(t, a100, 1)...), single,
			"all devices on the node must be configured with the same migEnabled value: 1 of 2 have MIG on; use migStrategy mixed",
		},
		{
			"single with nothing cut", cutNone(t), single,
			"at least one device with migEnabled=true was not configured correctly: device 0 has no MIG devices configured; cut it, or turn its MIG off",
		},
		{
			"single with two profiles", node(t, a100, 1, "3g.20gb", "2g.10gb"), single,
			"more than one MIG device type present on node: 3g.20gb and 2g.10gb; use migStrategy mixed",
		},
		{
			"MPS with mixed", node(t, a100, 1), mps(4, gpu.MIGMixed),
			"using --mig-strategy=mixed is not supported with MPS; use timeSlicing, or another migStrategy",
		},
		{
			"MPS with MIG on", node(t, a100, 1, seven...), mps(4, gpu.MIGSingle),
			"sharing using MPS is not supported for MIG devices: GPU 0 has MIG on; use timeSlicing, or turn MIG off",
		},
		{
			"MPS with more than 48", node(t, a100, 1), mps(49, gpu.MIGNone),
			"maximum allowed replicas exceeded: 49 > 48 on GPU 0, NVIDIA A100-SXM4-40GB; ask for 48 at most, or use timeSlicing",
		},
		{
			"MPS with more than 16 on an old GPU", node(t, "Tesla V100-SXM2-16GB", 1), mps(17, gpu.MIGNone),
			"maximum allowed replicas exceeded: 17 > 16 on GPU 0, Tesla V100-SXM2-16GB; ask for 16 at most, or use timeSlicing",
		},
		{
			"more replicas than memory holds", node(t, a100, 1), slicing("nvidia.com/gpu", 3_000_000),
			"3000000 replicas of nvidia.com/gpu: a device has at most 1000; ask for fewer",
		},
		{
			"fewer replicas than none", node(t, a100, 1), slicing("nvidia.com/gpu", -1),
			"-1 replicas of nvidia.com/gpu: a device has at most 1000; ask for fewer",
		},
		{
			"more devices than a kubelet's list holds", node(t, a100, 3, seven...), mig(slicing("nvidia.com/mig-1g.5gb", 1000), gpu.MIGMixed),
			"the node would offer 21000 devices, and 16384 is the most; ask for fewer replicas",
		},
		{
			"MIG on a product that is not known", unknown, single,
			`GPU 0: compute slices of "NVIDIA Z1" are not known, so its MIG devices cannot be offered; use migStrategy none`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := sharing.Devices(tt.gpus, tt.sharing); err == nil || err.Error() != tt.want {
				t.Errorf("Devices: %v\nwant %s", err, tt.want)
			}
		})
	}
}

func TestUnhealthyGPUsAreCapacityButNotAllocatable(t *testing.T) {
	gpus := node(t, a100, 2)
	gpus[0].Healthy = false
	for _, tt := range []struct {
		s                     gpu.Sharing
		capacity, allocatable int64
	}{{gpu.Sharing{}, 2, 1}, {slicing("nvidia.com/gpu", 3), 6, 3}} {
		devs, err := sharing.Devices(gpus, tt.s)
		if err != nil {
			t.Fatal(err)
		}
		if c, a := sharing.Capacity(devs)["nvidia.com/gpu"], sharing.Allocatable(devs)["nvidia.com/gpu"]; c != tt.capacity || a != tt.allocatable {
			t.Errorf("capacity %d, allocatable %d; want %d, %d", c, a, tt.capacity, tt.allocatable)
		}
	}
	if c, a := sharing.MemoryGiB(gpus, gpu.Sharing{}), sharing.HealthyMemoryGiB(gpus, gpu.Sharing{}); c != 80 || a != 40 {
		t.Errorf("GiB: capacity %d, allocatable %d; want 80, 40", c, a)
	}
	gpus[1].Healthy = false
	devs, _ := sharing.Devices(gpus, gpu.Sharing{})
	if n, ok := sharing.Allocatable(devs)["nvidia.com/gpu"]; !ok || n != 0 {
		t.Errorf("allocatable of a node with no healthy GPU = %d, %v; want 0, true", n, ok)
	}
}

func TestParseID(t *testing.T) {
	for _, tt := range []struct {
		id, uuid string
		replica  int
		gib      int64
	}{
		{"GPU-1", "GPU-1", -1, 0},
		{"MIG-1", "MIG-1", -1, 0},
		{sharing.ShareID("GPU-1", 3), "GPU-1", 3, 0},
		{sharing.MemoryID("GPU-1", 6, 2), "GPU-1", -1, 6},
		{"GPU-1::x", "GPU-1::x", -1, 0},
		{"GPU-1::mem-x", "GPU-1::mem-x", -1, 0},
		{"GPU-1::mem--4-0", "GPU-1::mem--4-0", -1, 0},
	} {
		if uuid, replica, gib := sharing.ParseID(tt.id); uuid != tt.uuid || replica != tt.replica || gib != tt.gib {
			t.Errorf("ParseID(%q) = %q, %d, %d; want %q, %d, %d", tt.id, uuid, replica, gib, tt.uuid, tt.replica, tt.gib)
		}
	}
}

// NVIDIA/k8s-device-plugin#404, #628, #669: one GPU of several for services that
// share it, the others for those that need one whole.
func TestDevicesSharedOnSomeGPUsAlone(t *testing.T) {
	gpus := node(t, a100, 3)
	cut := node(t, a100, 2, "1g.5gb", "1g.5gb", "3g.20gb")
	shares := func(s gpu.Sharing, only map[string][]string) gpu.Sharing {
		s.RenameByDefault, s.Devices = true, only
		return s
	}
	type only = map[string][]string
	type counts = map[string]int64
	tests := []struct {
		name string
		gpus []gpu.GPU
		s    gpu.Sharing
		want counts
		gib  int64 // of gpu-memory
	}{
		{
			name: "by index", gpus: gpus, s: shares(slicing("nvidia.com/gpu", 10), only{"nvidia.com/gpu": {"0"}}),
			want: counts{"nvidia.com/gpu": 2, "nvidia.com/gpu.shared": 10}, gib: 80,
		},
		{
			name: "by UUID", gpus: gpus, s: shares(slicing("nvidia.com/gpu", 10), only{"nvidia.com/gpu": {gpus[1].UUID, gpus[2].UUID}}),
			want: counts{"nvidia.com/gpu": 1, "nvidia.com/gpu.shared": 20}, gib: 40,
		},
		{
			name: "none that is there", gpus: gpus, s: shares(slicing("nvidia.com/gpu", 10), only{"nvidia.com/gpu": {"7"}}),
			want: counts{"nvidia.com/gpu": 3}, gib: 120,
		},
		{
			name: "all, where only another resource is named", gpus: gpus, s: shares(slicing("nvidia.com/gpu", 2), only{"nvidia.com/mig-1g.5gb": {"0"}}),
			want: counts{"nvidia.com/gpu.shared": 6},
		},
		{
			name: "a MIG device within its GPU", gpus: cut, s: shares(mig(slicing("nvidia.com/mig-1g.5gb", 3), gpu.MIGMixed), only{"nvidia.com/mig-1g.5gb": {"1:1"}}),
			want: counts{"nvidia.com/mig-1g.5gb": 3, "nvidia.com/mig-1g.5gb.shared": 3, "nvidia.com/mig-3g.20gb": 2},
		},
		{
			name: "the MIG devices of a GPU", gpus: cut, s: shares(mig(slicing("nvidia.com/mig-1g.5gb", 3), gpu.MIGMixed), only{"nvidia.com/mig-1g.5gb": {"0"}}),
			want: counts{"nvidia.com/mig-1g.5gb": 2, "nvidia.com/mig-1g.5gb.shared": 6, "nvidia.com/mig-3g.20gb": 2},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			devs, err := sharing.Devices(tt.gpus, tt.s)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, sharing.Capacity(devs)); diff != "" {
				t.Errorf("Capacity (-want +got):\n%s", diff)
			}
			if got := sharing.MemoryGiB(tt.gpus, tt.s); got != tt.gib {
				t.Errorf("MemoryGiB = %d, want %d", got, tt.gib)
			}
		})
	}
}
