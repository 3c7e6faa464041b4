package devices

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/request"
)

// Offer is how one node offers its GPUs. It is read once, and pods are counted on it one by
// one. It does not change, and is safe for concurrent use.
type Offer struct {
	m     machine
	at    map[string]place
	whole bool // nvidia.com/gpu is one GPU of one product, whichever it is
}

// OfferOf reads a node.
func OfferOf(node *v1.Node) *Offer {
	o := &Offer{m: readMachine(node)}
	o.at = o.m.places()
	o.whole = len(o.m.gpus) > 0 && !o.m.single && o.m.replicas == 1 && !slices.ContainsFunc(o.m.gpus, func(g GPU) bool {
		return g.Product != o.m.gpus[0].Product || g.ComputeSlices > 0
	})
	return o
}

// SameOffer reports whether two versions of a node offer the same GPUs in the same way.
func SameOffer(a, b *v1.Node) bool {
	return a == b || SameAnnotations(a, b) && maps.Equal(a.Labels, b.Labels) &&
		maps.EqualFunc(a.Status.Capacity, b.Status.Capacity, func(x, y resource.Quantity) bool { return x.Cmp(y) == 0 })
}

// Product returns the product of the node's GPUs in label form, of several the most
// common; "" is not known.
func (o *Offer) Product() string {
	if o.m.product == UnknownUUID {
		return ""
	}
	return o.m.product
}

// ProductLabel returns the node's label nvidia.com/gpu.product.
func (o *Offer) ProductLabel() string { return o.m.label(api.LabelProduct) }

// Holds returns what a pod that is bound to the node holds of its GPUs: committed devices,
// else observed ones, else what it asks for. observed is what the node's agent says of the
// pod; nil is nothing. Equal devices are one piece; the order is that of products and
// profiles. A pod that holds two shares of a MIG device holds two devices of its profile.
//
// Parts of all pods that the node has room for never add up to more than its GPUs.
func (o *Offer) Holds(pod *v1.Pod, observed map[string][]sharing.Named) []quota.Piece {
	var out []quota.Piece
	add := func(product, profile string, devices int64, size part) {
		if devices <= 0 {
			return
		}
		i := slices.IndexFunc(out, func(p quota.Piece) bool { return p.Product == product && p.Profile == profile })
		if i < 0 {
			i = len(out)
			out = append(out, quota.Piece{Product: product, Profile: profile})
		}
		out[i].Devices += devices
		out[i].Parts += devices * size.quota()
	}
	for _, c := range claims(pod, observed) {
		p, ok := o.at[c.uuid]
		if !ok && !o.m.named && len(o.m.gpus) > 0 && strings.HasPrefix(c.uuid, "GPU-") {
			p, ok = place{0, -1}, true // its GPUs are alike
		}
		if !ok {
			size, _, n := o.m.sizeOff(c)
			add(o.Product(), o.m.profileOf(c.resource), n, size)
			continue
		}
		size, _ := o.m.sizeAt(p, c)
		profile := ""
		if p.mig >= 0 {
			profile = gpu.CanonicalProfile(o.m.gpus[p.gpu].MIG[p.mig].Profile)
		}
		product := o.m.gpus[p.gpu].Product
		if product == UnknownUUID {
			product = ""
		}
		add(product, profile, 1, size)
	}
	slices.SortFunc(out, func(a, b quota.Piece) int {
		return cmp.Or(cmp.Compare(a.Product, b.Product), cmp.Compare(a.Profile, b.Profile))
	})
	return out
}

// Settled returns what Holds says of a pod both before devices are committed to it and after, if that is the same whichever of
// those that it asks for these are; else nil.
func (o *Offer) Settled(pod *v1.Pod) []quota.Piece {
	if !o.whole {
		return nil
	}
	name, n, one := request.OfOne(pod)
	if !one || name != api.ResourceGPU || n <= 0 || n > int64(len(o.m.gpus)) {
		return nil
	}
	return []quota.Piece{{Product: o.Product(), Devices: n, Parts: n * quota.Whole}}
}

// Most returns the most that one device of an ask takes of a GPU of the node, in parts of
// package quota. False is that the node does not offer such devices.
func (o *Offer) Most(a sharing.Ask) (parts int64, ok bool) {
	most := part(0)
	size, _, share := a.ShareOf()
	if !share && o.m.capacity(a.Resource) == 0 {
		return 0, false
	}
	name := strings.TrimSuffix(a.Resource, ".shared")
	for i := range o.m.gpus {
		switch g := &o.m.gpus[i]; {
		case g.ComputeSlices > 0:
		case share && g.Shares <= 1:
			milli, _ := size.Of(g.MemoryBytes)
			most = max(most, oneGPU.times(milli, 1000))
		case !share && name == api.ResourceGPU:
			most = max(most, oneGPU/part(max(1, g.Shares)))
		}
	}
	if !share && (most == 0 || o.m.single) {
		most = o.m.unit(a.Resource)
	}
	return most.quota(), most > 0
}

// Key is equal for nodes of which Product, ProductLabel, Most and Ways say the same.
func (o *Offer) Key() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %v %d %s %d", o.m.product, o.ProductLabel(), o.m.single, o.m.replicas, o.m.label(labelSlices), o.m.computeSlices())
	for _, name := range o.m.deviceResources() {
		bare := strings.TrimSuffix(name, ".shared")
		fmt.Fprintf(&b, " %s:%v:%s:%v", name, o.m.capacity(name) > 0, o.m.label(bare+".replicas"), o.m.sharedBy(bare, true))
	}
	var gpus []string
	for _, g := range o.m.gpus {
		gpus = append(gpus, fmt.Sprintf("%d/%d/%v", g.MemoryBytes, g.Shares, g.ComputeSlices > 0))
	}
	slices.Sort(gpus)
	return b.String() + strings.Join(slices.Compact(gpus), " ")
}

// places lists where the UUIDs of a node are.
func (m *machine) places() map[string]place {
	at := map[string]place{}
	for i, g := range m.gpus {
		if g.UUID != UnknownUUID {
			at[g.UUID] = place{i, -1}
		}
		for j := range g.MIG {
			at[g.MIG[j].UUID] = place{i, j}
		}
	}
	return at
}

// profileOf returns the MIG profile that a resource stands for on the node; "" is none.
func (m *machine) profileOf(asked string) string {
	name := strings.TrimSuffix(asked, ".shared")
	if profile, ok := strings.CutPrefix(name, api.ResourceMIGPrefix); ok {
		return gpu.CanonicalProfile(profile)
	}
	if m.single && name == api.ResourceGPU {
		return gpu.CanonicalProfile(m.migProfile())
	}
	return ""
}
