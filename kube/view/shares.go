package view

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/request"
)

// Share is what one pod has of the GPUs of its node, and in which way.
type Share struct {
	request.Owner
	Pod, Node string
	User      string       // as Holder has it
	Ways      sharing.Ways // 0 is not known
	MilliGPU  int64
	Neighbors int // other pods on the same GPUs, as far as it is known which these are
}

// Shares returns what each pod of a view has, by node, namespace, and name. nodes and pods are those that the view was read from.
func (v *View) Shares(nodes []*v1.Node, pods []*v1.Pod) []Share {
	var offers queues.Offers
	for _, n := range nodes {
		offers.Set(n)
	}
	ways := map[[2]string]sharing.Ways{}
	for _, p := range pods {
		ways[[2]string{p.Namespace, p.Name}] = offers.WaysOf(p)
	}
	var out []Share
	for i := range v.Nodes {
		list := sharesOf(&v.Nodes[i])
		for k := range list {
			list[k].Ways = ways[[2]string{list[k].Namespace, list[k].Pod}]
		}
		out = append(out, list...)
	}
	return out
}

// sharesOf is what the pods of one node have, without their ways.
func sharesOf(n *devices.Node) []Share {
	type key struct{ namespace, pod string }
	all := map[key]*Share{}
	add := func(h *devices.Holder) key {
		k := key{h.Namespace, h.Pod}
		if all[k] == nil {
			all[k] = &Share{Owner: h.Owner, Pod: h.Pod, Node: n.Name, User: h.User}
		}
		all[k].MilliGPU += h.MilliGPU
		return k
	}
	beside := map[key]map[key]bool{}
	for i := range n.GPUs {
		on := map[key]bool{}
		for _, h := range holdersOf(&n.GPUs[i]) {
			on[add(&h)] = true
		}
		for one := range on {
			if beside[one] == nil {
				beside[one] = map[key]bool{}
			}
			for other := range on {
				beside[one][other] = true
			}
		}
	}
	for i := range n.Unplaced {
		add(&n.Unplaced[i])
	}
	out := make([]Share, 0, len(all))
	for k, s := range all {
		s.Neighbors = max(0, len(beside[k])-1)
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b Share) int { return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod)) })
	return out
}

// holdersOf are all holders of a GPU and of its MIG devices.
func holdersOf(g *devices.GPU) []devices.Holder {
	list := slices.Clone(g.Holders)
	for i := range g.MIG {
		list = append(list, g.MIG[i].Holders...)
	}
	return list
}

// Saved is how many GPUs more the parts of GPUs that containers hold now would be without sharing: each part would take a GPU. parts
// are those parts, and gpus how many GPUs have them.
func (v *View) Saved() (saved, parts, gpus int) {
	for i := range v.Nodes {
		n := &v.Nodes[i]
		for k := range n.GPUs {
			if on := partial(holdersOf(&n.GPUs[k])); on > 0 {
				parts, gpus = parts+on, gpus+1
			}
		}
		milli := int64(0)
		for _, h := range n.Unplaced {
			if h.MilliGPU < 1000 {
				milli += h.MilliGPU
			}
		}
		parts, gpus = parts+partial(n.Unplaced), gpus+int((milli+999)/1000)
	}
	return parts - gpus, parts, gpus
}

// partial counts holders with less than a GPU.
func partial(list []devices.Holder) (n int) {
	for i := range list {
		if list[i].MilliGPU < 1000 {
			n++
		}
	}
	return n
}
