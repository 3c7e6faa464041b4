package exporter_test

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"berth.dev/berth/agent/exporter"
	"berth.dev/berth/core/sharing"
)

// lister plays the kubelet's side.
type lister struct {
	podresources.UnimplementedPodResourcesListerServer
	pods []*podresources.PodResources
}

func (l *lister) List(context.Context, *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	return &podresources.ListPodResourcesResponse{PodResources: l.pods}, nil
}

// kubelet serves pods on a unix socket, of which the path is given.
func kubelet(t *testing.T, pods ...*podresources.PodResources) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	podresources.RegisterPodResourcesListerServer(s, &lister{pods: pods})
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return socket
}

func newKubelet(t *testing.T, socket string, resources ...string) *exporter.Kubelet {
	k := exporter.NewKubelet(socket, resources)
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	return k
}

func entry(resource string, ids ...string) *podresources.ContainerDevices {
	return &podresources.ContainerDevices{ResourceName: resource, DeviceIds: ids}
}

func podWith(name string, devices ...*podresources.ContainerDevices) *podresources.PodResources {
	return &podresources.PodResources{Namespace: "ns", Name: name, Containers: []*podresources.ContainerResources{{Name: "main", Devices: devices}}}
}

func TestTheKubeletTellsWhoHoldsWhat(t *testing.T) {
	r := newRig(t, 4, 3)
	whole, other, mig := r.uuid(0), r.uuid(1), r.snapshot.GPUs[3].MIG
	old := "MIG-" + r.uuid(3) + "/" + "7/0"
	socket := kubelet(t,
		podWith("one-entry-per-device", entry("nvidia.com/gpu", whole), entry("nvidia.com/gpu", other)),
		podWith("shared", entry("nvidia.com/gpu.shared", whole+"::3")), // NVIDIA/dcgm-exporter#151
		podWith("mig", entry("nvidia.com/mig-1g.10gb", mig[0].UUID)),
		podWith("mig-shared", entry("nvidia.com/mig-1g.10gb.shared", mig[1].UUID+"::0")),
		podWith("mig-old", entry("nvidia.com/mig-1g.10gb", old)),
		podWith("gke", entry("nvidia.com/gpu", "nvidia1"), entry("nvidia.com/gpu", "nvidia3/gi8")),
		podWith("gke-shared", entry("nvidia.com/gpu", "nvidia2/vgpu1"), entry("nvidia.com/gpu", "nvidia3/gi9/vgpu0")),
		podWith("renamed", entry("example.com/gpu", whole)),
		podWith("tokens", entry("nvidia.com/gpu", "gpu-0")),
		podWith("gone", entry("nvidia.com/gpu", "GPU-gone", "nvidia9", "nvidia3/gi99", "nvidia3/x/y/z", "nvidia", "")),
		podWith("else", entry("example.com/nic", "eth0")),
	)
	k := newKubelet(t, socket, "example.com/gpu")
	holders, err := k.Holders(t.Context(), r.snapshot)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]sharing.Device{}
	for _, h := range holders {
		got[h.Pod] = h.Devices
	}
	device := func(resource, uuid, id string) sharing.Device {
		return sharing.Device{Resource: resource, UUID: uuid, ID: id}
	}
	gi := func(gi int) string {
		for _, m := range mig {
			if m.GI == gi {
				return m.UUID
			}
		}
		return "none"
	}
	want := map[string][]sharing.Device{
		"one-entry-per-device": {device("nvidia.com/gpu", whole, whole), device("nvidia.com/gpu", other, other)},
		"shared":               {device("nvidia.com/gpu.shared", whole, whole+"::3")},
		"mig":                  {device("nvidia.com/mig-1g.10gb", mig[0].UUID, mig[0].UUID)},
		"mig-shared":           {device("nvidia.com/mig-1g.10gb.shared", mig[1].UUID, mig[1].UUID+"::0")},
		"mig-old":              {device("nvidia.com/mig-1g.10gb", gi(7), gi(7))},
		"gke":                  {device("nvidia.com/gpu", other, other), device("nvidia.com/gpu", gi(8), gi(8))},
		"gke-shared":           {device("nvidia.com/gpu", r.uuid(2), "nvidia2/vgpu1"), device("nvidia.com/gpu", gi(9), "nvidia3/gi9/vgpu0")},
		"renamed":              {device("example.com/gpu", whole, whole)},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("Holders (-want +got):\n%s", d)
	}
}

func TestAKubeletThatIsNotThere(t *testing.T) {
	r := newRig(t, 1)
	r.holds("committed", r.uuid(0), -1, 1000)
	k := exporter.NewKubelet(filepath.Join(t.TempDir(), "kubelet.sock"), nil)
	if _, err := k.Holders(t.Context(), r.snapshot); err == nil || !strings.Contains(err.Error(), "mount the kubelet's pod-resources directory there") {
		t.Errorf("Holders = %v", err)
	}
	r.sources.Kubelet = k.Holders
	families := parse(t, r.scrape(t))
	if d := cmp.Diff([]string{"team-a/committed 97"}, podsOf(families, "DCGM_FI_DEV_GPU_UTIL")); d != "" {
		t.Errorf("pods without the kubelet's answer (-want +got):\n%s", d)
	}
}

// A pod that is in the agent's own table is not counted again where the kubelet,
// which was given tokens or other devices, tells of it too.
func TestTheAgentsTableGoesBeforeTheKubelet(t *testing.T) {
	r := newRig(t, 2)
	r.own = []exporter.Holder{
		{Namespace: "ns", Pod: "moved", Container: "main", PodUID: "u", Devices: []sharing.Device{{ID: r.uuid(1), UUID: r.uuid(1), MilliGPU: 1000}}, Committed: true},
		// An init container that hands its GPU on.
		{Namespace: "ns", Pod: "two", Container: "init", PodUID: "v", Devices: []sharing.Device{{ID: r.uuid(0), UUID: r.uuid(0), MilliGPU: 1000}}},
		{Namespace: "ns", Pod: "two", Container: "main", PodUID: "v", Devices: []sharing.Device{{ID: r.uuid(0), UUID: r.uuid(0), MilliGPU: 1000}}},
	}
	k := newKubelet(t, kubelet(t, podWith("moved", entry("nvidia.com/gpu", r.uuid(0)))))
	r.sources.Kubelet = k.Holders
	var got []string
	for _, m := range parse(t, r.scrape(t))["DCGM_FI_DEV_GPU_TEMP"].GetMetric() {
		l := labels(m)
		got = append(got, l["gpu"]+" "+l["pod"]+" "+l["container"])
	}
	if d := cmp.Diff([]string{"0 two main", "1 moved main"}, got); d != "" {
		t.Errorf("holders (-want +got):\n%s", d)
	}
}
