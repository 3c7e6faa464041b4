package devices

import (
	"encoding/json"
	"slices"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/request"
)

// Faulty returns the GPUs of a node that an Xid has made unhealthy, in the order of its inventory. GPUs that are unhealthy for
// another reason are not among them: their containers may go on, as during an upgrade of the driver.
func Faulty(node *v1.Node) []InventoryGPU {
	list, err := Inventory(node)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(list, func(g InventoryGPU) bool { return g.Healthy || g.Xid == 0 })
}

// KeepFaulty leaves of a node's annotations the inventory of GPUs that Faulty returns, none if there are none.
func KeepFaulty(node *v1.Node) {
	list := Faulty(node)
	node.Annotations = nil
	if len(list) == 0 {
		return
	}
	if raw, err := json.Marshal(list); err == nil {
		node.Annotations = map[string]string{api.AnnotationInventory: string(raw)}
	}
}

// FaultyOf returns the first of some GPUs of its node that a pod has, or has a part of, nil if it has none. A pod's devices are those that were
// committed to it, else those that its status reports as unhealthy. The pod's spec is not read.
func FaultyOf(pod *v1.Pod, gpus []InventoryGPU) *InventoryGPU {
	if len(gpus) == 0 {
		return nil
	}
	has := map[string]bool{}
	if named := committedDevices(pod); named != nil {
		for _, list := range named {
			for _, d := range list {
				has[d.UUID] = true
			}
		}
	} else {
		unhealthy(pod, has)
	}
	for i := range gpus {
		g := &gpus[i]
		if has[g.UUID] || slices.ContainsFunc(g.MIG, func(m InventoryMIG) bool { return has[m.UUID] }) {
			return g
		}
	}
	return nil
}

// unhealthy adds the UUIDs of devices that a pod's status reports as unhealthy. The kubelet chose them, so they were healthy then.
func unhealthy(pod *v1.Pod, has map[string]bool) {
	for _, list := range [][]v1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range list {
			for _, r := range list[i].AllocatedResourcesStatus {
				if !request.IsGPU(string(r.Name)) {
					continue
				}
				for _, d := range r.Resources {
					if d.Health == v1.ResourceHealthStatusUnhealthy {
						has[parseDevice(string(r.Name), string(d.ResourceID), nil).uuid] = true
					}
				}
			}
		}
	}
}
