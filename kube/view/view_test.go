package view_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/kubetest"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/kube/view"
)

// rows: GS-03 GS-10 GS-16 GS-92 GS-96 AS-33

// counted is the part of a Count that the cases state.
type counted struct {
	Physical, Unhealthy        int
	Held, Free, Broken, Closed int64
	Devices, DevicesHeld       int
	Sharing, Remark, HeldBy    string
}

func count(n devices.Node) counted {
	var by []string
	for _, h := range n.HeldBy {
		by = append(by, fmt.Sprintf("%s %s %d", h.Kind, h.Owner, h.MilliGPU))
	}
	return counted{
		n.Physical, n.Unhealthy, n.Held, n.Free, n.Broken, n.Closed, n.Devices, n.DevicesHeld, n.Sharing, n.Remark, strings.Join(by, ", "),
	}
}

func many(n int, nth func(i int) *v1.Pod) []*v1.Pod {
	var out []*v1.Pod
	for i := range n {
		out = append(out, nth(i))
	}
	return out
}

func TestClusterCountsPhysicalGPUs(t *testing.T) {
	gpu, mig := api.ResourceGPU, "nvidia.com/mig-1g.5gb"
	tests := []struct {
		name string
		node *v1.Node
		pods []*v1.Pod
		want counted
	}{
		{
			name: "whole GPUs are counted by the devices the kubelet reports",
			node: kubetest.Inventory("n", kubetest.A100s("n", 8), gpu, 8),
			pods: []*v1.Pod{kubetest.Observed(kubetest.Pod("p", "n", gpu, 2), gpu, "GPU-n-3", "GPU-n-5")},
			want: counted{Physical: 8, Held: 2000, Free: 6000, Devices: 8, DevicesHeld: 2, HeldBy: "Pod ns/p 2000"},
		},
		{
			// 17 of 56 devices of one slice of seven: 17/7 = 2.43 GPUs.
			name: "56 MIG devices of 8 GPUs are 8 GPUs",
			node: kubetest.Inventory("n", kubetest.Cut("n", kubetest.A100s("n", 8)), mig, 56),
			pods: many(17, func(i int) *v1.Pod {
				return kubetest.Observed(kubetest.Pod(fmt.Sprintf("p-%02d", i), "n", mig, 1), mig, fmt.Sprintf("MIG-n-%d-%d", i/7, i%7))
			}),
			want: counted{Physical: 8, Held: 2429, Free: 5571, Devices: 56, DevicesHeld: 17, Sharing: "MIG devices"},
		},
		{
			name: "all 56 MIG devices held are 8 GPUs to the milli",
			node: kubetest.Inventory("n", kubetest.Cut("n", kubetest.A100s("n", 8)), mig, 56),
			pods: many(56, func(i int) *v1.Pod {
				return kubetest.Committed(kubetest.Pod(fmt.Sprintf("p-%02d", i), "n", mig, 1), fmt.Sprintf(`{"c":[{"uuid":"MIG-n-%d-%d","milliGPU":142}]}`, i/7, i%7))
			}),
			want: counted{Physical: 8, Held: 8000, Devices: 56, DevicesHeld: 56, Sharing: "MIG devices"},
		},
		{
			name: "32 shares of 8 GPUs are 8 GPUs",
			node: kubetest.Inventory("n", kubetest.Share(kubetest.A100s("n", 8), 4), gpu, 32),
			pods: many(8, func(i int) *v1.Pod {
				return kubetest.Observed(kubetest.Pod(fmt.Sprintf("p-%02d", i), "n", gpu, 1), gpu, fmt.Sprintf("GPU-n-%d::%d", i/4, i%4))
			}),
			want: counted{Physical: 8, Held: 2000, Free: 6000, Devices: 32, DevicesHeld: 8, Sharing: "shares"},
		},
		{
			// 10 of 40 GiB is a quarter.
			name: "a share by memory counts by its memory",
			node: kubetest.Inventory("n", kubetest.A100s("n", 2), gpu, 2, api.ResourceGPUMemory, 80),
			pods: []*v1.Pod{kubetest.Observed(kubetest.Pod("p", "n", api.ResourceGPUMemory, 10), api.ResourceGPUMemory, "GPU-n-1::mem-10-1")},
			want: counted{Physical: 2, Held: 250, Free: 1750, Devices: 2, HeldBy: "Pod ns/p 250"},
		},
		{
			name: "a pod whose device nobody has told counts on its node",
			node: kubetest.Inventory("n", kubetest.A100s("n", 4), gpu, 4),
			pods: []*v1.Pod{kubetest.Pod("p", "n", gpu, 3)},
			want: counted{Physical: 4, Held: 3000, Free: 1000, Devices: 4, DevicesHeld: 3, HeldBy: "Pod ns/p 3000"},
		},
		{
			name: "pods that ended hold nothing, and one being deleted still holds",
			node: kubetest.Inventory("n", kubetest.A100s("n", 4), gpu, 4),
			pods: []*v1.Pod{
				kubetest.Phase(kubetest.Observed(kubetest.Pod("done", "n", gpu, 1), gpu, "GPU-n-0"), v1.PodSucceeded),
				kubetest.Phase(kubetest.Observed(kubetest.Pod("failed", "n", gpu, 1), gpu, "GPU-n-1"), v1.PodFailed),
				func() *v1.Pod {
					p := kubetest.Observed(kubetest.Pod("going", "n", gpu, 1), gpu, "GPU-n-2")
					p.DeletionTimestamp = &metav1.Time{Time: kubetest.Started}
					return p
				}(),
			},
			want: counted{Physical: 4, Held: 1000, Free: 3000, Devices: 4, DevicesHeld: 1, HeldBy: "Pod ns/going 1000"},
		},
		{
			name: "a cordoned node has nothing free",
			node: func() *v1.Node {
				n := kubetest.Inventory("n", kubetest.A100s("n", 4), gpu, 4)
				n.Spec.Unschedulable = true
				return n
			}(),
			pods: []*v1.Pod{kubetest.Observed(kubetest.Pod("p", "n", gpu, 1), gpu, "GPU-n-0")},
			want: counted{Physical: 4, Held: 1000, Closed: 3000, Devices: 4, DevicesHeld: 1, Remark: "cordoned", HeldBy: "Pod ns/p 1000"},
		},
		{
			name: "a node that is not ready has nothing free",
			node: func() *v1.Node {
				n := kubetest.Foreign("n", kubetest.Product("Tesla-T4", 2, 15360), gpu, 2)
				n.Status.Conditions[0].Status = v1.ConditionUnknown
				return n
			}(),
			want: counted{Physical: 2, Closed: 2000, Devices: 2, Remark: "not ready"},
		},
		{
			name: "a node whose device plugin is gone has nothing free",
			node: func() *v1.Node {
				n := kubetest.Inventory("n", kubetest.A100s("n", 2), gpu, 2)
				n.Status.Allocatable = kubetest.Amounts(gpu, 0)
				return n
			}(),
			want: counted{Physical: 2, Closed: 2000, Devices: 2, Remark: "device plugin down"},
		},
		{
			name: "an unhealthy GPU is not free, and its holder still holds it",
			node: func() *v1.Node {
				gpus := kubetest.A100s("n", 4)
				gpus[0].Healthy, gpus[0].Xid = false, 79
				gpus[1].Healthy, gpus[1].Xid = false, 48
				return kubetest.Inventory("n", gpus, gpu, 4)
			}(),
			pods: []*v1.Pod{kubetest.Observed(kubetest.Pod("p", "n", gpu, 1), gpu, "GPU-n-0")},
			want: counted{Physical: 4, Unhealthy: 2, Held: 1000, Free: 2000, Broken: 1000, Devices: 4, DevicesHeld: 1, HeldBy: "Pod ns/p 1000"},
		},
		{
			name: "a foreign cluster is read from labels and requests",
			node: kubetest.Foreign("n", kubetest.Product("NVIDIA-A100-SXM4-40GB", 8, 40960), gpu, 8),
			pods: []*v1.Pod{kubetest.Pod("p", "n", gpu, 6)},
			want: counted{Physical: 8, Held: 6000, Free: 2000, Devices: 8, DevicesHeld: 6, HeldBy: "Pod ns/p 6000"},
		},
		{
			name: "a foreign node shared by time-slicing says so by its replicas",
			node: kubetest.Foreign("n", kubetest.With(kubetest.Product("Tesla-T4-SHARED", 8, 15360), api.LabelReplicas, "4"), gpu, 32),
			pods: many(7, func(i int) *v1.Pod { return kubetest.Pod(fmt.Sprintf("p-%d", i), "n", gpu, 1) }),
			want: counted{Physical: 8, Held: 1750, Free: 6250, Devices: 32, DevicesHeld: 7, Sharing: "shares"},
		},
		{
			name: "a foreign node without labels is counted by capacity",
			node: kubetest.Foreign("n", nil, gpu, 4),
			pods: []*v1.Pod{kubetest.Pod("p", "n", gpu, 1)},
			want: counted{Physical: 4, Held: 1000, Free: 3000, Devices: 4, DevicesHeld: 1, HeldBy: "Pod ns/p 1000"},
		},
		{
			// 28 of one slice and 4 whole ones: 28/7 + 4.
			name: "a foreign node in strategy mixed has MIG devices beside whole GPUs",
			node: kubetest.Foreign("n", nil, gpu, 4, mig, 28),
			pods: []*v1.Pod{kubetest.Pod("a", "n", mig, 7), kubetest.Pod("b", "n", gpu, 1)},
			want: counted{
				Physical: 8, Held: 2000, Free: 6000, Devices: 32, DevicesHeld: 8, Sharing: "MIG devices", HeldBy: "Pod ns/a 1000, Pod ns/b 1000",
			},
		},
		{
			// Two 3g.20gb fit on an A100, so 16 are 8 GPUs; one is 3/7.
			name: "a foreign node in strategy single names MIG devices nvidia.com/gpu",
			node: kubetest.Foreign("n", kubetest.With(kubetest.Product("NVIDIA-A100-SXM4-40GB-MIG-3g.20gb", 16, 19968),
				"nvidia.com/mig.strategy", "single", "nvidia.com/gpu.slices.gi", "3"), gpu, 16),
			pods: []*v1.Pod{kubetest.Pod("p", "n", gpu, 1)},
			want: counted{Physical: 8, Held: 429, Free: 7571, Devices: 16, DevicesHeld: 1, Sharing: "MIG devices", HeldBy: "Pod ns/p 429"},
		},
		{
			name: "capacity that is not allocatable is unhealthy on a foreign node",
			node: func() *v1.Node {
				n := kubetest.Foreign("n", kubetest.Product("Tesla-T4", 4, 15360), gpu, 4)
				n.Status.Allocatable = kubetest.Amounts(gpu, 3)
				return n
			}(),
			pods: []*v1.Pod{kubetest.Pod("p", "n", gpu, 1)},
			want: counted{Physical: 4, Unhealthy: 1, Held: 1000, Free: 2000, Broken: 1000, Devices: 4, DevicesHeld: 1, HeldBy: "Pod ns/p 1000"},
		},
		{
			name: "a pod can hold no more than its node has",
			node: kubetest.Inventory("n", kubetest.A100s("n", 2), gpu, 2),
			pods: []*v1.Pod{kubetest.Pod("p", "n", gpu, 1_000_000_000)},
			want: counted{Physical: 2, Held: 2000, Devices: 2, DevicesHeld: 2, HeldBy: "Pod ns/p 2000"},
		},
		{
			name: "a Deployment is named instead of its ReplicaSet and pods",
			node: kubetest.Inventory("n", kubetest.A100s("n", 4), gpu, 4),
			pods: many(3, func(i int) *v1.Pod {
				p := kubetest.Controlled(kubetest.Observed(kubetest.Pod(fmt.Sprintf("resnet-7d9f-%d", i), "n", gpu, 1), gpu, fmt.Sprintf("GPU-n-%d", i)), "ReplicaSet", "resnet-7d9f")
				p.Labels["pod-template-hash"] = "7d9f"
				return p
			}),
			want: counted{Physical: 4, Held: 3000, Free: 1000, Devices: 4, DevicesHeld: 3, HeldBy: "Deployment ns/resnet 3000"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := count(view.Cluster([]*v1.Node{tt.node}, tt.pods).Nodes[0])
			if tt.want.HeldBy == "" && len(tt.pods) > 3 {
				got.HeldBy = ""
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Cluster() differs (-want +got):\n%s", diff)
			}
		})
	}
}

