package spec_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/fleet/spec"
	"berth.dev/berth/kube/devices"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// node returns the Kubernetes Node of one node of a fleet.
func node(t *testing.T, fleet, name string) *v1.Node {
	t.Helper()
	for _, n := range load(t, fleet).Nodes {
		if n.Name == name {
			k, err := spec.Kubernetes(n, "10.64.0.7", noon)
			if err != nil {
				t.Fatal(err)
			}
			return k
		}
	}
	t.Fatalf("fleet %s has no node %s", fleet, name)
	return nil
}

// rows: GS-03 ML-10 AS-04
func TestResources(t *testing.T) {
	const mig, seed1, seed2 = "../../test/fleets/mig.yaml", "../../test/fleets/seed001.yaml", "../../test/fleets/seed002.yaml"
	tests := []struct {
		name, fleet, node string
		want              map[string]string // of the device plugin, and cpu
	}{
		// 8 x 40 GiB.
		{name: "whole GPUs, and their memory in GiB", fleet: "lab", node: "gpu-node-1", want: map[string]string{"nvidia.com/gpu": "8", "nvidia.com/gpu-memory": "320", "cpu": "96"}},
		{name: "four GPUs time-sliced by four count 16, and are not shared by memory", fleet: "default", node: "gpu-t4-1", want: map[string]string{"nvidia.com/gpu": "16", "cpu": "48"}},
		{name: "eight A100 cut in seven under mixed", fleet: mig, node: "gpu-mixed-1", want: map[string]string{"nvidia.com/mig-1g.5gb": "56", "cpu": "96"}},
		// GPU 0 is whole, 79 GiB of its 81559 MiB; GPU 2 has two 3g.40gb, GPU 3 one.
		{name: "each GPU cut its own way", fleet: mig, node: "gpu-each-1", want: map[string]string{
			"nvidia.com/gpu": "1", "nvidia.com/gpu-memory": "79", "nvidia.com/mig-7g.80gb": "1", "nvidia.com/mig-3g.40gb": "3",
			"nvidia.com/mig-1g.10gb": "2", "nvidia.com/mig-2g.20gb": "1", "cpu": "192",
		}},
		{name: "MIG devices stand for GPUs under single", fleet: mig, node: "gpu-single-1", want: map[string]string{"nvidia.com/gpu": "16", "cpu": "96"}},
		{name: "strategy single without MIG offers GPUs whole", fleet: seed1, node: "gpu-node-1", want: map[string]string{"nvidia.com/gpu": "8", "nvidia.com/gpu-memory": "256", "cpu": "96"}},
		{name: "a small cloud node with one T4", fleet: seed2, node: "gpu-node-1", want: map[string]string{"nvidia.com/gpu": "1", "nvidia.com/gpu-memory": "15", "cpu": "4"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := node(t, tt.fleet, tt.node)
			for of, list := range map[string]v1.ResourceList{"capacity": k.Status.Capacity, "allocatable": k.Status.Allocatable} {
				got := map[string]string{}
				for name, quantity := range list {
					if strings.HasPrefix(string(name), "nvidia.com/") || name == v1.ResourceCPU {
						got[string(name)] = quantity.String()
					}
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("%s of %s (-want +got):\n%s", of, tt.node, diff)
				}
			}
		})
	}
}

// rows: GS-10
func TestUnhealthyGPUsAreNotAllocatable(t *testing.T) {
	n := load(t, "lab").Nodes[1] // 4 x V100 of 16 GiB
	n.GPUs[2].Healthy = false
	capacity, allocatable, err := spec.Resources(n)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, name := range []v1.ResourceName{api.ResourceGPU, api.ResourceGPUMemory} {
		all, healthy := capacity[name], allocatable[name]
		got["all "+string(name)], got["healthy "+string(name)] = all.Value(), healthy.Value()
	}
	want := map[string]int64{
		"all nvidia.com/gpu": 4, "healthy nvidia.com/gpu": 3,
		"all nvidia.com/gpu-memory": 64, "healthy nvidia.com/gpu-memory": 48,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Resources with GPU 2 unhealthy (-want +got):\n%s", diff)
	}
	for i := range n.GPUs {
		n.GPUs[i].Healthy = false
	}
	if _, allocatable, err = spec.Resources(n); err != nil {
		t.Fatal(err)
	}
	if left, ok := allocatable[api.ResourceGPU]; !ok || left.Value() != 0 {
		t.Errorf("with no healthy GPU allocatable is %s (there: %v), want 0", left.String(), ok)
	}
}

