package devices_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/commit"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/kubetest"
	"berth.dev/berth/kube/request"
)

func ended(p *v1.Pod) *v1.Pod {
	p.Status.Phase = v1.PodSucceeded
	return p
}

func TestLedger(t *testing.T) {
	for _, tt := range []struct {
		name string
		pods []devices.Bound
		want string // owner:device, and problems
	}{
		{"an empty node holds nothing", nil, ""},
		{"a committed device is held by its pod", []devices.Bound{{Pod: kubetest.Noted(kubetest.Asking("a", "gpu=1"), `{"main":[{"uuid":"GPU-1"}]}`)}}, "a:GPU-1"},
		{"an assumed device counts until the annotation is there", []devices.Bound{{Pod: kubetest.Asking("a", "gpu=1"), Assumed: map[string][]sharing.Named{"main": {{UUID: "GPU-1"}}}}}, "a:GPU-1"},
		{"the annotation counts before what was assumed", []devices.Bound{{Pod: kubetest.Noted(kubetest.Asking("a", "gpu=1"), `{"main":[{"uuid":"GPU-0"}]}`), Assumed: map[string][]sharing.Named{"main": {{UUID: "GPU-1"}}}}}, "a:GPU-0"},
		{"an observed device is held", []devices.Bound{{Pod: kubetest.Reported(kubetest.Asking("a", "gpu=1"), api.ResourceGPU, "GPU-1")}}, "a:GPU-1"},
		{"a pod of which nothing is known gets what a device plugin would give", []devices.Bound{{Pod: kubetest.Asking("a", "gpu=1")}, {Pod: kubetest.Noted(kubetest.Asking("b", "gpu=1"), `{"main":[{"uuid":"GPU-0"}]}`)}}, "a:GPU-1 b:GPU-0"},
		{"a committed device that has failed stays held", []devices.Bound{{Pod: kubetest.Noted(kubetest.Asking("a", "gpu=1"), `{"main":[{"uuid":"GPU-2"}]}`)}}, "a:GPU-2"},
		{"a pod that has ended holds nothing", []devices.Bound{{Pod: ended(kubetest.Noted(kubetest.Asking("a", "gpu=1"), `{"main":[{"uuid":"GPU-0"}]}`))}}, ""},
		{"of two that claim one device the one that runs has it", []devices.Bound{
			{Pod: kubetest.Noted(kubetest.Asking("a", "gpu=1"), `{"main":[{"uuid":"GPU-0"}]}`)}, {Pod: kubetest.Reported(kubetest.Asking("b", "gpu=1"), api.ResourceGPU, "GPU-0")},
		}, "b:GPU-0 | count pod /a: device GPU-0 of nvidia.com/gpu: it is held by b"},
		{"shares by memory lie beside one another", []devices.Bound{
			{Pod: kubetest.Noted(kubetest.Asking("a", "gpu-memory=6"), `{"main":[{"uuid":"GPU-0"}]}`)}, {Pod: kubetest.Noted(kubetest.Asking("b", "gpu-memory=6"), `{"main":[{"uuid":"GPU-0"}]}`)},
		}, "a:GPU-0::mem-6-0 b:GPU-0::mem-6-1"},
		{"an annotation that is no JSON leaves it to what is observed", []devices.Bound{{Pod: kubetest.Noted(kubetest.Reported(kubetest.Asking("a", "gpu=1"), api.ResourceGPU, "GPU-1"), "x")}}, "a:GPU-1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, problems, err := devices.Ledger(kubetest.Publishing(map[string]string{api.AnnotationInventory: kubetest.Inventory3}), tt.pods)
			if err != nil {
				t.Fatal(err)
			}
			var held []string
			for _, h := range l.Held() {
				held = append(held, h.Owner+":"+h.Device.ID)
			}
			got := strings.Join(held, " ")
			for _, p := range problems {
				got += " | " + p.Error()
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestANodeThatPublishesNothingHasNoLedger(t *testing.T) {
	if l, _, err := devices.Ledger(kubetest.Publishing(nil), nil); l != nil || err != nil {
		t.Errorf("got %v, %v", l, err)
	}
	for _, notes := range []map[string]string{
		{api.AnnotationInventory: "no"}, {api.AnnotationInventory: kubetest.Inventory3, api.AnnotationPluginConfig: "no"},
	} {
		if _, _, err := devices.Ledger(kubetest.Publishing(notes), nil); err == nil || !strings.Contains(err.Error(), "node n: ") {
			t.Errorf("notes %v: error %v does not name the node", notes, err)
		}
	}
}

func TestParts(t *testing.T) {
	always := v1.ContainerRestartPolicyAlways
	pod := kubetest.Asking("a", "gpu=1", "gpu-memory=20")
	pod.Spec.InitContainers = []v1.Container{
		{Name: "init", Resources: kubetest.Asking("", "gpu=2").Spec.Containers[0].Resources},
		{Name: "none"},
		{Name: "side", RestartPolicy: &always, Resources: kubetest.Asking("", "gpu-memory=4", "mig-1g.5gb=1").Spec.Containers[0].Resources},
	}
	want := "[{init true [{nvidia.com/gpu 2 0 0}]} {side false [{nvidia.com/gpu-memory 4 0 0} {nvidia.com/mig-1g.5gb 1 0 0}]} {main false [{nvidia.com/gpu 1 20 0}]}]"
	if diff := cmp.Diff(want, fmt.Sprint(request.Parts(pod))); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestACommitmentReadsBack(t *testing.T) {
	parts := []sharing.Part{{Name: "a"}, {Name: "b"}}
	devices := [][]sharing.Device{{{UUID: "GPU-1", MilliGPU: 400, MemoryBytes: 5}}, {{UUID: "GPU-2"}, {UUID: "GPU-3"}}}
	text, err := commit.Commitment(parts, devices)
	if err != nil {
		t.Fatal(err)
	}
	got, err := commit.ParseCommitment(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string][]sharing.Named{"a": sharing.NamedOf(devices[0]), "b": sharing.NamedOf(devices[1])}, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestDemand(t *testing.T) {
	shared := gpu.Sharing{Replicas: map[string]int{api.ResourceGPU: 4}}
	for _, tt := range []struct {
		name    string
		pod     *v1.Pod
		sharing gpu.Sharing
		want    string // GPUs, milli, GiB, profile
	}{
		{"whole GPUs", kubetest.Asking("a", "gpu=2"), gpu.Sharing{}, "2 1000 0 "},
		{"time slices", kubetest.Asking("a", "gpu=1"), shared, "1 250 0 "},
		{"renamed time slices", kubetest.Asking("a", "gpu.shared=1"), shared, "1 250 0 "},
		{"a share by memory", kubetest.Asking("a", "gpu-memory=6"), gpu.Sharing{}, "1 0 6 "},
		{"memory beside a GPU is a whole GPU", kubetest.Asking("a", "gpu=1", "gpu-memory=6"), gpu.Sharing{}, "1 1000 0 "},
		{"MIG devices", kubetest.Asking("a", "mig-1g.5gb=3"), gpu.Sharing{}, "3 0 0 1g.5gb"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := request.Demand(tt.pod, tt.sharing)
			if err := r.Validate(); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(tt.want, fmt.Sprint(r.GPUs, " ", r.MilliGPU, " ", r.GPUMemoryBytes>>30, " ", r.Profile)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}
