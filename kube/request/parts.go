package request

import (
	"cmp"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/core/sharing"
)

// Asks adds up what the containers of a pod ask for, each resource and size of share once:
// the devices that Berth's scheduler takes for it. Devices of an init container count
// again only as far as those after it cannot use them. Shares by memory have their size in
// Share. The order is that of resources and sizes.
func Asks(pod *v1.Pod) []sharing.Ask {
	if len(pod.Spec.InitContainers) == 0 && len(pod.Spec.Containers) == 1 { // as most have
		if asks := containerAsks(pod, &pod.Spec.Containers[0]); len(asks) < 2 {
			return oneAsk(asks)
		}
	}
	parts := Parts(pod)
	if len(parts) == 1 && len(parts[0].Asks) == 1 {
		return oneAsk(parts[0].Asks)
	}
	total, reuse := asked{}, asked{}
	for _, p := range parts {
		had, mine := maps.Clone(reuse), asked{}
		for _, a := range p.Asks {
			k, n := kindOf(a)
			for _, r := range had.kinds() {
				if taken := min(n, had[r]); taken > 0 && r.serves(k) {
					had[r] -= taken
					n -= taken
					mine[r] += taken
				}
			}
			total[k] += n
			mine[k] += n
		}
		if !p.HandsOn {
			reuse = had
			continue
		}
		for k, n := range mine {
			reuse[k] = max(reuse[k], n)
		}
	}
	var out []sharing.Ask
	for _, k := range total.kinds() {
		if total[k] > 0 {
			out = append(out, sharing.Ask{Resource: k.resource, Share: k.share, Count: total[k]})
		}
	}
	return out
}

// oneAsk is Asks for at most one ask, which it changes.
func oneAsk(asks []sharing.Ask) []sharing.Ask {
	for i, a := range asks {
		if k, n := kindOf(a); n > 0 {
			asks[i] = sharing.Ask{Resource: k.resource, Share: k.share, Count: n}
			return asks
		}
	}
	return nil
}

// deviceKind is a resource, and the size of shares by size.
type deviceKind struct {
	resource string
	share    sharing.ShareSize
}

// kindOf returns the kind of devices that an ask is for, and how many.
func kindOf(a sharing.Ask) (deviceKind, int64) {
	if size, n, ok := a.ShareOf(); ok {
		return deviceKind{a.Resource, size}, n
	}
	return deviceKind{a.Resource, a.Share}, a.Count
}

// serves reports whether devices of kind k surely serve where want is asked for.
func (k deviceKind) serves(want deviceKind) bool {
	none := sharing.ShareSize{}
	if k.share == none || want.share == none {
		return k == want
	}
	return k.share.MilliGPU >= want.share.MilliGPU && k.share.MemoryMiB >= want.share.MemoryMiB
}

// asked is how many devices of each kind are asked for.
type asked map[deviceKind]int64

// kinds returns the kinds, sorted.
func (a asked) kinds() []deviceKind {
	return slices.SortedFunc(maps.Keys(a), func(x, y deviceKind) int {
		return cmp.Or(cmp.Compare(x.resource, y.resource), cmp.Compare(x.share.MilliGPU, y.share.MilliGPU), cmp.Compare(x.share.MemoryMiB, y.share.MemoryMiB))
	})
}

// Parts lists the containers of a pod that ask for GPUs, with what they ask for,
// in the order in which they start. GPU memory beside nvidia.com/gpu asks for
// whole GPUs with at least that memory. Shares in the spelling of KAI, HAMi and
// Volcano are asks with a size; see Check for those that cannot be read.
func Parts(pod *v1.Pod) []sharing.Part {
	var out []sharing.Part
	add := func(c *v1.Container, handsOn bool) {
		if asks := containerAsks(pod, c); len(asks) > 0 {
			out = append(out, sharing.Part{Name: c.Name, HandsOn: handsOn, Asks: asks})
		}
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		add(c, !IsSidecar(c))
	}
	for i := range pod.Spec.Containers {
		add(&pod.Spec.Containers[i], false)
	}
	return out
}
