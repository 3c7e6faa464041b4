package devices_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/kubetest"
)

func slice(driver, node, pool string, generation int64, count int) *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{Driver: driver, Pool: resourcev1.ResourcePool{Name: pool, Generation: generation}}}
	if node != "" {
		s.Spec.NodeName = &node
	}
	s.Spec.Devices = make([]resourcev1.Device, count)
	return s
}

func class(resource string) *resourcev1.DeviceClass {
	return &resourcev1.DeviceClass{Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: &resource}}
}

func TestReadDRA(t *testing.T) {
	const gpu = devices.DRADriver
	tests := []struct {
		name    string
		slices  []*resourcev1.ResourceSlice
		classes []*resourcev1.DeviceClass
		want    devices.DRA
	}{
		{name: "a cluster without a driver has none", want: devices.DRA{Devices: map[string]int{}}},
		{
			name:   "a pool in two slices counts both",
			slices: []*resourcev1.ResourceSlice{slice(gpu, "a", "a", 1, 5), slice(gpu, "a", "a", 1, 3), slice(gpu, "b", "b", 4, 1)},
			want:   devices.DRA{Devices: map[string]int{"a": 8, "b": 1}},
		},
		{
			name:   "a pool that is being renewed counts by its newest generation",
			slices: []*resourcev1.ResourceSlice{slice(gpu, "a", "a", 2, 3), slice(gpu, "a", "a", 1, 5)},
			want:   devices.DRA{Devices: map[string]int{"a": 3}},
		},
		{
			name: "other drivers, offers of no node, and empty slices do not count",
			slices: []*resourcev1.ResourceSlice{
				slice("compute-domain.nvidia.com", "a", "a", 1, 3), slice(gpu, "", "all", 1, 5), slice(gpu, "a", "a", 1, 0),
			},
			want: devices.DRA{Devices: map[string]int{}},
		},
		{
			name:    "classes that name GPU resources are named once, sorted",
			classes: []*resourcev1.DeviceClass{class("nvidia.com/mig-1g.5gb"), class("example.com/nic"), class(api.ResourceGPU), class(api.ResourceGPU), {}},
			want:    devices.DRA{Devices: map[string]int{}, Resources: []string{api.ResourceGPU, "nvidia.com/mig-1g.5gb"}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, devices.ReadDRA(tt.slices, tt.classes)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOnlyCountsNodesWithoutAResource(t *testing.T) {
	d := devices.ReadDRA([]*resourcev1.ResourceSlice{slice(devices.DRADriver, "both", "both", 1, 8), slice(devices.DRADriver, "only", "only", 1, 4)}, []*resourcev1.DeviceClass{class(api.ResourceGPU)})
	for node, want := range map[*v1.Node]int{
		kubetest.Inventory("both", nil, api.ResourceGPU, 8): 0,
		kubetest.Inventory("only", nil):                     4,
		kubetest.Inventory("only", nil, api.ResourceGPU, 0): 4,
		kubetest.Inventory("none", nil):                     0,
	} {
		if got := d.Only(node); got != want {
			t.Errorf("%s offers %d devices to claims only, want %d", node.Name, got, want)
		}
	}
	if !d.Stock(api.ResourceGPU) || d.Stock("nvidia.com/mig-1g.5gb") {
		t.Error("kube-scheduler serves the resource that a class names, and no other")
	}
	if d.Berth = true; d.Stock(api.ResourceGPU) {
		t.Error("with Berth's scheduler there is no such service")
	}
}
