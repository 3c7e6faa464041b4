package kube

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
)

// Parts lists the containers of a pod that ask for GPUs, with what they ask for,
// in the order in which they start. GPU memory beside nvidia.com/gpu asks for
// whole GPUs with at least that memory. Shares in the spelling of KAI, HAMi and
// Volcano are asks with a size; see CheckRequest for those that cannot be read.
func Parts(pod *v1.Pod) []sharing.Part {
	var out []sharing.Part
	add := func(c *v1.Container, handsOn bool) {
		if asks := containerAsks(pod, c); len(asks) > 0 {
			out = append(out, sharing.Part{Name: c.Name, HandsOn: handsOn, Asks: asks})
		}
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		add(c, !sidecar(c))
	}
	for i := range pod.Spec.Containers {
		add(&pod.Spec.Containers[i], false)
	}
	return out
}

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

// Commitment is the value of the annotation berth.dev/devices for parts that
// got devices: one list for each, in the same order.
func Commitment(parts []sharing.Part, devices [][]sharing.Device) (string, error) {
	out := make(map[string][]committedDevice, len(parts))
	for i := range parts {
		for _, d := range devices[i] {
			out[parts[i].Name] = append(out[parts[i].Name], committedDevice{UUID: d.UUID, MilliGPU: d.MilliGPU, MemoryBytes: d.MemoryBytes})
		}
	}
	raw, err := json.Marshal(out)
	return string(raw), err
}

// Committed reads the annotation berth.dev/devices of a pod: the devices of each
// container. It gives nil and no error where the pod has none.
func Committed(pod *v1.Pod) (map[string][]sharing.Named, error) {
	raw, ok := pod.Annotations[api.AnnotationDevices]
	if !ok {
		return nil, nil
	}
	named, err := ParseCommitment(raw)
	if err != nil {
		return nil, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return named, nil
}

// ParseCommitment reads a value of the annotation berth.dev/devices.
func ParseCommitment(raw string) (map[string][]sharing.Named, error) {
	var list map[string][]committedDevice
	if err := json.Unmarshal([]byte(raw), &list); err != nil {
		return nil, fmt.Errorf("read annotation %s: %w; only Berth's scheduler writes it", api.AnnotationDevices, err)
	}
	out := make(map[string][]sharing.Named, len(list))
	for name, devices := range list {
		for _, d := range devices {
			if err := d.check(); err != nil {
				return nil, fmt.Errorf("annotation %s: container %s: %w; only Berth's scheduler writes it", api.AnnotationDevices, name, err)
			}
			out[name] = append(out[name], sharing.Named{UUID: d.UUID, MilliGPU: d.MilliGPU, MemoryBytes: d.MemoryBytes})
		}
	}
	return out, nil
}

// GPUs reads the GPUs of a node and how they are offered, from the annotations
// berth.dev/inventory and berth.dev/plugin-config. It gives no GPUs and no error
// for a node without the first: then nobody has published its devices.
func GPUs(node *v1.Node) ([]gpu.GPU, gpu.Sharing, error) {
	list, err := Inventory(node)
	if err != nil || len(list) == 0 {
		return nil, gpu.Sharing{}, err
	}
	var s gpu.Sharing
	if note := node.Annotations[api.AnnotationPluginConfig]; note != "" {
		if err := json.Unmarshal([]byte(note), &s); err != nil {
			return nil, s, fmt.Errorf("node %s: read annotation %s: %w", node.Name, api.AnnotationPluginConfig, err)
		}
		if err := sharing.CheckReplicas(s); err != nil {
			return nil, gpu.Sharing{}, fmt.Errorf("node %s: annotation %s: %w", node.Name, api.AnnotationPluginConfig, err)
		}
	}
	gpus := make([]gpu.GPU, 0, len(list))
	for _, item := range list {
		g := gpu.GPU{
			Index: item.Index, UUID: item.UUID, Product: item.Product, MemoryBytes: item.MemoryBytes, Healthy: item.Healthy, Xid: item.Xid,
			MIGEnabled: item.ComputeSlices > 0, Clique: item.Clique, NUMANode: -1,
		}
		if item.NUMANode != nil {
			g.NUMANode = *item.NUMANode
		}
		for _, m := range item.MIG {
			g.MIG = append(g.MIG, gpu.MIGDevice{UUID: m.UUID, Profile: m.Profile, Start: m.Start, Slices: m.Slices, MemoryBytes: m.MemoryBytes})
		}
		gpus = append(gpus, g)
	}
	slices.SortStableFunc(gpus, func(a, b gpu.GPU) int { return cmp.Compare(a.Index, b.Index) })
	return gpus, s, nil
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
		if b.Pod.Status.Phase == v1.PodSucceeded || b.Pod.Status.Phase == v1.PodFailed || Request(b.Pod) == nil {
			continue
		}
		committed, err := Committed(b.Pod)
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
		_, err := l.Commit(HolderID(b.Pod), Parts(b.Pod), b.Assumed)
		if ids := observedIDs(b.Pod); err != nil && len(ids) > 0 {
			err = l.Restore(HolderID(b.Pod), ids) // it moved when the node's configuration changed
		}
		problems = note(problems, b.Pod, err)
	}
	for _, b := range unknown {
		_, err := l.Allocate(HolderID(b.Pod), withoutShares(Parts(b.Pod)))
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
