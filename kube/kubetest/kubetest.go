package kubetest

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/devices"
)

// Started is when the objects of these tests begin.
var Started = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

// Amounts is a list of resources: "nvidia.com/gpu", 8, ...
func Amounts(pairs ...any) v1.ResourceList {
	out := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[v1.ResourceName(pairs[i].(string))] = *resource.NewQuantity(int64(pairs[i+1].(int)), resource.DecimalSI)
	}
	return out
}

// Foreign is a Ready node of a cluster that Berth is not installed in: labels
// and capacity, all of it allocatable.
func Foreign(name string, labels map[string]string, offers ...any) *v1.Node {
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: map[string]string{}},
		Status: v1.NodeStatus{
			Capacity: Amounts(offers...), Allocatable: Amounts(offers...),
			Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}},
		},
	}
}

// Inventory is a Ready node with GPUs that its agent has published.
func Inventory(name string, gpus []devices.InventoryGPU, offers ...any) *v1.Node {
	n := Foreign(name, map[string]string{}, offers...)
	raw, err := json.Marshal(gpus)
	if err != nil {
		panic(err)
	}
	n.Annotations[api.AnnotationInventory] = string(raw)
	return n
}

// A100s is count whole, healthy GPUs, "GPU-<node>-0" and so on.
func A100s(node string, count int) []devices.InventoryGPU {
	var out []devices.InventoryGPU
	for i := range count {
		out = append(out, devices.InventoryGPU{
			Index: i, UUID: fmt.Sprintf("GPU-%s-%d", node, i), Product: "NVIDIA A100-SXM4-40GB", MemoryBytes: 40 << 30, Healthy: true,
		})
	}
	return out
}

// Cut divides every GPU into seven MIG devices of one slice, "MIG-<node>-<gpu>-<device>".
func Cut(node string, gpus []devices.InventoryGPU) []devices.InventoryGPU {
	for i := range gpus {
		gpus[i].ComputeSlices = 7
		for j := range 7 {
			gpus[i].MIG = append(gpus[i].MIG, devices.InventoryMIG{
				UUID: fmt.Sprintf("MIG-%s-%d-%d", node, i, j), Profile: "1g.5gb", Start: j, Slices: 1, MemoryBytes: 5 << 30,
			})
		}
	}
	return gpus
}

// Share sets the number of shares of every GPU.
func Share(gpus []devices.InventoryGPU, replicas int) []devices.InventoryGPU {
	for i := range gpus {
		gpus[i].Shares = replicas
	}
	return gpus
}

// Pod is a running pod in namespace "ns" with one container "c" that asks for
// the given resources.
func Pod(name, node string, asks ...any) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Labels: map[string]string{}, Annotations: map[string]string{}},
		Spec: v1.PodSpec{
			NodeName:   node,
			Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Limits: Amounts(asks...), Requests: Amounts(asks...)}}},
		},
		Status: v1.PodStatus{Phase: v1.PodRunning, StartTime: &metav1.Time{Time: Started}},
	}
}

// Observed adds what the kubelet reports of container "c".
func Observed(p *v1.Pod, resourceName string, ids ...string) *v1.Pod {
	status := v1.ResourceStatus{Name: v1.ResourceName(resourceName)}
	for _, id := range ids {
		status.Resources = append(status.Resources, v1.ResourceHealth{ResourceID: v1.ResourceID(id), Health: v1.ResourceHealthStatusHealthy})
	}
	p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, v1.ContainerStatus{
		Name: "c", AllocatedResourcesStatus: []v1.ResourceStatus{status},
	})
	return p
}

// Committed sets the annotation of committed devices.
func Committed(p *v1.Pod, text string) *v1.Pod {
	p.Annotations[api.AnnotationDevices] = text
	return p
}

// Controlled sets the controller that owns a pod.
func Controlled(p *v1.Pod, kind, name string) *v1.Pod {
	yes := true
	p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, Controller: &yes}}
	return p
}

// Phase sets the phase of a pod.
func Phase(p *v1.Pod, ph v1.PodPhase) *v1.Pod {
	p.Status.Phase = ph
	return p
}

// Product are the labels of GPU Feature Discovery on a node of whole GPUs.
func Product(name string, count, memoryMiB int) map[string]string {
	return map[string]string{
		api.LabelProduct: name, api.LabelCount: strconv.Itoa(count), api.LabelMemory: strconv.Itoa(memoryMiB), api.LabelReplicas: "1",
	}
}

// With adds labels, given as keys and values in turn.
func With(labels map[string]string, pairs ...string) map[string]string {
	for i := 0; i < len(pairs); i += 2 {
		labels[pairs[i]] = pairs[i+1]
	}
	return labels
}

// Inventory3 is the inventory of a node with three GPUs, of which the last is unhealthy.
const Inventory3 = `[{"index":0,"uuid":"GPU-0","product":"Tesla T4","memoryBytes":16106127360,"healthy":true},` +
	`{"index":1,"uuid":"GPU-1","product":"Tesla T4","memoryBytes":16106127360,"healthy":true},` +
	`{"index":2,"uuid":"GPU-2","product":"Tesla T4","memoryBytes":16106127360,"healthy":false}]`

// Publishing returns a node with annotations.
func Publishing(notes map[string]string) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: notes}}
}

// Asking is a pod whose container main wants resources such as "gpu=1".
func Asking(name string, wants ...string) *v1.Pod {
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

// Reported sets the devices that the kubelet reports for the container main.
func Reported(p *v1.Pod, resource string, ids ...string) *v1.Pod {
	s := v1.ResourceStatus{Name: v1.ResourceName(resource)}
	for _, id := range ids {
		s.Resources = append(s.Resources, v1.ResourceHealth{ResourceID: v1.ResourceID(id)})
	}
	p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "main", AllocatedResourcesStatus: []v1.ResourceStatus{s}}}
	return p
}

// Noted replaces the annotations of a pod with that of committed devices.
func Noted(p *v1.Pod, annotation string) *v1.Pod {
	p.Annotations = map[string]string{api.AnnotationDevices: annotation}
	return p
}

// Unplaced is a pod that the scheduler has refused, made so long after started.
func Unplaced(name string, after time.Duration, gpus int, edits ...func(*v1.Pod)) *v1.Pod {
	p := Pod(name, "", api.ResourceGPU, gpus)
	p.CreationTimestamp = metav1.Time{Time: Started.Add(after)}
	p.Status = v1.PodStatus{Phase: v1.PodPending, Conditions: []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse}}}
	for _, edit := range edits {
		edit(p)
	}
	return p
}