// rows: NB-10 AS-24
func TestLabels(t *testing.T) {
	tests := []struct {
		name, fleet, node string
		want              map[string]string // "-" is absent
	}{
		{name: "the labels that the GPU module prints", fleet: "../../test/fleets/seed001.yaml", node: "gpu-node-1", want: map[string]string{
			"nvidia.com/cuda.driver.major": "525", "nvidia.com/cuda.driver.minor": "116", "nvidia.com/cuda.driver.rev": "04",
			"nvidia.com/cuda.runtime.major": "12", "nvidia.com/cuda.runtime.minor": "0", "nvidia.com/gpu.count": "8",
			"nvidia.com/gpu.product": "Tesla-V100-SXM2-32GB", "nvidia.com/gpu.memory": "32768", "nvidia.com/mig.strategy": "single",
		}},
		{name: "where a node is and how it was bought", fleet: "default", node: "gpu-t4-2", want: map[string]string{
			"kubernetes.io/hostname": "gpu-t4-2", "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
			"topology.kubernetes.io/zone": "us-east-1c", "topology.kubernetes.io/region": "us-east-1",
			"node.kubernetes.io/instance-type": "g4dn.12xlarge", "karpenter.sh/capacity-type": "spot",
			"nvidia.com/gpu.machine": "g4dn.12xlarge", "berth.dev/simulated": "true",
		}},
		{name: "shares show in the product and count as GPUs", fleet: "default", node: "gpu-t4-1", want: map[string]string{
			"nvidia.com/gpu.product": "Tesla-T4-SHARED", "nvidia.com/gpu.count": "4", "nvidia.com/gpu.replicas": "4",
			"nvidia.com/gpu.sharing-strategy": "time-slicing",
		}},
		{name: "the alias that tutorials select by", fleet: "lab", node: "gpu-node-3", want: map[string]string{"accelerator": "nvidia-gpu"}},
		{name: "labels that a course sets by hand are absent", fleet: "lab", node: "gpu-node-1", want: map[string]string{
			"gpu-type": "-", "gpu-memory": "-", "gpu-count": "-", "nvidia.com/gpu": "-",
		}},
		{name: "a node's own labels", fleet: "../../test/fleets/seed002.yaml", node: "gpu-node-1", want: map[string]string{"workload": "gpu"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			labels, got := node(t, tt.fleet, tt.node).Labels, map[string]string{}
			for key := range tt.want {
				value, ok := labels[key]
				if !ok {
					value = "-"
				}
				got[key] = value
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("labels of %s (-want +got):\n%s", tt.node, diff)
			}
		})
	}
}

// TestNodesAreValid holds what the API server checks on every node of every
// built-in fleet, and that nothing is shared or tainted in lab.
func TestNodesAreValid(t *testing.T) {
	for _, fleet := range []string{"lab", "default", "scale:3", "../../test/fleets/seed001.yaml", "../../test/fleets/mig.yaml"} {
		for _, n := range load(t, fleet).Nodes {
			k, err := spec.Kubernetes(n, "10.64.0.1", noon)
			if err != nil {
				t.Fatal(err)
			}
			for key, value := range k.Labels {
				if why := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...); len(why) > 0 {
					t.Errorf("%s/%s: label %s=%s: %s", fleet, n.Name, key, value, why)
				}
			}
			for key := range k.Annotations {
				if why := validation.IsQualifiedName(key); len(why) > 0 {
					t.Errorf("%s/%s: annotation %s: %s", fleet, n.Name, key, why)
				}
			}
			if fleet == "lab" && len(k.Spec.Taints) > 0 {
				t.Errorf("lab/%s: taints %v, want none", n.Name, k.Spec.Taints)
			}
		}
	}
}

func TestAnnotations(t *testing.T) {
	k := node(t, "../../test/fleets/mig.yaml", "gpu-each-1")
	if k.Annotations[api.AnnotationSimulated] != spec.Simulated || k.Annotations[api.AnnotationPrice] != "55.04" {
		t.Errorf("annotations = %v, want the sentence and the price", k.Annotations)
	}
	var list []devices.InventoryGPU
	if err := json.Unmarshal([]byte(k.Annotations[api.AnnotationInventory]), &list); err != nil {
		t.Fatal(err)
	}
	type cut struct{ MIG, ComputeSlices int }
	var got []cut
	for i, g := range list {
		if g.Index != i || g.Product != h100 || !g.Healthy || g.MemoryBytes != 81559<<20 || !strings.HasPrefix(g.UUID, "GPU-") {
			t.Errorf("GPU %d = %+v", i, g)
		}
		got = append(got, cut{len(g.MIG), g.ComputeSlices})
	}
	if diff := cmp.Diff([]cut{{0, 0}, {1, 7}, {2, 7}, {4, 7}}, got); diff != "" {
		t.Errorf("MIG devices and compute slices by GPU (-want +got):\n%s", diff)
	}
	var in gpu.Sharing
	if err := json.Unmarshal([]byte(k.Annotations[api.AnnotationPluginConfig]), &in); err != nil || in.MIGStrategy != gpu.MIGMixed {
		t.Errorf("configuration in force = %+v, %v; want mixed", in, err)
	}
	shared := node(t, "default", "gpu-t4-1")
	if err := json.Unmarshal([]byte(shared.Annotations[api.AnnotationInventory]), &list); err != nil || list[0].Shares != 4 {
		t.Errorf("shares of a GPU time-sliced by four = %d, %v", list[0].Shares, err)
	}
}

