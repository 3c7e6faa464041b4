package queues

import (
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/commit"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/request"
)

// Offers is how the nodes of a cluster offer their GPUs. It is not safe for concurrent use;
// its zero value has no nodes.
type Offers struct {
	nodes  map[string]*offered
	ways   map[string]*way // by key
	order  []*way          // by kind
	labels []string        // that quotas name: see Count
	plain  bool            // quotas count no kind of GPUs on its own
}

// offered is one node with GPUs.
type offered struct {
	node  *v1.Node
	offer *devices.Offer
	kind  quota.Kind
	key   string
	// reported is what the node's agent says of pods; nil is nothing.
	reported commit.Observed
}

// way is one of the ways in which nodes offer GPUs.
type way struct {
	offer *devices.Offer
	kind  quota.Kind
	node  *v1.Node // one of them
	nodes int
}

// Set adds a node, or changes what is known of it. It reports whether pods may ask for
// something else now: what Asked said before may be different.
func (o *Offers) Set(node *v1.Node) bool {
	had := o.nodes[node.Name]
	if had != nil && devices.SameOffer(had.node, node) && sameTaints(had.node, node) {
		if note := node.Annotations[api.AnnotationObserved]; note != had.node.Annotations[api.AnnotationObserved] {
			had.reported = reported(node)
		}
		had.node = node
		return false
	}
	now := &offered{node: node, offer: devices.OfferOf(node), reported: reported(node)}
	o.read(now)
	if had != nil && had.key == now.key {
		*had = *now
		return false
	}
	changed := o.Remove(node.Name) || had != nil && had.kind != now.kind
	return o.enter(now) || changed
}

// read finds out what kind of GPUs a node has, and in which way it offers them.
func (o *Offers) read(n *offered) {
	n.kind = quota.Kind{Product: n.offer.Product(), Labels: o.labelsOf(n.node)}
	n.key = n.offer.Key() + o.valuesOf(n.node) + taintsOf(n.node)
}

// enter adds a node that is not there, and reports whether it is the first of its way.
func (o *Offers) enter(n *offered) (first bool) {
	if o.nodes == nil {
		o.nodes, o.ways = map[string]*offered{}, map[string]*way{}
	}
	o.nodes[n.node.Name] = n
	if first = o.ways[n.key] == nil; first {
		o.ways[n.key] = &way{offer: n.offer, kind: n.kind, node: n.node}
		o.sort()
	}
	o.ways[n.key].nodes++
	return first
}

// sort puts the ways in order.
func (o *Offers) sort() {
	o.order = slices.SortedFunc(maps.Values(o.ways), func(a, b *way) int { return compareKinds(a.kind, b.kind) })
}

// reported reads what a node's agent says of pods; what cannot be read is as good as
// nothing.
func reported(node *v1.Node) commit.Observed {
	list, err := commit.ObservedOn(node)
	if err != nil {
		return nil
	}
	return list
}

// Remove forgets a node, and reports like Set.
func (o *Offers) Remove(name string) bool {
	had := o.nodes[name]
	if had == nil {
		return false
	}
	delete(o.nodes, name)
	w := o.ways[had.key]
	if w.nodes--; w.nodes == 0 {
		delete(o.ways, had.key)
		o.sort()
	}
	return w.nodes == 0
}

