package devices

import (
	"cmp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/kube/commit"
	"berth.dev/berth/kube/request"
)

// CountNodes reads nodes and the pods on them, by name, and how many pods without a
// node each owner has.
func CountNodes(nodes []*v1.Node, pods []*v1.Pod) (counted []Node, waiting map[request.Owner]int) {
	byNode := map[string][]*v1.Pod{}
	waiting = map[request.Owner]int{}
	for _, p := range pods {
		switch {
		case request.Ended(p) || !request.AsksForGPUs(p):
		case p.Spec.NodeName == "":
			waiting[request.OwnerOf(p)]++
		default:
			byNode[p.Spec.NodeName] = append(byNode[p.Spec.NodeName], p)
		}
	}
	for _, n := range nodes {
		counted = append(counted, CountNode(n, byNode[n.Name], waiting))
	}
	slices.SortFunc(counted, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	return counted, waiting
}

// CountNode counts one node and the pods on it.
func CountNode(node *v1.Node, pods []*v1.Pod, waiting map[request.Owner]int) Node {
	m := readMachine(node)
	out := Node{Name: node.Name, Product: m.product, Labels: node.Labels, Published: m.named, Unreadable: m.err}
	for _, t := range node.Spec.Taints {
		out.Taints = append(out.Taints, t.ToString())
	}
	slices.SortFunc(pods, func(a, b *v1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	reported, err := commit.ObservedOn(node)
	if err != nil {
		reported = nil // as good as none: the pods count on the node
	}
	claimed := make([][]claim, len(pods))
	for i, p := range pods {
		claimed[i] = claims(p, reported[string(p.UID)])
	}
	d := newTally(m, claimed)
	for i, p := range pods {
		d.hold(p, claimed[i])
	}
	d.settle()
	out.GPUs, out.Unplaced = d.gpus, d.unplaced
	out.Remark = remark(&d.machine)
	out.count(d)
	out.devices(d)
	out.HeldBy = heldBy(&out, waiting)
	return out
}

// count fills in the amounts. Holders without a device take from the healthy
// GPUs first.
func (n *Node) count(d *tally) {
	n.Physical = len(d.gpus)
	var placed, room int64
	for i := range d.gpus {
		g := &d.gpus[i]
		g.Held = min(oneGPU, d.held[i]).milli()
		placed += g.Held
		if g.Healthy {
			room += 1000 - g.Held
		} else {
			n.Unhealthy++
		}
	}
	all, loose := int64(n.Physical)*1000, part(0)
	for _, h := range d.unplaced {
		loose += h.part
	}
	n.Held = min(all, placed+loose.milli())
	n.Free = max(0, room-(n.Held-placed))
	n.Broken = all - n.Held - n.Free
	if n.Remark != "" {
		n.Closed, n.Free = n.Free, 0
	}
}

// devices counts what the node offers and how much of it is held.
func (n *Node) devices(d *tally) {
	mig := len(d.migResources()) > 0 || d.single
	for _, name := range d.deviceResources() {
		n.Devices += d.capacity(name)
	}
	shared := d.replicas > 1
	count := func(list []Holder) {
		for _, h := range list {
			if !request.IsShareBySize(h.Resource) {
				n.DevicesHeld++
			}
		}
	}
	for _, g := range n.GPUs {
		count(g.Holders)
		for _, m := range g.MIG {
			count(m.Holders)
			shared = shared || m.Shares > 1
		}
	}
	count(n.Unplaced)
	switch {
	case shared:
		n.Sharing = "shares"
	case mig:
		n.Sharing = "MIG devices"
	}
}

// NodeReady reports whether the kubelet of a node says that the node is ready.
func NodeReady(n *v1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c v1.NodeCondition) bool { return c.Type == v1.NodeReady && c.Status == v1.ConditionTrue })
}

// remark says why a node takes no new pod for its GPUs. Order: what a person
// did, then what broke.
func remark(m *machine) string {
	var out []string
	if m.node.Spec.Unschedulable {
		out = append(out, "cordoned")
	}
	for _, c := range m.node.Status.Conditions {
		if c.Type == v1.NodeReady && c.Status != v1.ConditionTrue {
			out = append(out, "not ready")
		}
	}
	if m.named && len(out) == 0 {
		offered := 0
		for _, name := range m.deviceResources() {
			offered += m.allocatable(name)
		}
		healthy := slices.ContainsFunc(m.gpus, func(g GPU) bool { return g.Healthy })
		if offered == 0 && healthy {
			out = append(out, "device plugin down")
		}
	}
	return strings.Join(out, ", ")
}

// heldBy adds up the holders of a node by owner, the greatest first.
func heldBy(n *Node, waiting map[request.Owner]int) []Holding {
	type sum struct {
		part part
		pods map[string]bool
	}
	sums := map[request.Owner]*sum{}
	n.EachHolder(func(h Holder) {
		s := sums[h.Owner]
		if s == nil {
			s = &sum{pods: map[string]bool{}}
			sums[h.Owner] = s
		}
		s.part += h.part
		s.pods[h.Pod] = true
	})
	var out []Holding
	for owner, s := range sums {
		out = append(out, Holding{Owner: owner, MilliGPU: max(1, s.part.milli()), Pods: len(s.pods), Waiting: waiting[owner]})
	}
	slices.SortFunc(out, func(a, b Holding) int {
		return cmp.Or(cmp.Compare(b.MilliGPU, a.MilliGPU), request.CompareOwners(a.Owner, b.Owner))
	})
	return out
}
