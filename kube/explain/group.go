package explain

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/kube/request"
)

// Group is what the gang of pod needs as a whole, with its members among pods; nil is
// that pod is in no gang, or asks for no GPUs.
func (t *Cluster) Group(pod *v1.Pod, pods []*v1.Pod) *reasons.Group {
	return t.group(pod, pods, nil)
}

// group is Group with what the nodes say of pod; nil is that they were not asked.
func (t *Cluster) group(pod *v1.Pod, pods []*v1.Pod, v *reasons.Verdict) *reasons.Group {
	g, err := request.GangOf(pod)
	asks := AmountsOf(pod)
	if g == nil || err != nil || len(asks) == 0 {
		return nil
	}
	out := &reasons.Group{Name: g.Name, Members: g.MinCount, Resource: asks[0].Resource}
	waiting := []*v1.Pod{pod}
	there := 1
	for _, p := range pods {
		other, err := request.GangOf(p)
		if other == nil || err != nil || other.Key != g.Key || p.UID == pod.UID && p.Name == pod.Name {
			continue
		}
		if there++; p.Spec.NodeName == "" {
			waiting = append(waiting, p)
		} else {
			out.Placed++
		}
	}
	slices.SortStableFunc(waiting, func(a, b *v1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	for _, p := range waiting {
		if list := AmountsOf(p); len(list) > 0 && list[0].Resource == out.Resource {
			out.Needed += list[0].Count
		}
	}
	if out.Waiting = len(waiting); out.Members > there { // those that are still to come ask for the same
		out.Needed += int64(out.Members-there) * asks[0].Count
	}
	if v == nil {
		v = t.Judge(pod)
	}
	out.Total = v.Total
	a := &ask{pod: pod, required: nodeaffinity.GetRequiredNodeAffinity(pod)}
	for _, n := range t.nodes {
		if i, ok := t.snapshot.Find(n.Name); ok && len(unselected(a, n)) == 0 && tolerates(pod, n) == nil {
			out.Free += int64(t.snapshot.Node(i).Idle)
		}
	}
	out.Fit = t.placeAll(waiting)
	return out
}

// placeAll is how many of pods would find a place now, one after the other.
func (t *Cluster) placeAll(pods []*v1.Pod) int {
	mark := t.snapshot.Mark()
	defer t.snapshot.RollBack(mark)
	best := placement.NewBestFit(placement.Setup{Cluster: t.snapshot})
	count := 0
	for _, p := range pods {
		c := t.candidates(p, t.ties)
		if c.take(t.snapshot, best) {
			count++
		}
	}
	return count
}

// groupReliefs are the reliefs of pod. Those of a member of a gang are only the ones with
// which all members that have no node would find a place now together, each with the
// same change. v is what the nodes say of pod.
func (t *Cluster) groupReliefs(pod *v1.Pod, pods []*v1.Pod, v *reasons.Verdict) []reasons.Relief {
	g := t.group(pod, pods, v)
	if g == nil {
		return reliefs(pod, t.helps(pod, v))
	}
	waiting := max(g.Waiting, g.Members-g.Placed)
	var out []reasons.Relief
	for _, h := range t.helps(pod, v) {
		all := make([]*v1.Pod, waiting)
		for i := range all {
			all[i] = h.Pod
		}
		if t.placeAll(all) == waiting {
			h.Change = "in all pods of the gang: " + h.Change
			if request.OwnerOf(pod).Kind != "Pod" {
				h.Command = command(pod, h.Pod)
			}
			out = append(out, h.Relief)
		}
	}
	return out
}
