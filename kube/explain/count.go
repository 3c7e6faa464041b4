package explain

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/kube/request"
)

// counts reports whether what a node has of a pod's GPU resources is counted by their names,
// as kube-scheduler does, because package placement cannot describe it: MIG devices of a
// node that publishes no inventory, or that stand for nvidia.com/gpu.
func (t *Cluster) counts(a *ask, n *v1.Node) bool {
	if len(a.names) == 0 || slices.ContainsFunc(a.names, shareName) {
		return false
	}
	foreign, odd := t.read.ByCount(n.Name)
	single := n.Labels[labelMIGStrategy] == string(gpu.MIGSingle)
	return odd || foreign && (single || slices.ContainsFunc(a.names, func(name string) bool { return strings.HasPrefix(name, api.ResourceMIGPrefix) }))
}

// countGaps are the gaps in what a node has of the GPU resources of a pod, by count.
func (t *Cluster) countGaps(a *ask, n *v1.Node) []reasons.Gap {
	for _, name := range a.names {
		free, needed := t.uncounted(n, name), a.gpus[name]
		if free >= needed {
			continue
		}
		q := n.Status.Allocatable[v1.ResourceName(name)]
		g := reasons.Gap{Check: reasons.CheckGPUs, Subject: name, Needed: needed, Free: free, Total: request.Amount(&q, request.MostAsked)}
		g.Has = fmt.Sprintf("%d of %d %s free, fewer than %d", g.Free, g.Total, name, needed)
		return []reasons.Gap{g}
	}
	return nil
}

// uncounted is how much of a resource of a node its pods leave.
func (t *Cluster) uncounted(n *v1.Node, name string) int64 {
	q := n.Status.Allocatable[v1.ResourceName(name)]
	free := request.Amount(&q, request.MostAsked)
	for _, p := range t.on[n.Name] {
		free -= request.Of(p)[name]
	}
	return max(0, free)
}