// rows: NB-05 ML-66

func TestClusterNamesHolders(t *testing.T) {
	node := kubetest.Inventory("n", kubetest.A100s("n", 2), api.ResourceGPU, 2)
	book := kubetest.Controlled(kubetest.Observed(kubetest.Pod("nb-0", "n", api.ResourceGPU, 1), api.ResourceGPU, "GPU-n-1"), "StatefulSet", "nb")
	book.Labels["notebook-name"] = "nb"
	book.Annotations[api.AnnotationCreator] = "ada"
	got := view.Cluster([]*v1.Node{node}, []*v1.Pod{book}).Nodes[0].GPUs
	if len(got[0].Holders) != 0 || len(got[1].Holders) != 1 {
		t.Fatalf("GPU 0 has %d holders and GPU 1 has %d, want 0 and 1", len(got[0].Holders), len(got[1].Holders))
	}
	h := got[1].Holders[0]
	line := fmt.Sprint(h.Kind, h.Owner, h.Pod, h.Container, h.User, h.Since.Format(time.Kitchen), h.UUID, h.MilliGPU, h.MemoryBytes>>30)
	if want := fmt.Sprint("Notebook", h.Owner, "nb-0", "c", "ada", "9:00AM", "GPU-n-1", 1000, 40); line != want || h.Owner.String() != "ns/nb" {
		t.Errorf("holder is %s, want %s", line, want)
	}
}

