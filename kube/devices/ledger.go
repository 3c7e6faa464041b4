package devices

import (
	"cmp"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/commit"
	"berth.dev/berth/kube/request"
)

// withoutShares is parts without what they ask for in shares by size.
func withoutShares(parts []sharing.Part) []sharing.Part {
	for i := range parts {
		parts[i].Asks = slices.DeleteFunc(parts[i].Asks, func(a sharing.Ask) bool {
			_, _, share := a.ShareOf()
			return share
		})
	}
	return parts
}

// Bound is a pod on a node, and the devices chosen for it where they are not in
// its annotation yet.
type Bound struct {
	Pod     *v1.Pod
	Assumed map[string][]sharing.Named // by container; nil is none
}

// HolderID names a pod as the holder of devices in a ledger.
func HolderID(pod *v1.Pod) string { return string(pod.UID) }

// Ledger counts the pods of a node on its devices: committed ones, assumed ones,
// those that the kubelet reports, and for pods of which nothing is known yet
// those that a device plugin would give out: no shares by size, as nodes refuse
// those that are not committed. Pods that have ended count for nothing. Where pods claim one device twice the first counts, and problems says
// so for the others; the node refuses those.
//
// It gives no ledger and no error for a node that publishes no devices.
func Ledger(node *v1.Node, pods []Bound) (l *sharing.Ledger, problems []error, err error) {
	gpus, s, err := GPUs(node)
	if err != nil || len(gpus) == 0 {
		return nil, nil, err
	}
	if l, problems, err = LedgerOf(gpus, s, pods); err != nil {
		return nil, nil, fmt.Errorf("node %s: %w", node.Name, err)
	}
	return l, problems, nil
}

// LedgerOf is Ledger of a node whose annotations have been read by GPUs.
func LedgerOf(gpus []gpu.GPU, s gpu.Sharing, pods []Bound) (l *sharing.Ledger, problems []error, err error) {
	if l, err = sharing.NewLedger(gpus, s); err != nil {
		return nil, nil, err
	}
	return l, count(l, pods), nil
}

// count holds the devices of pods in l: those that run first, as their devices
// are known one by one, then committed and assumed ones, then the rest.
func count(l *sharing.Ledger, pods []Bound) (problems []error) {
	pods = slices.Clone(pods)
	slices.SortStableFunc(pods, func(a, b Bound) int {
		return cmp.Or(cmp.Compare(a.Pod.Namespace, b.Pod.Namespace), cmp.Compare(a.Pod.Name, b.Pod.Name))
	})
	var named, unknown []Bound
	for _, b := range pods {
		if request.Ended(b.Pod) || !request.AsksForGPUs(b.Pod) {
			continue
		}
		committed, err := commit.Committed(b.Pod)
		if committed != nil {
			b.Assumed = committed
		}
		ids := observedIDs(b.Pod)
		switch {
		case b.Assumed != nil:
			named = append(named, b)
		case len(ids) > 0:
			err = l.Restore(HolderID(b.Pod), ids)
		default:
			unknown = append(unknown, b)
		}
		problems = note(problems, b.Pod, err)
	}
	for _, b := range named {
		_, err := l.Commit(HolderID(b.Pod), request.Parts(b.Pod), b.Assumed)
		if ids := observedIDs(b.Pod); err != nil && len(ids) > 0 {
			err = l.Restore(HolderID(b.Pod), ids) // it moved when the node's configuration changed
		}
		problems = note(problems, b.Pod, err)
	}
	for _, b := range unknown {
		_, err := l.Allocate(HolderID(b.Pod), withoutShares(request.Parts(b.Pod)))
		problems = note(problems, b.Pod, err)
	}
	return problems
}

func note(problems []error, pod *v1.Pod, err error) []error {
	if err == nil {
		return problems
	}
	return append(problems, fmt.Errorf("count pod %s/%s: %w", pod.Namespace, pod.Name, err))
}

// observedIDs lists the devices that the kubelet says a pod holds, each once.
func observedIDs(pod *v1.Pod) []string {
	var ids []string
	for _, c := range holdOrder(pod) {
		for _, k := range observed(pod, c) {
			ids = append(ids, k.id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
