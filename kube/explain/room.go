package explain

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

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

// Room says whether a pod would find a place now if the pod with UID without were
// gone, and if not, why, in a few words that are equal for equal counts. It looks
// at CPU, memory, GPUs, node selector, affinity to nodes and taints; not at
// volumes, other pods' wishes or who else waits. So yes is no promise, and no is
// sure as far as these go.
//
// An error is of objects that cannot be counted; nothing is said then.
func Room(nodes []*v1.Node, pods []*v1.Pod, pod *v1.Pod, without types.UID) (ok bool, why string, err error) {
	rest := slices.DeleteFunc(slices.Clone(pods), func(p *v1.Pod) bool { return p.UID == without })
	read, err := snapshot.Read(nodes, rest)
	if err != nil {
		return false, "", err
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
	counts := map[string]int{}
	for i := range s.Len() {
		r := request.Demand(pod, sharingOf(byName[s.Node(i).Name]))
		r.Class = roomClass
		reason := placement.Fit(s, i, &r)
		if reason == placement.Fits {
			return true, "", nil
		}
		counts[roomWords(reason)]++
	}
	return false, noRoom(pod, counts, len(read.Closed)), nil
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

func roomWords(r placement.Reason) string {
	switch r { //nolint:exhaustive // the rest is about GPUs
	case placement.Excluded:
		return "not for it"
	case placement.NotEnoughCPU:
		return "too little CPU"
	case placement.NotEnoughMemory:
		return "too little memory"
	case placement.TooManyPods:
		return "too many pods"
	}
	return "too few GPUs free"
}

func noRoom(pod *v1.Pod, counts map[string]int, closed int) string {
	if closed > 0 {
		counts["closed"] = closed
	}
	parts := make([]string, 0, len(counts))
	for words, n := range counts {
		parts = append(parts, fmt.Sprint(n, " ", words))
	}
	slices.Sort(parts)
	want := "what it asks for"
	if list := AmountsOf(pod); len(list) > 0 {
		want = reasons.Amounts(list)
	}
	if len(parts) == 0 {
		return "there is no node"
	}
	return fmt.Sprintf("no node has %s for it (nodes: %s)", want, strings.Join(parts, ", "))
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