// Products returns the products of the nodes in label form, sorted.
func (o *Offers) Products() []string {
	names := map[string]bool{}
	for _, w := range o.ways {
		if p := w.offer.Product(); p != "" {
			names[p] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// Held returns what a pod that is bound to a node holds until it has ended: committed
// devices, else observed ones, else what it asks for. Where its node is not known, that is
// what it asks for.
func (o *Offers) Held(pod *v1.Pod) []quota.Piece { return o.HeldOn(pod, pod.Spec.NodeName) }

// HeldOn is Held for a pod that goes to a node.
func (o *Offers) HeldOn(pod *v1.Pod, node string) []quota.Piece {
	if request.Ended(pod) {
		return nil
	}
	var list []quota.Piece
	n := o.nodes[node]
	if n != nil {
		list = n.offer.Holds(pod, n.reported[string(pod.UID)])
	}
	if len(list) == 0 {
		asked, _ := Asked(pod, &Offers{}, sharing.AllWays)
		list = asked.Pieces
	}
	if n != nil {
		n.label(list)
	}
	return list
}

// Settled returns what HeldOn says of a pod that goes to a node both before devices are committed to it and after, if that is the
// same whichever they are; else nil.
func (o *Offers) Settled(pod *v1.Pod, node string) []quota.Piece {
	n := o.nodes[node]
	if n == nil {
		return nil
	}
	list := n.offer.Settled(pod)
	n.label(list)
	return list
}

// label sets the labels of a node that quotas name on pieces.
func (n *offered) label(list []quota.Piece) {
	for i := range list {
		list[i].Labels = n.kind.Labels
	}
}

// Asked returns what a pod asks for, and the kinds of GPUs that it may use, sorted; nil is that
// no node is known that it could use. Its node selector and required node affinity decide, as far as
// they are about products and labels that quotas name, and the taints of nodes.
//
// Each device counts as the most that a node which it may use makes of it: of
// nvidia.com/gpu a whole GPU if there is a node where it is one, and of a share by memory
// the part of the smallest GPU. Where no node offers it, MIG devices count as
// quota.PartOfMIG says, and all else but a share of known compute as whole GPUs. Only nodes count
// on which it uses GPUs in allowed ways, as long as there are any.
func Asked(pod *v1.Pod, nodes *Offers, allowed sharing.Ways) (quota.Pod, []quota.Kind) {
	out := quota.Pod{ID: string(pod.UID)}
	asks := request.Asks(pod)
	if len(asks) == 0 {
		return out, nil
	}
	var wants wants
	if pod.Spec.NodeSelector != nil || pod.Spec.Affinity != nil {
		wants = wantsOf(pod, nodes.keys())
	}
	ways, most := nodes.usable(pod, wants, asks, allowed, &out)
	for i, a := range asks {
		piece := quota.Piece{Profile: profileOf(a), Devices: a.Count}
		if most[i] == 0 {
			most[i] = unseen(a, piece.Profile)
		}
		piece.Parts = a.Count * most[i]
		out.Pieces = append(out.Pieces, piece)
	}
	if nodes.plain {
		return out, nil
	}
	return out, wants.kinds(ways, nodes.labels)
}

// usable returns the ways of the nodes that a pod may use, and the most that each ask takes there: of
// those that its constraints leave, those that offer all that it asks for, in allowed ways, and
// whose taints it tolerates, as far as there are some. Where quotas count no kind of GPUs on its own it returns no ways. It
// fills in Ways: those in which the pod may use GPUs, allowed or not.
func (o *Offers) usable(pod *v1.Pod, wants wants, asks []sharing.Ask, allowed sharing.Ways, out *quota.Pod) (ways []*way, most []int64) {
	const levels = 3 // its constraints leave them; they serve it; and it tolerates them
	var few [16]int64
	sums := append(few[:0], make([]int64, (levels+1)*len(asks))...)
	one := sums[levels*len(asks):]
	var buffer [8]int
	levelOf, best := buffer[:0], -1 // of the ways in order; -1 is that its constraints leave it out
	for _, w := range o.order {
		if !wants.match(w.node.Labels) {
			levelOf = append(levelOf, -1)
			continue
		}
		level := 1
		for i, a := range asks {
			parts, offers := w.offer.Most(a)
			if one[i] = parts; !offers {
				level = 0
			}
		}
		if uses, ok := w.offer.Ways(asks); ok {
			if out.Ways = append(out.Ways, uses); !uses.In(allowed) {
				level = 0
			}
		}
		if level > 0 && tolerates(pod, w.node) {
			level++
		}
		levelOf, best = append(levelOf, level), max(best, level)
		for l := 0; l <= level; l++ {
			for i := range one {
				sums[l*len(asks)+i] = max(sums[l*len(asks)+i], one[i])
			}
		}
	}
	if fixed := fixedWays(asks); len(out.Ways) == 0 && fixed != 0 {
		out.Ways = []sharing.Ways{fixed}
	}
	slices.Sort(out.Ways)
	out.Ways = slices.Compact(out.Ways)
	if !o.plain {
		ways = make([]*way, 0, len(o.order))
		for i, w := range o.order {
			if best >= 0 && levelOf[i] >= best {
				ways = append(ways, w)
			}
		}
	}
	best = max(best, 0)
	return ways, append([]int64(nil), sums[best*len(asks):(best+1)*len(asks)]...)
}

// fixedWays are the ways in which a pod uses GPUs whatever node it gets, as far as what it asks for
// says them.
func fixedWays(asks []sharing.Ask) (ways sharing.Ways) {
	for _, a := range asks {
		switch _, _, share := a.ShareOf(); {
		case share:
			ways |= sharing.WayMemory
		case profileOf(a) != "":
			ways |= sharing.WayMIG
		}
	}
	return ways
}

// WaysOf returns in which ways a pod that is bound to a node uses GPUs; 0 is that it is not known.
func (o *Offers) WaysOf(pod *v1.Pod) sharing.Ways {
	asks := request.Asks(pod)
	if n := o.nodes[pod.Spec.NodeName]; n != nil {
		if ways, ok := n.offer.Ways(asks); ok {
			return ways
		}
	}
	return fixedWays(asks)
}

// profileOf returns the MIG profile that an ask is for; "" is none.
func profileOf(a sharing.Ask) string {
	name, ok := strings.CutPrefix(strings.TrimSuffix(a.Resource, ".shared"), api.ResourceMIGPrefix)
	if !ok {
		return ""
	}
	return gpu.CanonicalProfile(name)
}

// unseen is how much a device takes that no node offers.
func unseen(a sharing.Ask, profile string) int64 {
	size, _, share := a.ShareOf()
	switch {
	case profile != "":
		return quota.PartOfMIG("", profile)
	case share && size.MemoryMiB == 0:
		return min(quota.Whole, quota.PartOfMilli(max(0, size.MilliGPU)))
	}
	return quota.Whole
}
