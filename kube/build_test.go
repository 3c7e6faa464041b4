package kube_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/kube"
)

var started = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

// amounts is a list of resources: "nvidia.com/gpu", 8, ...
func amounts(pairs ...any) v1.ResourceList {
	out := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[v1.ResourceName(pairs[i].(string))] = *resource.NewQuantity(int64(pairs[i+1].(int)), resource.DecimalSI)
	}
	return out
}

// foreign is a Ready node of a cluster that Berth is not installed in: labels
// and capacity, all of it allocatable.
func foreign(name string, labels map[string]string, offers ...any) *v1.Node {
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: map[string]string{}},
		Status: v1.NodeStatus{
			Capacity: amounts(offers...), Allocatable: amounts(offers...),
			Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}},
		},
	}
}

// inventory is a Ready node with GPUs that its agent has published.
func inventory(name string, gpus []kube.InventoryGPU, offers ...any) *v1.Node {
	n := foreign(name, map[string]string{}, offers...)
	raw, err := json.Marshal(gpus)
	if err != nil {
		panic(err)
	}
	n.Annotations[api.AnnotationInventory] = string(raw)
	return n
}

// a100s is count whole, healthy GPUs, "GPU-<node>-0" and so on.
func a100s(node string, count int) []kube.InventoryGPU {
	var out []kube.InventoryGPU
	for i := range count {
		out = append(out, kube.InventoryGPU{
			Index: i, UUID: fmt.Sprintf("GPU-%s-%d", node, i), Product: "NVIDIA A100-SXM4-40GB", MemoryBytes: 40 << 30, Healthy: true,
		})
	}
	return out
}

// cut divides every GPU into seven MIG devices of one slice, "MIG-<node>-<gpu>-<device>".
func cut(node string, gpus []kube.InventoryGPU) []kube.InventoryGPU {
	for i := range gpus {
		gpus[i].ComputeSlices = 7
		for j := range 7 {
			gpus[i].MIG = append(gpus[i].MIG, kube.InventoryMIG{
				UUID: fmt.Sprintf("MIG-%s-%d-%d", node, i, j), Profile: "1g.5gb", Start: j, Slices: 1, MemoryBytes: 5 << 30,
			})
		}
	}
	return gpus
}

func share(gpus []kube.InventoryGPU, replicas int) []kube.InventoryGPU {
	for i := range gpus {
		gpus[i].Shares = replicas
	}
	return gpus
}

// pod is a running pod in namespace "ns" with one container "c" that asks for
// the given resources.
func pod(name, node string, asks ...any) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{}, Annotations: map[string]string{}},
		Spec: v1.PodSpec{
			NodeName:   node,
			Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Limits: amounts(asks...), Requests: amounts(asks...)}}},
		},
		Status: v1.PodStatus{Phase: v1.PodRunning, StartTime: &metav1.Time{Time: started}},
	}
}

// observed adds what the kubelet reports of container "c".
func observed(p *v1.Pod, resourceName string, ids ...string) *v1.Pod {
	status := v1.ResourceStatus{Name: v1.ResourceName(resourceName)}
	for _, id := range ids {
		status.Resources = append(status.Resources, v1.ResourceHealth{ResourceID: v1.ResourceID(id), Health: v1.ResourceHealthStatusHealthy})
	}
	p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, v1.ContainerStatus{
		Name: "c", AllocatedResourcesStatus: []v1.ResourceStatus{status},
	})
	return p
}

func committed(p *v1.Pod, text string) *v1.Pod {
	p.Annotations[api.AnnotationDevices] = text
	return p
}

func controlled(p *v1.Pod, kind, name string) *v1.Pod {
	yes := true
	p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, Controller: &yes}}
	return p
}

func phase(p *v1.Pod, ph v1.PodPhase) *v1.Pod {
	p.Status.Phase = ph
	return p
}

// product are the labels of GPU Feature Discovery on a node of whole GPUs.
func product(name string, count, memoryMiB int) map[string]string {
	return map[string]string{
		api.LabelProduct: name, api.LabelCount: strconv.Itoa(count), api.LabelMemory: strconv.Itoa(memoryMiB), api.LabelReplicas: "1",
	}
}

func with(labels map[string]string, pairs ...string) map[string]string {
	for i := 0; i < len(pairs); i += 2 {
		labels[pairs[i]] = pairs[i+1]
	}
	return labels
}
