package doctor

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/internal/finding"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/request"
)

// volumes finds claims whose volume no node with GPUs reaches, as it is in another zone. A claim that a pod without GPUs mounts is where
// it belongs. A claim that no pod mounts is named if pods of its namespace request GPUs.
func (e *examined) volumes() []finding.Finding {
	if len(e.offering) == 0 {
		return nil
	}
	wanted, others, spaces := map[string]bool{}, map[string]bool{}, map[string]bool{} // claims by namespace/name, and namespaces
	for _, p := range e.Pods {
		asks := request.AsksForGPUs(p)
		spaces[p.Namespace] = spaces[p.Namespace] || asks
		for _, claim := range explain.ClaimsOf(p) {
			if asks {
				wanted[p.Namespace+"/"+claim] = true
			} else {
				others[p.Namespace+"/"+claim] = true
			}
		}
	}
	by := map[string][]string{} // claims by where their volumes are
	for _, c := range e.Claims {
		name := c.Namespace + "/" + c.Name
		if c.Spec.VolumeName == "" || !wanted[name] && (others[name] || !spaces[c.Namespace]) {
			continue
		}
		if where := e.outOfReach(c); where != "" {
			by[where] = append(by[where], name)
		}
	}
	var out []finding.Finding
	for _, where := range sortedKeys(by) {
		slices.Sort(by[where])
		out = append(out, warn("volume-zones", fmt.Sprintf("no node with GPUs reaches the %s of %s, which %s on nodes with %s: a pod that mounts one gets no GPU: %s",
			verb(len(by[where]), "volume", "volumes"), count(len(by[where]), "claim"), verb(len(by[where]), "is", "are"), where, few(by[where])),
			"create the volume where the GPUs are, and copy its data; a StorageClass with volumeBindingMode: WaitForFirstConsumer creates volumes where the pod goes"))
	}
	return out
}

// outOfReach is where the volume of a claim is, if no node with GPUs is there; "" otherwise.
func (e *examined) outOfReach(c *v1.PersistentVolumeClaim) string {
	i := slices.IndexFunc(e.Volumes, func(v *v1.PersistentVolume) bool { return v.Name == c.Spec.VolumeName })
	if i < 0 {
		return ""
	}
	tie, tied := explain.TopologyOf(c.Name, e.Volumes[i])
	if !tied || slices.ContainsFunc(e.gpuHosts(), tie.Reaches) {
		return ""
	}
	return tie.Where
}

// gpuHosts are the nodes with GPUs, whether a device plugin serves them or not.
func (e *examined) gpuHosts() []*v1.Node {
	out := slices.Clone(e.hidden)
	for i := range e.offering {
		out = append(out, e.byName[e.offering[i].Name])
	}
	return out
}