func TestOwnerOfNamesWhatWasApplied(t *testing.T) {
	hashed := func(p *v1.Pod) *v1.Pod { p.Labels["pod-template-hash"] = "abc"; return p }
	served := func(p *v1.Pod) *v1.Pod { p.Labels["serving.kserve.io/inferenceservice"] = "llm"; return p }
	tests := []struct {
		name string
		pod  *v1.Pod
		want string
	}{
		{"a bare pod owns itself", kubetest.Pod("p", "n"), "Pod ns/p"},
		{"a static pod owns itself", kubetest.Controlled(kubetest.Pod("p", "n"), "Node", "n"), "Pod ns/p"},
		{"a Job is named", kubetest.Controlled(kubetest.Pod("p-x", "n"), "Job", "train"), "Job ns/train"},
		{"a StatefulSet is named", kubetest.Controlled(kubetest.Pod("p-0", "n"), "StatefulSet", "db"), "StatefulSet ns/db"},
		{"a ReplicaSet with the pod's hash is a Deployment", hashed(kubetest.Controlled(kubetest.Pod("p-x", "n"), "ReplicaSet", "web-abc")), "Deployment ns/web"},
		{"a ReplicaSet without it is itself", kubetest.Controlled(kubetest.Pod("p-x", "n"), "ReplicaSet", "web-abc"), "ReplicaSet ns/web-abc"},
		{"an InferenceService is told by its label", served(kubetest.Controlled(kubetest.Pod("p-x", "n"), "ReplicaSet", "llm-1")), "InferenceService ns/llm"},
		{"a kind that Berth does not know is named as it is", kubetest.Controlled(kubetest.Pod("p-x", "n"), "RayCluster", "ray"), "RayCluster ns/ray"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := request.OwnerOf(tt.pod)
			if s := got.Kind + " " + got.String(); s != tt.want {
				t.Errorf("OwnerOf() = %s, want %s", s, tt.want)
			}
		})
	}
}

