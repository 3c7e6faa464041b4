package request_test

import (
	"math"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/commit"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/kubetest"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/kube/view"
)

func TestAmountsStayWithinTheirBound(t *testing.T) {
	for _, tt := range []struct {
		name, text   string
		whole, milli int64 // with a bound of 1000 whole units
	}{
		{"nothing", "0", 0, 0},
		{"a fraction", "250m", 1, 250},
		{"below the bound", "999", 999, 999_000},
		{"the bound", "1000", 1000, 1_000_000},
		{"a number that has no thousandths in an int64", "1e17", 1000, 1_000_000},
		{"a number beyond an int64", "1e30", 1000, 1_000_000},
		{"the largest int64", "9223372036854775807", 1000, 1_000_000},
		{"a negative number", "-3", -3, -3000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q := resource.MustParse(tt.text)
			if got := request.Amount(&q, 1000); got != tt.whole {
				t.Errorf("Amount(%s, 1000) = %d, want %d", tt.text, got, tt.whole)
			}
			if got := request.MilliAmount(&q, 1_000_000); got != tt.milli {
				t.Errorf("MilliAmount(%s, 1000000) = %d, want %d", tt.text, got, tt.milli)
			}
		})
	}
}

// containers makes a pod of two containers that each ask for so much of a resource.
func containers(name, amount string) *v1.Pod {
	list := v1.ResourceList{v1.ResourceName(name): resource.MustParse(amount)}
	c := v1.Container{Resources: v1.ResourceRequirements{Limits: list, Requests: list}}
	one, two := c, c
	one.Name, two.Name = "one", "two"
	return &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{one, two}}}
}

func TestRequestsOfTwoContainersDoNotWrapAround(t *testing.T) {
	for _, amount := range []string{"9223372036854775807", "1e17", "1e30"} {
		if got := request.Of(containers(api.ResourceGPU, amount))[api.ResourceGPU]; got < 1<<30 {
			t.Errorf("two containers of %s GPUs ask for %d, which a node may have", amount, got)
		}
		if r := request.Demand(containers("cpu", amount), gpu.Sharing{}); r.CPUMilli < 1<<40 {
			t.Errorf("two containers of %s CPUs ask for %d milli-CPUs, which a node may have", amount, r.CPUMilli)
		}
		if r := request.Demand(containers("memory", amount), gpu.Sharing{}); r.MemoryBytes < 1<<50 {
			t.Errorf("two containers of %s bytes ask for %d, which a node may have", amount, r.MemoryBytes)
		}
	}
}

func TestMemoryBesideGPUsDoesNotWrapAround(t *testing.T) {
	pod := containers(api.ResourceGPU, "1")
	pod.Spec.Containers = pod.Spec.Containers[:1]
	// 2^34+1 GiB in bytes are 1 GiB in an int64.
	pod.Spec.Containers[0].Resources.Limits[api.ResourceGPUMemory] = resource.MustParse("17179869185")
	node := kubetest.Publishing(map[string]string{api.AnnotationInventory: `[{"index":0,"uuid":"GPU-0","product":"Tesla T4","memoryBytes":16106127360,"healthy":true}]`})
	l, _, err := devices.Ledger(node, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := l.Allocate("a", request.Parts(pod)); err == nil {
		t.Errorf("a pod that asks for a GPU with 17179869185 GiB gets %v", got)
	}
}

func TestNumbersOfANodeAreBounded(t *testing.T) {
	gpus := func(fields string) map[string]string {
		return map[string]string{api.AnnotationInventory: `[{"index":0,"uuid":"GPU-0","product":"Tesla T4","memoryBytes":16106127360,"healthy":true` + fields + `}]`}
	}
	for _, tt := range []struct {
		name  string
		notes map[string]string
		want  string
	}{
		{"more shares than a device has", gpus(`,"shares":2000000000`), "GPU 0 of the list: shares 2000000000 is not 0 to 1000"},
		{"a negative index", gpus(`,"index":-1`), "GPU 0 of the list: index -1 is not 0 to 1048576"},
		{"more memory than an int64 can count in thousandths", gpus(`,"memoryBytes":9223372036854775807`), "GPU 0 of the list: memoryBytes 9223372036854775807 is not 0 to 1125899906842624"},
		{"compute slices below 0", gpus(`,"computeSlices":-7`), "GPU 0 of the list: computeSlices -7 is not 0 to 64"},
		{"a MIG device at a place below 0", gpus(`,"computeSlices":7,"mig":[{"uuid":"MIG-0","start":-1,"slices":1}]`), "MIG device 0 has start -1"},
		{"more GPUs than a node has", map[string]string{api.AnnotationInventory: "[" + strings.Repeat(`{"uuid":"x"},`, 256) + `{"uuid":"x"}]`}, "257 GPUs; a node has at most 256"},
		{"replicas that memory does not hold", map[string]string{
			api.AnnotationInventory:    gpus("")[api.AnnotationInventory],
			api.AnnotationPluginConfig: `{"Strategy":"time-slicing","Replicas":{"nvidia.com/gpu":3000000}}`,
		}, "annotation berth.dev/plugin-config: 3000000 replicas of nvidia.com/gpu: a device has at most 1000; ask for fewer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, s, err := devices.GPUs(kubetest.Publishing(tt.notes))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("GPUs = %+v, %v; want an error with %q", s, err, tt.want)
			}
			view.Cluster([]*v1.Node{kubetest.Publishing(tt.notes)}, nil) // reads it from labels and capacity
		})
	}
}

