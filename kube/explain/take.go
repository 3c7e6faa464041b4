package explain

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/commit"
	"berth.dev/berth/kube/request"
)

// Taken is the place that a pod which does not exist yet would get.
type Taken struct {
	Pod  *v1.Pod // with its node, and with its devices where they are known
	Node string
	GPUs []int // the indexes of the physical GPUs that it gets all or a part of, sorted; nil is that it gets none, or not known
	// MilliGPU is how much of GPUs it gets; 0 is none, or not known.
	MilliGPU int64

	placement cluster.Placement
}

// option is a node that a pod fits on, as far as package placement counts.
type option struct {
	node    *v1.Node
	at      int // in the snapshot
	request cluster.Request
	counted bool // its devices are counted, not chosen
	score   placement.Score
}

// options are the nodes that a pod fits on as far as package placement counts, the one that the policy likes
// best first. within are nodes of the snapshot; nil is all.
func (t *Cluster) options(a *ask, by placement.Policy, within []int32) []option {
	var out []option
	for _, n := range t.nodes {
		i, found := t.snapshot.Find(n.Name)
		if !found || within != nil && !slices.Contains(within, int32(i)) {
			continue
		}
		d := t.dividedOf(n)
		if d.err != nil {
			continue
		}
		o := option{node: n, at: i, counted: t.counts(a, n)}
		r := a.demand(d.Sharing)
		if o.counted {
			r = request.NodeResources(a.pod)
		}
		if placement.Fit(t.snapshot, i, &r) != placement.Fits {
			continue
		}
		o.request = t.snapshot.Resolve(i, &r)
		o.score = by.Score(t.snapshot, i, &o.request)
		out = append(out, o)
	}
	slices.SortStableFunc(out, func(a, b option) int { return cmp.Compare(b.score, a.score) })
	return out
}

// take has a pod hold the first of its options that passes every check.
func (t *Cluster) take(pod *v1.Pod, by placement.Policy, within []int32) (*Taken, bool) {
	a := t.askOf(pod)
	for _, o := range t.options(a, by, within) {
		if len(t.gaps(a, o.node)) > 0 {
			continue
		}
		out := &Taken{Node: o.node.Name, placement: cluster.Placement{Node: o.at, Request: o.request}}
		if o.request.GPUs > 0 {
			out.placement.Devices = by.Devices(t.snapshot, o.at, &o.request, nil)
		}
		if t.snapshot.Assume(&out.placement) != nil {
			continue
		}
		out.MilliGPU = out.placement.TotalMilli()
		for _, d := range out.placement.Devices {
			out.GPUs = append(out.GPUs, t.snapshot.Cards(o.at)[d.GPU].Index)
		}
		slices.Sort(out.GPUs)
		if out.GPUs = slices.Compact(out.GPUs); len(out.GPUs) > 0 && out.GPUs[0] < 0 {
			out.GPUs = nil
		}
		out.Pod = t.bound(pod, out)
		t.on[out.Node] = append(t.on[out.Node], out.Pod)
		if keepsApart(out.Pod) {
			t.antis = append(t.antis, out.Pod)
		}
		return out, true
	}
	return nil, false
}

// bound is a pod with its node and, where they have names, its devices.
func (t *Cluster) bound(pod *v1.Pod, at *Taken) *v1.Pod {
	out := pod.DeepCopy()
	out.Spec.NodeName, out.Status.Conditions = at.Node, nil
	parts := request.Parts(pod)
	list, named := t.read.Named(at.Node, at.placement.Devices)
	if !named || len(list) == 0 {
		return out
	}
	of, fits := sharing.NameDevices(parts, list)
	if !fits {
		return out
	}
	devices := make([][]sharing.Device, len(parts))
	for i := range parts {
		for _, d := range of[parts[i].Name] {
			devices[i] = append(devices[i], sharing.Device{UUID: d.UUID, MilliGPU: d.MilliGPU, MemoryBytes: d.MemoryBytes})
		}
	}
	if text, err := commit.Commitment(parts, devices); err == nil {
		if out.Annotations == nil {
			out.Annotations = map[string]string{}
		}
		out.Annotations[api.AnnotationDevices] = text
	}
	return out
}

// leave takes back what take has given, the last first.
func (t *Cluster) leave(taken []*Taken) {
	for _, gone := range slices.Backward(taken) {
		is := func(p *v1.Pod) bool { return p == gone.Pod }
		t.on[gone.Node], t.antis = slices.DeleteFunc(t.on[gone.Node], is), slices.DeleteFunc(t.antis, is)
	}
}

// policyOf is the policy of Berth's scheduler on the cluster, after it has seen the requests of pods.
func (t *Cluster) policyOf(pods []*v1.Pod) (placement.Policy, *placement.Index) {
	p := placement.NewBerth(placement.Setup{Cluster: t.snapshot}, placement.DefaultParams())
	x := placement.NewIndex(t.snapshot, p, nil, nil)
	for _, pod := range pods {
		if request.AsksForGPUs(pod) {
			r := request.Demand(pod, gpu.Sharing{})
			x.Arrive(&r)
		}
	}
	return p, x
}
