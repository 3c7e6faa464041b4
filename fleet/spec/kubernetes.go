package spec

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/kube/devices"
)

// The versions that a simulated node reports of itself.
const (
	KubeletVersion = "v1.36.3-berth-sim"
	RuntimeVersion = "berth-sim://1"
	// Domain ends the DNS name of every simulated node.
	Domain = ".sim.internal"
	// KubeletPort is where a node's kubelet API answers, inside the process.
	KubeletPort = 10250
)

// Simulated is the sentence on every simulated node, api.AnnotationSimulated.
const Simulated = "This node is simulated by Berth: it has no machine, containers, or GPUs."

// Kubernetes returns the Node object of n as its kubelet, device plugin and
// GPU Feature Discovery would have made it: metadata, taints, and the whole
// status with every condition as of now. ip is the node's internal address.
//
// It is an error if n's GPUs cannot be offered as n.Sharing says; nodes from
// Load always can.
func Kubernetes(n Node, ip string, now time.Time) (*v1.Node, error) {
	capacity, allocatable, err := Resources(n)
	if err != nil {
		return nil, err
	}
	notes, err := annotations(n)
	if err != nil {
		return nil, err
	}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: Labels(n), Annotations: notes},
		Spec:       v1.NodeSpec{ProviderID: "berth-sim:///" + n.Zone + "/" + n.Name, Taints: taints(n.Taints)},
		Status: v1.NodeStatus{
			Capacity:    capacity,
			Allocatable: allocatable,
			Conditions:  Conditions(now),
			Addresses: []v1.NodeAddress{
				{Type: v1.NodeInternalIP, Address: ip},
				{Type: v1.NodeInternalDNS, Address: n.Name + Domain},
				{Type: v1.NodeHostName, Address: n.Name},
			},
			DaemonEndpoints: v1.NodeDaemonEndpoints{KubeletEndpoint: v1.DaemonEndpoint{Port: KubeletPort}},
			NodeInfo:        nodeInfo(n.Name),
		},
	}, nil
}

