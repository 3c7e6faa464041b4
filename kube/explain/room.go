package explain

import (
	"maps"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"berth.dev/berth/api"
	"berth.dev/berth/core/cluster"
	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/kube/snapshot"
)

// roomClass is the class of the one request that Room asks about.
const roomClass = 1

// Room returns what a pod would lack now if the pod with UID without were gone, and nil if
// it would fit on a node. It looks at CPU, memory, GPUs, node selector, affinity to nodes
// and taints; not at volumes, affinity to pods, or other pods that wait. So nil is no
// promise, and a shortage is certain as far as these go.
//
// An error is about objects that cannot be counted.
func Room(nodes []*v1.Node, pods []*v1.Pod, pod *v1.Pod, without types.UID) (*reasons.Shortage, error) {
	rest := slices.DeleteFunc(slices.Clone(pods), func(p *v1.Pod) bool { return p.UID == without })
	read, err := snapshot.Read(nodes, rest)
	if err != nil {
		return nil, err
	}
	s := read.Snapshot
	byName := make(map[string]*v1.Node, len(nodes))
	for _, n := range nodes {
		byName[n.Name] = n
	}
	names := slices.Sorted(maps.Keys(request.Of(pod)))
	required := nodeaffinity.GetRequiredNodeAffinity(pod)
	verdicts := make([]cluster.Verdict, s.Len())
	for i := range verdicts {
		n := byName[s.Node(i).Name]
		match, err := required.Match(n)
		if !match || err != nil || untolerated(n, pod.Spec.Tolerations) != "" || unoffered(n, n.Status.Allocatable, names) != "" {
			verdicts[i].Reason = 1
		}
	}
	s.SetClass(roomClass, verdicts)
	counts := map[reasons.Check]int{}
	for i := range s.Len() {
		r := request.Demand(pod, sharingOf(byName[s.Node(i).Name]))
		r.Class = roomClass
		reason := placement.Fit(s, i, &r)
		if reason == placement.Fits {
			return nil, nil
		}
		counts[roomCheck(reason)]++
	}
	if n := len(read.Closed); n > 0 {
		counts[reasons.CheckClosed] = n
	}
	return &reasons.Shortage{Wanted: AmountsOf(pod), Nodes: counts}, nil
}

// sharingOf is how a node divides its GPUs; one that publishes nothing is read
// from NVIDIA's label of replicas.
func sharingOf(n *v1.Node) gpu.Sharing {
	if list, s, err := devices.GPUs(n); err == nil && len(list) > 0 {
		return s
	}
	if replicas, err := strconv.Atoi(n.Labels[api.LabelReplicas]); err == nil && replicas > 1 {
		return gpu.Sharing{Replicas: map[string]int{api.ResourceGPU: replicas}}
	}
	return gpu.Sharing{}
}

// roomCheck is the check by which placement turned a node away.
func roomCheck(r placement.Reason) reasons.Check {
	switch r { //nolint:exhaustive // the rest is about GPUs
	case placement.Excluded:
		return reasons.CheckSelector
	case placement.NotEnoughCPU:
		return reasons.CheckCPU
	case placement.NotEnoughMemory:
		return reasons.CheckMemory
	case placement.TooManyPods:
		return reasons.CheckPods
	}
	return reasons.CheckGPUs
}

// AmountsOf is what a pod asks for of GPUs, by resource.
func AmountsOf(pod *v1.Pod) []reasons.Amount {
	want := request.Of(pod)
	var out []reasons.Amount
	for _, name := range slices.Sorted(maps.Keys(want)) {
		out = append(out, reasons.Amount{Resource: name, Count: want[name]})
	}
	return out
}