func TestACommittedDeviceIsAtMostOneGPU(t *testing.T) {
	for _, device := range []string{`{"uuid":"a","milliGPU":9223372036854775807}`, `{"uuid":"a","milliGPU":-1}`, `{"uuid":"a","memoryBytes":-1}`, `{"uuid":"a","memoryBytes":9223372036854775807}`} {
		if got, err := commit.ParseCommitment(`{"main":[` + device + `]}`); err == nil {
			t.Errorf("ParseCommitment of %s = %v, want an error", device, got)
		}
		if got, err := commit.ObservedOn(kubetest.Publishing(map[string]string{api.AnnotationObserved: `{"uid":{"main":[` + device + `]}}`})); err == nil {
			t.Errorf("ObservedOn of %s = %v, want an error", device, got)
		}
	}
}

func FuzzNodeAnnotations(f *testing.F) {
	f.Add(`[{"index":0,"uuid":"GPU-0","product":"NVIDIA A100-SXM4-40GB","memoryBytes":42949672960,"healthy":true,"computeSlices":7,"mig":[{"uuid":"MIG-0","profile":"1g.5gb","start":0,"slices":1,"memoryBytes":5368709120}]}]`,
		`{"MIGStrategy":"mixed","Strategy":"time-slicing","Replicas":{"nvidia.com/mig-1g.5gb":4}}`, `{"main":[{"uuid":"MIG-0","milliGPU":142,"memoryBytes":5368709120}]}`)
	f.Add(`[{"uuid":"GPU-0","shares":1000}]`, `{"Strategy":"time-slicing","Replicas":{"nvidia.com/gpu":1000}}`, `{}`)
	f.Add(`[{"index":9223372036854775807}]`, `{"Replicas":{"nvidia.com/gpu":-9223372036854775808}}`, `{"main":[{"milliGPU":1e3}]}`)
	f.Fuzz(func(t *testing.T, inventory, plugin, devs string) {
		node := kubetest.Publishing(map[string]string{api.AnnotationInventory: inventory, api.AnnotationPluginConfig: plugin, api.AnnotationObserved: devs})
		pod := kubetest.Noted(kubetest.Asking("a", "gpu=1"), devs)
		l, _, err := devices.Ledger(node, []devices.Bound{{Pod: pod}})
		if err == nil && l != nil && len(l.Devices()) > sharing.MostDevices {
			t.Errorf("%d devices", len(l.Devices()))
		}
		for _, n := range view.Cluster([]*v1.Node{node}, []*v1.Pod{pod}).Nodes {
			for _, g := range n.GPUs {
				if g.MemoryBytes < 0 || g.MemoryBytes > math.MaxInt64/1000 {
					t.Errorf("a GPU of %d bytes", g.MemoryBytes)
				}
			}
		}
	})
}