func TestClusterCountsInitContainersOnce(t *testing.T) {
	node := kubetest.Inventory("n", kubetest.A100s("n", 4), api.ResourceGPU, 4)
	p := kubetest.Observed(kubetest.Pod("p", "n", api.ResourceGPU, 1), api.ResourceGPU, "GPU-n-0")
	p.Spec.InitContainers = []v1.Container{{Name: "init", Resources: v1.ResourceRequirements{Limits: kubetest.Amounts(api.ResourceGPU, 2)}}}
	p.Status.InitContainerStatuses = []v1.ContainerStatus{{Name: "init", AllocatedResourcesStatus: []v1.ResourceStatus{{
		Name: api.ResourceGPU, Resources: []v1.ResourceHealth{{ResourceID: "GPU-n-0"}, {ResourceID: "GPU-n-1"}},
	}}}}
	tests := []struct {
		name  string
		strip func(*v1.Pod)
	}{
		{"both containers known", func(*v1.Pod) {}},
		{"only the init container known, as while it runs", func(p *v1.Pod) { p.Status.ContainerStatuses = nil }},
		{"only the container known", func(p *v1.Pod) { p.Status.InitContainerStatuses = nil }},
		{"none known", func(p *v1.Pod) { p.Status.ContainerStatuses, p.Status.InitContainerStatuses = nil, nil }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := p.DeepCopy()
			tt.strip(q)
			if got := view.Cluster([]*v1.Node{node}, []*v1.Pod{q}).Total.Held; got != 2000 {
				t.Errorf("held is %d milli-GPUs, want 2000: the init container hands its GPU on", got)
			}
		})
	}
}

