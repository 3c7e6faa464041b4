package gpu_test

import (
	"slices"
	"testing"

	"berth.dev/berth/core/gpu"
)

func cutAll(t *testing.T, gpus []gpu.GPU, profiles ...string) []gpu.GPU {
	t.Helper()
	for i := range gpus {
		if err := gpu.Cut(&gpus[i], find(t, gpus[i].Product), profiles); err != nil {
			t.Fatal(err)
		}
	}
	return gpus
}

func TestLabels(t *testing.T) {
	gpus := func(product string, n int) []gpu.GPU { return gpu.New("n1", find(t, product), n) }
	const a100 = "NVIDIA A100-SXM4-40GB"
	shared := func(s gpu.SharingStrategy, rename bool, resource string, n int) gpu.Sharing {
		return gpu.Sharing{Strategy: s, RenameByDefault: rename, Replicas: map[string]int{resource: n}}
	}
	mig := func(s gpu.Sharing, m gpu.MIGStrategy) gpu.Sharing { s.MIGStrategy = m; return s }
	tests := []struct {
		name    string
		node    gpu.Node
		sharing gpu.Sharing
		want    map[string]string // "" is set and empty, "-" is absent
	}{
		{
			name:    "a V100 node as GPU Feature Discovery shows it",
			node:    gpu.Node{GPUs: gpus("Tesla V100-SXM2-32GB", 8), DriverVersion: "525.116.04", CUDAVersion: "12.0", Machine: "PowerEdge C4140"},
			sharing: gpu.Sharing{MIGStrategy: gpu.MIGSingle},
			want: map[string]string{
				"cuda.driver.major": "525", "cuda.driver.minor": "116", "cuda.driver.rev": "04",
				"cuda.driver-version.full": "525.116.04", "cuda.driver-version.revision": "04",
				"cuda.runtime.major": "12", "cuda.runtime.minor": "0", "cuda.runtime-version.full": "12.0",
				"gpu.count": "8", "gpu.product": "Tesla-V100-SXM2-32GB", "gpu.memory": "32768",
				"mig.strategy": "single", "mig.capable": "false", "gpu.present": "true", "gpu.machine": "PowerEdge-C4140",
				"gpu.family": "volta", "gpu.compute.major": "7", "gpu.compute.minor": "0",
				"gpu.replicas": "1", "gpu.sharing-strategy": "none", "gpu.mode": "compute", "mps.capable": "false",
			},
		},
		{
			name: "what is not known is not said",
			node: gpu.Node{GPUs: gpus("Tesla T4", 1)},
			want: map[string]string{"cuda.driver.major": "-", "cuda.runtime.major": "-", "gpu.machine": "-", "mig.strategy": "-", "gpu.count": "1"},
		},
		{
			name:    "time-slicing counts GPUs, not shares, and marks the product",
			node:    gpu.Node{GPUs: gpus("Tesla T4", 4)},
			sharing: shared(gpu.SharingTimeSlicing, false, "nvidia.com/gpu", 4),
			want: map[string]string{
				"gpu.product": "Tesla-T4-SHARED", "gpu.count": "4", "gpu.replicas": "4",
				"gpu.sharing-strategy": "time-slicing", "gpu.memory": "15360",
			},
		},
		{
			name:    "a renamed resource needs no mark on the product",
			node:    gpu.Node{GPUs: gpus("Tesla T4", 4)},
			sharing: shared(gpu.SharingTimeSlicing, true, "nvidia.com/gpu", 4),
			want:    map[string]string{"gpu.product": "Tesla-T4", "gpu.replicas": "4", "gpu.sharing-strategy": "time-slicing"},
		},
		{
			name:    "MPS",
			node:    gpu.Node{GPUs: gpus(a100, 1)},
			sharing: shared(gpu.SharingMPS, false, "nvidia.com/gpu", 10),
			want:    map[string]string{"gpu.product": "NVIDIA-A100-SXM4-40GB-SHARED", "gpu.sharing-strategy": "mps", "mps.capable": "true", "mig.capable": "true"},
		},
		{
			name:    "strategy single lets gpu.* describe the MIG devices",
			node:    gpu.Node{GPUs: cutAll(t, gpus(a100, 2), slices.Repeat([]string{"1g.5gb"}, 7)...)},
			sharing: gpu.Sharing{MIGStrategy: gpu.MIGSingle},
			want: map[string]string{
				"gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "gpu.count": "14", "gpu.memory": "4864",
				"gpu.replicas": "1", "gpu.slices.gi": "1", "gpu.slices.ci": "1", "gpu.multiprocessors": "14", "gpu.engines.copy": "1",
				"gpu.engines.decoder": "0", "gpu.family": "ampere", "mig.strategy": "single",
			},
		},
		{
			name:    "strategy single, shared",
			node:    gpu.Node{GPUs: cutAll(t, gpus(a100, 1), "3g.20gb", "3g.20gb")},
			sharing: mig(shared(gpu.SharingTimeSlicing, false, "nvidia.com/gpu", 2), gpu.MIGSingle),
			want: map[string]string{
				"gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-3g.20gb-SHARED", "gpu.count": "2", "gpu.replicas": "2",
				"gpu.engines.copy": "3", "gpu.engines.decoder": "2",
			},
		},
		{
			name:    "strategy single with two profiles is invalid",
			node:    gpu.Node{GPUs: cutAll(t, gpus(a100, 1), "3g.20gb", "2g.10gb")},
			sharing: gpu.Sharing{MIGStrategy: gpu.MIGSingle},
			want: map[string]string{
				"gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-INVALID", "gpu.count": "0", "gpu.replicas": "0",
				"gpu.memory": "0", "gpu.sharing-strategy": "", "gpu.slices.gi": "-",
			},
		},
		{
			name:    "strategy single with MIG on some GPUs is invalid",
			node:    gpu.Node{GPUs: append(cutAll(t, gpus(a100, 1), "1g.5gb"), gpus(a100, 1)...)},
			sharing: gpu.Sharing{MIGStrategy: gpu.MIGSingle},
			want:    map[string]string{"gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-INVALID", "gpu.count": "0"},
		},
		{
			name:    "strategy single with MIG on and nothing cut is invalid",
			node:    gpu.Node{GPUs: cutAll(t, gpus(a100, 2))},
			sharing: gpu.Sharing{MIGStrategy: gpu.MIGSingle},
			want:    map[string]string{"gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-INVALID"},
		},
		{
			name:    "strategy mixed describes GPUs and each profile",
			node:    gpu.Node{GPUs: cutAll(t, gpus(a100, 8), "3g.20gb", "2g.10gb", "1g.5gb+me")},
			sharing: mig(shared(gpu.SharingTimeSlicing, false, "nvidia.com/mig-2g.10gb", 3), gpu.MIGMixed),
			want: map[string]string{
				"gpu.product": "NVIDIA-A100-SXM4-40GB", "gpu.count": "8", "gpu.replicas": "0", "gpu.sharing-strategy": "none",
				"mig-3g.20gb.product": "NVIDIA-A100-SXM4-40GB-MIG-3g.20gb", "mig-3g.20gb.count": "8", "mig-3g.20gb.replicas": "1",
				"mig-2g.10gb.product": "NVIDIA-A100-SXM4-40GB-MIG-2g.10gb-SHARED", "mig-2g.10gb.replicas": "3",
				"mig-2g.10gb.sharing-strategy": "time-slicing", "mig-1g.5gb.me.count": "8", "mig-1g.5gb.me.engines.ofa": "1",
				"mig-1g.5gb.me.memory": "4864", "mig-3g.20gb.slices.gi": "3", "mig-3g.20gb.multiprocessors": "42", "mig.strategy": "mixed",
			},
		},
		{
			name: "without a strategy, GPUs with MIG on are whole",
			node: gpu.Node{GPUs: cutAll(t, gpus(a100, 2), "7g.40gb")},
			want: map[string]string{"gpu.product": "NVIDIA-A100-SXM4-40GB", "gpu.count": "2", "gpu.replicas": "0", "mig-7g.40gb.count": "-"},
		},
		{
			name: "the product with the most GPUs speaks for the node",
			node: gpu.Node{GPUs: append(append(gpus("Tesla T4", 1), gpus("NVIDIA L4", 2)...), gpus("NVIDIA A10", 1)...)},
			want: map[string]string{"gpu.product": "NVIDIA-L4", "gpu.count": "2"},
		},
		{
			name: "ties go by name",
			node: gpu.Node{GPUs: append(gpus("Tesla T4", 1), gpus("NVIDIA L4", 1)...)},
			want: map[string]string{"gpu.product": "NVIDIA-L4"},
		},
		{
			name: "a card for displays",
			node: gpu.Node{GPUs: gpus("NVIDIA GeForce RTX 4090", 1)},
			want: map[string]string{"gpu.mode": "graphics"},
		},
		{
			name: "a driver version of two parts",
			node: gpu.Node{GPUs: gpus("Tesla T4", 1), DriverVersion: "550.54"},
			want: map[string]string{"cuda.driver.minor": "54", "cuda.driver.rev": ""},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := gpu.Labels(tt.node, tt.sharing)
			for key, want := range tt.want {
				value, ok := got["nvidia.com/"+key]
				if want == "-" && ok || want != "-" && (!ok || value != want) {
					t.Errorf("label nvidia.com/%s = %q (there: %v), want %q", key, value, ok, want)
				}
			}
		})
	}
	if got := gpu.Labels(gpu.Node{DriverVersion: "550.54"}, gpu.Sharing{}); len(got) != 0 {
		t.Errorf("Labels of a node without GPUs = %v", got)
	}
}
