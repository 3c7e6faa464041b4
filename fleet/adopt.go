package fleet

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/fleet/spec"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/request"
)

// adopt takes over a simulated node that the API server has. The Node object
// wins; wanted, the node of that name in the fleet, only fills in what an
// object does not say, and may be nil.
func (f *Fleet) adopt(obj *v1.Node, wanted *spec.Node) error {
	obj.ManagedFields = nil
	s, err := stored(obj, wanted)
	if err != nil {
		return err
	}
	if wanted != nil && obj.Labels[api.LabelMIGConfig] == "" && !sameGPUs(s.GPUs, wanted.GPUs) {
		f.log.Warn("the node has other GPUs than the fleet says, and keeps them; to recreate it, run kubectl delete node and restart", "node", obj.Name)
	}
	ip := ""
	for _, a := range obj.Status.Addresses {
		if a.Type == v1.NodeInternalIP && f.ips.keep(obj.Name, a.Address) {
			ip = a.Address
		}
	}
	if ip == "" {
		if ip, err = f.ips.node(obj.Name); err != nil {
			return err
		}
	}
	n, err := newNode(f, s, ip, obj.CreationTimestamp.Time)
	if err != nil {
		return fmt.Errorf("offer the GPUs of node %s: %w", obj.Name, err)
	}
	n.api, n.config = obj, configLabel{true, obj.Labels[api.LabelPluginConfig]}
	n.mig.asks(obj.Labels[api.LabelMIGConfig])
	note := obj.Annotations[api.AnnotationFaults]
	if n.faults, err = parseFaults(note, len(s.GPUs)); err != nil {
		f.log.Warn("a fault is ignored", "node", obj.Name, "error", err)
	}
	n.noted, n.gpus = note, n.faults.apply(s.GPUs)
	if _, err := n.ledger.Reset(n.gpus, s.Sharing); err != nil {
		return fmt.Errorf("offer the GPUs of node %s: %w", obj.Name, err)
	}
	f.add(n)
	return nil
}

// stored reads a node back from its object.
func stored(obj *v1.Node, wanted *spec.Node) (spec.Node, error) {
	s := spec.Node{Name: obj.Name}
	if wanted != nil {
		s = *wanted
	}
	s.CPU = int(request.Amount(obj.Status.Capacity.Cpu(), request.MostMilli))
	s.MemoryGiB = int(request.Amount(obj.Status.Capacity.Memory(), request.MostBytes) >> 30)
	s.Pods = int(request.Amount(obj.Status.Capacity.Pods(), request.MostAsked))
	s.PricePerHour = obj.Annotations[api.AnnotationPrice]
	if v := obj.Labels["nvidia.com/cuda.driver-version.full"]; v != "" {
		s.Driver = v
	}
	if v := obj.Labels["nvidia.com/cuda.runtime-version.full"]; v != "" {
		s.CUDA = v
	}
	if v := obj.Labels["nvidia.com/gpu.machine"]; v != "" && s.Machine == "" {
		s.Machine = v
	}
	if note := obj.Annotations[api.AnnotationPluginConfig]; note != "" {
		s.Sharing = gpu.Sharing{}
		if err := json.Unmarshal([]byte(note), &s.Sharing); err != nil {
			return s, fmt.Errorf("read annotation %s of node %s: %w; delete the node to recreate it", api.AnnotationPluginConfig, obj.Name, err)
		}
		if err := sharing.CheckReplicas(s.Sharing); err != nil {
			return s, fmt.Errorf("annotation %s of node %s: %w; delete the node to recreate it", api.AnnotationPluginConfig, obj.Name, err)
		}
	}
	if note := obj.Annotations[api.AnnotationPluginConfigBefore]; note != "" {
		s.Before = &gpu.Sharing{}
		if err := json.Unmarshal([]byte(note), s.Before); err != nil {
			return s, fmt.Errorf("read annotation %s of node %s: %w; remove it", api.AnnotationPluginConfigBefore, obj.Name, err)
		}
		if err := sharing.CheckReplicas(*s.Before); err != nil {
			return s, fmt.Errorf("annotation %s of node %s: %w; remove it", api.AnnotationPluginConfigBefore, obj.Name, err)
		}
	}
	note := obj.Annotations[api.AnnotationInventory]
	if note == "" {
		return s, nil
	}
	list, err := devices.Inventory(obj)
	if err != nil {
		return s, fmt.Errorf("%w; delete the node to recreate it", err)
	}
	gpus := inventory(obj.Name, list)
	if !sameGPUs(gpus, s.GPUs) {
		s.GPUs = gpus
	}
	return s, nil
}

// inventory makes the GPUs that an inventory lists, healthy. What it does not
// say, bus addresses, NUMA nodes and links, is derived as for a new node.
func inventory(node string, list []devices.InventoryGPU) []gpu.GPU {
	var out []gpu.GPU
	for i, item := range list {
		g := gpu.GPU{Index: item.Index, NUMANode: -1}
		if p, ok := gpu.Find(item.Product); ok {
			if made := gpu.New(node, p, len(list)); i < len(made) {
				g = made[i]
			}
		}
		g.Index, g.UUID, g.Product, g.MemoryBytes, g.Healthy, g.Xid = item.Index, item.UUID, item.Product, item.MemoryBytes, true, 0
		g.MIGEnabled = item.ComputeSlices > 0
		for j, m := range item.MIG {
			g.MIG = append(g.MIG, gpu.MIGDevice{UUID: m.UUID, Profile: m.Profile, Start: m.Start, GI: j + 1, Slices: m.Slices, MemoryBytes: m.MemoryBytes})
		}
		out = append(out, g)
	}
	instances(out)
	return out
}

// instances gives MIG devices their GPU instance IDs where the product's
// geometry tells them.
func instances(gpus []gpu.GPU) {
	for i := range gpus {
		p, ok := gpu.Find(gpus[i].Product)
		if !ok || len(gpus[i].MIG) == 0 {
			continue
		}
		var profiles []string
		for _, m := range gpus[i].MIG {
			profiles = append(profiles, m.Profile)
		}
		made, err := gpu.Layout(p, profiles)
		for j := range made {
			if err == nil && made[j].Start == gpus[i].MIG[j].Start && made[j].Profile == gpus[i].MIG[j].Profile {
				gpus[i].MIG[j].GI = made[j].GI
			}
		}
	}
}

// sameGPUs reports whether two lists are of the same GPUs and MIG devices.
func sameGPUs(a, b []gpu.GPU) bool {
	return slices.EqualFunc(a, b, func(x, y gpu.GPU) bool {
		return x.UUID == y.UUID && strings.EqualFold(x.Product, y.Product) && x.MIGEnabled == y.MIGEnabled && slices.EqualFunc(x.MIG, y.MIG, func(m, o gpu.MIGDevice) bool {
			return m.UUID == o.UUID && m.Profile == o.Profile
		})
	})
}