func TestClusterTellsWhoWaits(t *testing.T) {
	node := kubetest.Inventory("n", kubetest.A100s("n", 1), api.ResourceGPU, 1)
	running := kubetest.Controlled(kubetest.Pod("web-1", "n", api.ResourceGPU, 1), "StatefulSet", "web")
	pending := kubetest.Controlled(kubetest.Phase(kubetest.Pod("web-2", "", api.ResourceGPU, 1), v1.PodPending), "StatefulSet", "web")
	got := view.Cluster([]*v1.Node{node}, []*v1.Pod{running, pending})
	want := devices.Holding{Owner: request.Owner{Kind: "StatefulSet", Namespace: "ns", Name: "web"}, MilliGPU: 1000, Pods: 1, Waiting: 1}
	if diff := cmp.Diff([]devices.Holding{want}, got.Nodes[0].HeldBy); diff != "" {
		t.Errorf("HeldBy differs (-want +got):\n%s", diff)
	}
	if len(got.Waiting) != 1 || got.Waiting[0].Pods != 1 {
		t.Errorf("Waiting = %v, want one owner with one pod", got.Waiting)
	}
}

func TestSetBusyIsTheMeanOfHeldGPUs(t *testing.T) {
	node := kubetest.Inventory("n", kubetest.A100s("n", 4), api.ResourceGPU, 4)
	p := kubetest.Observed(kubetest.Pod("p", "n", api.ResourceGPU, 3), api.ResourceGPU, "GPU-n-0", "GPU-n-1", "GPU-n-2")
	v := view.Cluster([]*v1.Node{node}, []*v1.Pod{p})
	// GPU 2 has no reading, GPU 3 is held by nobody: (0.9 + 0.5) / 2.
	readings := map[string]float64{"GPU-n-0": 0.9, "GPU-n-1": 0.5, "GPU-n-3": 1}
	v.SetBusy(func(uuid string) (float64, bool) { r, ok := readings[uuid]; return r, ok })
	if got := v.Nodes[0].Busy; got != 0.7 || !v.Total.BusyKnown {
		t.Errorf("Busy = %v (total known: %v), want 0.7 and true", got, v.Total.BusyKnown)
	}
}

func TestTaintsAreAsKubectlWritesThem(t *testing.T) {
	node := &v1.Node{Spec: v1.NodeSpec{Taints: []v1.Taint{
		{Key: "nvidia.com/gpu", Value: "present", Effect: v1.TaintEffectNoSchedule},
		{Key: "dedicated", Effect: v1.TaintEffectNoExecute},
	}}}
	got := view.Cluster([]*v1.Node{node}, nil).Nodes[0].Taints
	if want := []string{"nvidia.com/gpu=present:NoSchedule", "dedicated:NoExecute"}; !slices.Equal(got, want) {
		t.Errorf("Taints = %q; want %q", got, want)
	}
}