// Conditions returns the conditions of a node in good order, as of now.
func Conditions(now time.Time) []v1.NodeCondition {
	at := metav1.NewTime(now)
	condition := func(t v1.NodeConditionType, s v1.ConditionStatus, reason, message string) v1.NodeCondition {
		return v1.NodeCondition{Type: t, Status: s, Reason: reason, Message: message, LastHeartbeatTime: at, LastTransitionTime: at}
	}
	return []v1.NodeCondition{
		condition(v1.NodeMemoryPressure, v1.ConditionFalse, "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
		condition(v1.NodeDiskPressure, v1.ConditionFalse, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
		condition(v1.NodePIDPressure, v1.ConditionFalse, "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
		condition(v1.NodeReady, v1.ConditionTrue, "KubeletReady", "simulated kubelet is posting ready status"),
	}
}

// Inventory returns the GPUs of n as the annotation api.AnnotationInventory
// lists them, in index order.
func Inventory(n Node) []devices.InventoryGPU {
	list := make([]devices.InventoryGPU, 0, len(n.GPUs))
	for _, g := range n.GPUs {
		item := devices.InventoryGPU{
			Index: g.Index, UUID: g.UUID, Product: g.Product, MemoryBytes: g.MemoryBytes,
			Healthy: g.Healthy, Xid: g.Xid, Shares: shares(n, g), Clique: g.Clique,
		}
		if g.NUMANode >= 0 {
			item.NUMANode = new(g.NUMANode)
		}
		if g.MIGEnabled {
			if p, ok := gpu.Find(g.Product); ok {
				item.ComputeSlices = p.ComputeSlices
			}
		}
		for _, m := range g.MIG {
			item.MIG = append(item.MIG, devices.InventoryMIG{UUID: m.UUID, Profile: m.Profile, Start: m.Start, Slices: m.Slices, MemoryBytes: m.MemoryBytes})
		}
		list = append(list, item)
	}
	return list
}

// shares returns into how many replicas each device of g is divided: the GPU,
// or its MIG devices where these are offered. 0 is not divided, or MIG devices
// of unlike profiles divided unlike.
func shares(n Node, g gpu.GPU) int {
	if n.Sharing.Strategy == "" || n.Sharing.Strategy == gpu.SharingNone {
		return 0
	}
	if !g.MIGEnabled || n.Sharing.MIGStrategy != gpu.MIGMixed {
		return n.Sharing.Replicas[api.ResourceGPU]
	}
	found := 0
	for i, m := range g.MIG {
		of := n.Sharing.Replicas[gpu.MIGResource(m.Profile)]
		if i > 0 && of != found {
			return 0
		}
		found = of
	}
	return found
}

// annotations returns what Berth writes on the Node object of n.
func annotations(n Node) (map[string]string, error) {
	notes := map[string]string{api.AnnotationSimulated: Simulated}
	if n.PricePerHour != "" {
		notes[api.AnnotationPrice] = n.PricePerHour
	}
	if len(n.GPUs) == 0 {
		return notes, nil
	}
	inventory, err := json.Marshal(Inventory(n))
	if err != nil {
		return nil, fmt.Errorf("write the GPUs of node %s: %w", n.Name, err)
	}
	plugin, err := json.Marshal(n.Sharing)
	if err != nil {
		return nil, fmt.Errorf("write the device plugin configuration of node %s: %w", n.Name, err)
	}
	notes[api.AnnotationInventory] = string(inventory)
	notes[api.AnnotationPluginConfig] = string(plugin)
	if n.Before != nil {
		before, err := json.Marshal(n.Before)
		if err != nil {
			return nil, fmt.Errorf("write the device plugin configuration of node %s without a ConfigMap: %w", n.Name, err)
		}
		notes[api.AnnotationPluginConfigBefore] = string(before)
	}
	return notes, nil
}

// nodeInfo returns a kubelet's description of its machine. The IDs are
// derived from the name, so they stay the same over restarts.
func nodeInfo(name string) v1.NodeSystemInfo {
	id := func(kind string) string { return strings.TrimPrefix(gpu.UUID("GPU", kind+"/"+name), "GPU-") }
	return v1.NodeSystemInfo{
		MachineID:               strings.ReplaceAll(id("machine"), "-", ""),
		SystemUUID:              id("system"),
		BootID:                  id("boot"),
		KernelVersion:           "6.8.0-simulated",
		OSImage:                 "Simulated by Berth",
		ContainerRuntimeVersion: RuntimeVersion,
		KubeletVersion:          KubeletVersion,
		OperatingSystem:         "linux",
		Architecture:            "amd64",
	}
}

func taints(list []Taint) []v1.Taint {
	var out []v1.Taint
	for _, t := range list {
		out = append(out, v1.Taint{Key: t.Key, Value: t.Value, Effect: v1.TaintEffect(t.Effect)})
	}
	return out
}

// Patch returns the JSON merge patch that makes the metadata of an existing
// Node agree with n's GPUs, health and sharing: the labels of GPU Feature
// Discovery (those it no longer sets, among old, become null) and its
// annotations. Labels that others set are left alone.
func Patch(n Node, old map[string]string) ([]byte, error) {
	notes, err := annotations(n)
	if err != nil {
		return nil, err
	}
	found, labels := gpu.Labels(n.GPU(), n.Sharing), map[string]*string{}
	for key, value := range found {
		if had, ok := old[key]; !ok || had != value {
			labels[key] = &value
		}
	}
	for key := range old {
		if _, ok := found[key]; !ok && discovered(key) {
			labels[key] = nil
		}
	}
	own := map[string]any{
		api.AnnotationInventory:          notes[api.AnnotationInventory],
		api.AnnotationPluginConfig:       notes[api.AnnotationPluginConfig],
		api.AnnotationPluginConfigBefore: nil,
	}
	if before, set := notes[api.AnnotationPluginConfigBefore]; set {
		own[api.AnnotationPluginConfigBefore] = before
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels, "annotations": own}})
}

// PatchType is how to send what Patch returns.
const PatchType = types.MergePatchType