func TestNodeStatus(t *testing.T) {
	k := node(t, "lab", "gpu-node-2")
	want := []v1.NodeAddress{
		{Type: v1.NodeInternalIP, Address: "10.64.0.7"},
		{Type: v1.NodeInternalDNS, Address: "gpu-node-2.sim.internal"},
		{Type: v1.NodeHostName, Address: "gpu-node-2"},
	}
	if diff := cmp.Diff(want, k.Status.Addresses); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	for _, c := range k.Status.Conditions {
		ready := c.Type == v1.NodeReady
		if (c.Status == v1.ConditionTrue) != ready || !c.LastHeartbeatTime.Time.Equal(noon) || c.Reason == "" {
			t.Errorf("condition %+v", c)
		}
	}
	if port := k.Status.DaemonEndpoints.KubeletEndpoint.Port; port != 10250 {
		t.Errorf("kubelet port = %d, want 10250", port)
	}
	info := k.Status.NodeInfo
	if !strings.Contains(info.OSImage, "Simulated") || info.KubeletVersion != "v1.36.3-berth-sim" || info.ContainerRuntimeVersion != "berth-sim://1" {
		t.Errorf("node info = %+v", info)
	}
	if again := node(t, "lab", "gpu-node-2"); again.Status.NodeInfo != info {
		t.Errorf("node info changed between two reads: %+v, then %+v", info, again.Status.NodeInfo)
	}
}

func TestPatchTakesBackWhatSharingNoLongerSays(t *testing.T) {
	n := load(t, "../../test/fleets/mig.yaml").Nodes[0] // 7 x 1g.5gb on each
	old := spec.Labels(n)
	old["team"], old["nvidia.com/gpu"] = "vision", "true"
	n.Sharing.MIGStrategy = gpu.MIGNone
	raw, err := spec.Patch(n, old)
	if err != nil {
		t.Fatal(err)
	}
	var patch struct {
		Metadata struct {
			Labels      map[string]*string
			Annotations map[string]string
		}
	}
	if err := json.Unmarshal(raw, &patch); err != nil {
		t.Fatal(err)
	}
	labels := patch.Metadata.Labels
	for _, key := range []string{"nvidia.com/mig-1g.5gb.count", "nvidia.com/mig.strategy"} {
		if value, ok := labels[key]; !ok || value != nil {
			t.Errorf("label %s in the patch: there %v; want null", key, ok)
		}
	}
	for _, key := range []string{"team", "nvidia.com/gpu", "accelerator", "nvidia.com/gpu.count"} {
		if _, ok := labels[key]; ok {
			t.Errorf("label %s is in the patch, want it left alone", key)
		}
	}
	if !strings.Contains(patch.Metadata.Annotations[api.AnnotationPluginConfig], "none") {
		t.Errorf("configuration in force = %q, want none", patch.Metadata.Annotations[api.AnnotationPluginConfig])
	}
}

func TestRegion(t *testing.T) {
	tests := []struct{ name, zone, want string }{
		{name: "a zone of AWS", zone: "us-east-1a", want: "us-east-1"},
		{name: "a zone of Google Cloud", zone: "us-central1-a", want: "us-central1"},
		{name: "a zone of Azure", zone: "eastus-2", want: "eastus"},
		{name: "a region stays one", zone: "us-east-1", want: "us-east-1"},
		{name: "a rack is its own region", zone: "hall", want: "hall"},
		{name: "no zone is no region", zone: "", want: ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := spec.Region(tt.zone); got != tt.want {
				t.Errorf("Region(%q) = %q, want %q", tt.zone, got, tt.want)
			}
		})
	}
}

func BenchmarkKubernetes(b *testing.B) {
	f, err := spec.Load("scale:1")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := spec.Kubernetes(f.Nodes[0], "10.64.0.1", noon); err != nil {
			b.Fatal(err)
		}
	}
}
