package request_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"berth.dev/berth/kube/kubetest"
	"berth.dev/berth/kube/request"
)

// container asks for resources of nvidia.com, as in kubetest.Asking.
func container(name string, wants ...string) v1.Container {
	c := kubetest.Asking("", wants...).Spec.Containers[0]
	c.Name = name
	return c
}

func sidecar(name string, wants ...string) v1.Container {
	c := container(name, wants...)
	always := v1.ContainerRestartPolicyAlways
	c.RestartPolicy = &always
	return c
}

func TestAsks(t *testing.T) {
	for _, tt := range []struct {
		name string
		init []v1.Container
		main []v1.Container
		want string
	}{
		{"nothing", nil, []v1.Container{container("a")}, ""},
		{"containers add up", nil, []v1.Container{container("a", "gpu=1"), container("b", "gpu=2")}, "3 nvidia.com/gpu"},
		{"an init container hands its devices on", []v1.Container{container("i", "gpu=2")}, []v1.Container{container("a", "gpu=1")}, "2 nvidia.com/gpu"},
		{"an init container with less needs nothing more", []v1.Container{container("i", "gpu=1")}, []v1.Container{container("a", "gpu=2")}, "2 nvidia.com/gpu"},
		{"a sidecar keeps its devices", []v1.Container{sidecar("s", "gpu=1"), container("i", "gpu=2")}, []v1.Container{container("a", "gpu=1")}, "3 nvidia.com/gpu"},
		{"init containers follow each other", []v1.Container{container("i", "gpu=2"), container("j", "gpu=3")}, []v1.Container{container("a", "gpu=1")}, "3 nvidia.com/gpu"},
		{"memory beside GPUs is not a share", nil, []v1.Container{container("a", "gpu=1", "gpu-memory=6")}, "1 nvidia.com/gpu"},
		{"memory of another container is a share", nil, []v1.Container{container("a", "gpu=1", "gpu-memory=6"), container("b", "gpu-memory=4")}, "1 nvidia.com/gpu, 1 nvidia.com/gpu-memory of 4 GiB"},
		{"two shares by memory are two", nil, []v1.Container{container("a", "gpu-memory=6"), container("b", "gpu-memory=6")}, "2 nvidia.com/gpu-memory of 6 GiB"},
		{"a smaller share uses that of an init container", []v1.Container{container("i", "gpu-memory=6")}, []v1.Container{container("a", "gpu-memory=4")}, "1 nvidia.com/gpu-memory of 6 GiB"},
		{"a greater share needs another", []v1.Container{container("i", "gpu-memory=4")}, []v1.Container{container("a", "gpu-memory=6")}, "1 nvidia.com/gpu-memory of 4 GiB, 1 nvidia.com/gpu-memory of 6 GiB"},
		{"one share is handed on to one container alone", []v1.Container{container("i", "gpu-memory=6")}, []v1.Container{container("a", "gpu-memory=4"), container("b", "gpu-memory=4")}, "1 nvidia.com/gpu-memory of 4 GiB, 1 nvidia.com/gpu-memory of 6 GiB"},
		{"MIG devices and shares by name", nil, []v1.Container{container("a", "mig-1g.5gb=2", "gpu.shared=1")}, "1 nvidia.com/gpu.shared, 2 nvidia.com/mig-1g.5gb"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := &v1.Pod{Spec: v1.PodSpec{InitContainers: tt.init, Containers: tt.main}}
			if diff := cmp.Diff(tt.want, asksOf(pod)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func asksOf(pod *v1.Pod) string {
	var out []string
	for _, a := range request.Asks(pod) {
		text := fmt.Sprint(a.Count, " ", a.Resource)
		if size, _, ok := a.ShareOf(); ok {
			text += " of " + size.String()
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// TestAsksCountsDevicesAsOfDoes compares with the count of the scheduler, for requests
// without shares by size.
func TestAsksCountsDevicesAsOfDoes(t *testing.T) {
	for n := range 3 * 3 * 3 * 3 {
		digit := func(i int) string { return fmt.Sprint([]int{n, n / 3, n / 9, n / 27}[i] % 3) }
		pod := &v1.Pod{Spec: v1.PodSpec{
			InitContainers: []v1.Container{container("i", "gpu="+digit(0)), sidecar("s", "gpu="+digit(1)), container("j", "gpu="+digit(2))},
			Containers:     []v1.Container{container("a", "gpu="+digit(3))},
		}}
		got := int64(0)
		for _, a := range request.Asks(pod) {
			got += a.Count
		}
		if want := request.Of(pod)["nvidia.com/gpu"]; got != want {
			t.Errorf("init %s, sidecar %s, init %s, main %s: %d devices, Of says %d", digit(0), digit(1), digit(2), digit(3), got, want)
		}
		if asks := request.AsksForGPUs(pod); asks != (request.Of(pod) != nil) {
			t.Errorf("init %s, sidecar %s, init %s, main %s asks for GPUs: %v, as Of says %v", digit(0), digit(1), digit(2), digit(3), asks, request.Of(pod))
		}
	}
	many := container("a", "gpu=1")
	many.Resources.Limits["nvidia.com/gpu"] = resource.MustParse("1e30")
	if got := asksOf(&v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{many}}}); got != fmt.Sprint(request.MostAsked, " nvidia.com/gpu") {
		t.Errorf("1e30 GPUs count as %s", got)
	}
}
