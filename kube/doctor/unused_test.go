package doctor_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/doctor"
	"berth.dev/berth/kube/kubetest"
)

func TestGPUsThatPodsCannotGetOrNeedNotHold(t *testing.T) {
	holds := func(name string, gpus int, edit func(*v1.Pod)) *v1.Pod {
		p := kubetest.Pod(name, "n", api.ResourceGPU, gpus)
		if gpus == 0 {
			p = kubetest.Pod(name, "n", "cpu", 1)
		}
		edit(p)
		return p
	}
	asks := func(cpu, memory string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
		}
	}
	privileged := func(p *v1.Pod) { p.Spec.Containers[0].SecurityContext = &v1.SecurityContext{Privileged: new(true)} }
	for _, tt := range []struct {
		name string
		pods []*v1.Pod
		of   string
		want string
	}{
		{"enough is left", []*v1.Pod{holds("a", 1, asks("7", "30Gi"))}, "stranded", ""},
		{"no CPU is left", []*v1.Pod{holds("a", 1, asks("7500m", "1Gi"))}, "stranded", "1 node has free GPUs that no pod can get, as others hold all CPU or memory there: n (1 GPU, no CPU left)"},
		{"no memory is left, for pods without GPUs", []*v1.Pod{holds("a", 0, asks("1", "63.5Gi"))}, "stranded", "1 node has free GPUs that no pod can get, as others hold all CPU or memory there: n (2 GPUs, no memory left)"},
		{"all GPUs are held", []*v1.Pod{holds("a", 2, asks("8", "1Gi"))}, "stranded", ""},
		{"a privileged pod without a GPU", []*v1.Pod{holds("a", 0, privileged)}, "privileged", "1 pod on nodes with GPUs is privileged and asks for none: it can use GPUs that others hold: ns/a"},
		{"a privileged pod that holds one", []*v1.Pod{holds("a", 1, privileged)}, "privileged", ""},
		{"a privileged pod of the cluster", []*v1.Pod{holds("a", 0, func(p *v1.Pod) { privileged(p); p.Namespace = "kube-system" })}, "privileged", ""},
		{"a privileged pod of a DaemonSet", []*v1.Pod{holds("a", 0, func(p *v1.Pod) {
			privileged(p)
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "d", Controller: new(true)}}
		})}, "privileged", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			node := kubetest.Inventory("n", kubetest.A100s("n", 2), "cpu", 8, api.ResourceGPU, 2)
			node.Status.Allocatable[v1.ResourceMemory] = resource.MustParse("64Gi")
			got := ""
			for _, f := range doctor.Examine(doctor.Cluster{Nodes: []*v1.Node{node}, Pods: tt.pods}) {
				if f.Name == tt.of {
					got += f.Seen
				}
			}
			if got != tt.want {
				t.Errorf("found %q, want %q", got, tt.want)
			}
		})
	}
}
