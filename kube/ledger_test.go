package kube_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube"
)

const inventory3 = `[{"index":0,"uuid":"GPU-0","product":"Tesla T4","memoryBytes":16106127360,"healthy":true},` +
	`{"index":1,"uuid":"GPU-1","product":"Tesla T4","memoryBytes":16106127360,"healthy":true},` +
	`{"index":2,"uuid":"GPU-2","product":"Tesla T4","memoryBytes":16106127360,"healthy":false}]`

func publishing(notes map[string]string) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: notes}}
}

// asking is a pod whose container main wants resources such as "gpu=1".
func asking(name string, wants ...string) *v1.Pod {
	limits := v1.ResourceList{}
	for _, w := range wants {
		what, n, _ := strings.Cut(w, "=")
		limits[v1.ResourceName("nvidia.com/"+what)] = resource.MustParse(n)
	}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{Limits: limits}}}},
	}
}

func reported(p *v1.Pod, resource string, ids ...string) *v1.Pod {
	s := v1.ResourceStatus{Name: v1.ResourceName(resource)}
	for _, id := range ids {
		s.Resources = append(s.Resources, v1.ResourceHealth{ResourceID: v1.ResourceID(id)})
	}
	p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "main", AllocatedResourcesStatus: []v1.ResourceStatus{s}}}
	return p
}

func noted(p *v1.Pod, annotation string) *v1.Pod {
	p.Annotations = map[string]string{api.AnnotationDevices: annotation}
	return p
}

func ended(p *v1.Pod) *v1.Pod {
	p.Status.Phase = v1.PodSucceeded
	return p
}

func TestLedger(t *testing.T) {
	for _, tt := range []struct {
		name string
		pods []kube.Bound
		want string // owner:device, and problems
	}{
		{"an empty node holds nothing", nil, ""},
		{"a committed device is held by its pod", []kube.Bound{{Pod: noted(asking("a", "gpu=1"), `{"main":[{"uuid":"GPU-1"}]}`)}}, "a:GPU-1"},
		{"an assumed device counts until the annotation is there", []kube.Bound{{Pod: asking("a", "gpu=1"), Assumed: map[string][]sharing.Named{"main": {{UUID: "GPU-1"}}}}}, "a:GPU-1"},
		{"the annotation counts before what was assumed", []kube.Bound{{Pod: noted(asking("a", "gpu=1"), `{"main":[{"uuid":"GPU-0"}]}`), Assumed: map[string][]sharing.Named{"main": {{UUID: "GPU-1"}}}}}, "a:GPU-0"},
		{"an observed device is held", []kube.Bound{{Pod: reported(asking("a", "gpu=1"), api.ResourceGPU, "GPU-1")}}, "a:GPU-1"},
		{"a pod of which nothing is known gets what a device plugin would give", []kube.Bound{{Pod: asking("a", "gpu=1")}, {Pod: noted(asking("b", "gpu=1"), `{"main":[{"uuid":"GPU-0"}]}`)}}, "a:GPU-1 b:GPU-0"},
		{"a committed device that has failed stays held", []kube.Bound{{Pod: noted(asking("a", "gpu=1"), `{"main":[{"uuid":"GPU-2"}]}`)}}, "a:GPU-2"},
		{"a pod that has ended holds nothing", []kube.Bound{{Pod: ended(noted(asking("a", "gpu=1"), `{"main":[{"uuid":"GPU-0"}]}`))}}, ""},
		{"of two that claim one device the one that runs has it", []kube.Bound{
			{Pod: noted(asking("a", "gpu=1"), `{"main":[{"uuid":"GPU-0"}]}`)}, {Pod: reported(asking("b", "gpu=1"), api.ResourceGPU, "GPU-0")},
		}, "b:GPU-0 | count pod /a: device GPU-0 of nvidia.com/gpu: it is held by b"},
		{"shares by memory lie beside one another", []kube.Bound{
			{Pod: noted(asking("a", "gpu-memory=6"), `{"main":[{"uuid":"GPU-0"}]}`)}, {Pod: noted(asking("b", "gpu-memory=6"), `{"main":[{"uuid":"GPU-0"}]}`)},
		}, "a:GPU-0::mem-6-0 b:GPU-0::mem-6-1"},
		{"an annotation that is no JSON leaves it to what is observed", []kube.Bound{{Pod: noted(reported(asking("a", "gpu=1"), api.ResourceGPU, "GPU-1"), "x")}}, "a:GPU-1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, problems, err := kube.Ledger(publishing(map[string]string{api.AnnotationInventory: inventory3}), tt.pods)
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
	if l, _, err := kube.Ledger(publishing(nil), nil); l != nil || err != nil {
		t.Errorf("got %v, %v", l, err)
	}
	for _, notes := range []map[string]string{
		{api.AnnotationInventory: "no"}, {api.AnnotationInventory: inventory3, api.AnnotationPluginConfig: "no"},
	} {
		if _, _, err := kube.Ledger(publishing(notes), nil); err == nil || !strings.Contains(err.Error(), "node n: ") {
			t.Errorf("notes %v: error %v does not name the node", notes, err)
		}
	}
}

func TestParts(t *testing.T) {
	always := v1.ContainerRestartPolicyAlways
	pod := asking("a", "gpu=1", "gpu-memory=20")
	pod.Spec.InitContainers = []v1.Container{
		{Name: "init", Resources: asking("", "gpu=2").Spec.Containers[0].Resources},
		{Name: "none"},
		{Name: "side", RestartPolicy: &always, Resources: asking("", "gpu-memory=4", "mig-1g.5gb=1").Spec.Containers[0].Resources},
	}
	want := "[{init true [{nvidia.com/gpu 2 0 0}]} {side false [{nvidia.com/gpu-memory 4 0 0} {nvidia.com/mig-1g.5gb 1 0 0}]} {main false [{nvidia.com/gpu 1 20 0}]}]"
	if diff := cmp.Diff(want, fmt.Sprint(kube.Parts(pod))); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestACommitmentReadsBack(t *testing.T) {
	parts := []sharing.Part{{Name: "a"}, {Name: "b"}}
	devices := [][]sharing.Device{{{UUID: "GPU-1", MilliGPU: 400, MemoryBytes: 5}}, {{UUID: "GPU-2"}, {UUID: "GPU-3"}}}
	text, err := kube.Commitment(parts, devices)
	if err != nil {
		t.Fatal(err)
	}
	got, err := kube.ParseCommitment(text)
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
		{"whole GPUs", asking("a", "gpu=2"), gpu.Sharing{}, "2 1000 0 "},
		{"time slices", asking("a", "gpu=1"), shared, "1 250 0 "},
		{"renamed time slices", asking("a", "gpu.shared=1"), shared, "1 250 0 "},
		{"a share by memory", asking("a", "gpu-memory=6"), gpu.Sharing{}, "1 0 6 "},
		{"memory beside a GPU is a whole GPU", asking("a", "gpu=1", "gpu-memory=6"), gpu.Sharing{}, "1 1000 0 "},
		{"MIG devices", asking("a", "mig-1g.5gb=3"), gpu.Sharing{}, "3 0 0 1g.5gb"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := kube.Demand(tt.pod, tt.sharing)
			if err := r.Validate(); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(tt.want, fmt.Sprint(r.GPUs, " ", r.MilliGPU, " ", r.GPUMemoryBytes>>30, " ", r.Profile)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}
