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
	nodes map[string]*offered
	ways  map[string]*way // by devices.Offer.Key
}

// offered is one node with GPUs.
type offered struct {
	node  *v1.Node
	offer *devices.Offer
	key   string
	// reported is what the node's agent says of pods; nil is nothing.
	reported commit.Observed
}

// way is one of the ways in which nodes offer GPUs.
type way struct {
	offer *devices.Offer
	nodes int
}

// Set adds a node, or changes what is known of it. It reports whether pods may ask for
// something else now: what Asked said before may be different.
func (o *Offers) Set(node *v1.Node) bool {
	had := o.nodes[node.Name]
	if had != nil && devices.SameOffer(had.node, node) {
		if note := node.Annotations[api.AnnotationObserved]; note != had.node.Annotations[api.AnnotationObserved] {
			had.reported = reported(node)
		}
		had.node = node
		return false
	}
	offer := devices.OfferOf(node)
	key := offer.Key()
	if o.nodes == nil {
		o.nodes, o.ways = map[string]*offered{}, map[string]*way{}
	}
	if had != nil && had.key == key {
		*had = offered{node, offer, key, reported(node)}
		return false
	}
	changed := o.Remove(node.Name)
	o.nodes[node.Name] = &offered{node, offer, key, reported(node)}
	if o.ways[key] == nil {
		o.ways[key] = &way{offer: offer}
		changed = true
	}
	o.ways[key].nodes++
	return changed
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
func (o *Offers) Held(pod *v1.Pod) []quota.Piece {
	if n := o.nodes[pod.Spec.NodeName]; n != nil {
		return held(pod, n.offer, n.reported)
	}
	return held(pod, nil, nil)
}

// Held is Offers.Held for one pod and its node, which may be nil.
func Held(pod *v1.Pod, node *v1.Node) []quota.Piece {
	if node == nil {
		return held(pod, nil, nil)
	}
	return held(pod, devices.OfferOf(node), reported(node))
}

func held(pod *v1.Pod, offer *devices.Offer, known commit.Observed) []quota.Piece {
	if pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
		return nil
	}
	if offer != nil {
		if list := offer.Holds(pod, known[string(pod.UID)]); len(list) > 0 {
			return list
		}
	}
	asked, _ := Asked(pod, &Offers{}, sharing.AllWays)
	return asked.Pieces
}

// Asked returns what a pod asks for, and the products that its node selector and required
// node affinity let it use, in label form and sorted; nil is any.
//
// Each device counts as the most that a node with one of these products makes of it: of
// nvidia.com/gpu a whole GPU if there is a node where it is one, and of a share by memory
// the part of the smallest GPU. Where no node offers it, MIG devices count as
// quota.PartOfMIG says, and all else but a share of known compute as whole GPUs. Only nodes count
// on which it uses GPUs in allowed ways, as long as there are any.
func Asked(pod *v1.Pod, nodes *Offers, allowed sharing.Ways) (quota.Pod, []string) {
	out := quota.Pod{ID: string(pod.UID)}
	asks := request.Asks(pod)
	if len(asks) == 0 {
		return out, nil
	}
	wants := wantsOf(pod)
	offers := nodes.serving(wants, asks, allowed, &out)
	for _, a := range asks {
		most := int64(0)
		for _, offer := range offers {
			parts, _ := offer.Most(a)
			most = max(most, parts)
		}
		piece := quota.Piece{Profile: profileOf(a), Devices: a.Count}
		if most == 0 {
			most = unseen(a, piece.Profile)
		}
		piece.Parts = a.Count * most
		out.Pieces = append(out.Pieces, piece)
	}
	return out, wants.products(nodes.ways)
}

// serving returns the offers of the nodes that can be what a pod requires, and fills in Ways: those in which
// it is allowed to use GPUs, or all of them if there are none.
func (o *Offers) serving(wants wants, asks []sharing.Ask, allowed sharing.Ways, pod *quota.Pod) []*devices.Offer {
	var all, fit []*devices.Offer
	for _, w := range o.ways {
		if !wants.match(w.offer.ProductLabel()) {
			continue
		}
		all = append(all, w.offer)
		if ways, ok := w.offer.Ways(asks); ok {
			pod.Ways = append(pod.Ways, ways)
			if ways.In(allowed) {
				fit = append(fit, w.offer)
			}
		}
	}
	if fixed := fixedWays(asks); len(pod.Ways) == 0 && fixed != 0 {
		pod.Ways = []sharing.Ways{fixed}
	}
	slices.Sort(pod.Ways)
	pod.Ways = slices.Compact(pod.Ways)
	if len(fit) > 0 {
		return fit
	}
	return all
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
