package meter

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/core/quota"
	"berth.dev/berth/core/usage"
	"berth.dev/berth/kube/request"
)

// listOf is a room as a pod asks for it.
func listOf(r usage.Room) v1.ResourceList {
	return v1.ResourceList{v1.ResourceCPU: *resource.NewMilliQuantity(r.MilliCPU, resource.DecimalSI), v1.ResourceMemory: *resource.NewQuantity(r.MemoryBytes, resource.BinarySI)}
}

// taken is what the pods of a node take of its CPU and memory, those without GPUs, too.
type taken struct {
	pods map[types.UID]usage.Room
	sum  usage.Room
}

// takes notes what a pod takes of its node; the node is looked at again if that is new.
func (t *tally) takes(p *v1.Pod) {
	if p.Spec.NodeName == "" {
		return
	}
	if request.Ended(p) {
		t.leaves(p)
		return
	}
	on := t.taken[p.Spec.NodeName]
	if on == nil {
		on = &taken{pods: map[types.UID]usage.Room{}}
		t.taken[p.Spec.NodeName] = on
	}
	was, has := on.pods[p.UID]
	is := request.Room(p)
	if has && was == is {
		return
	}
	on.pods[p.UID], on.sum = is, on.sum.Minus(was).Plus(is)
	t.crowded(p.Spec.NodeName)
}

// leaves notes that a pod takes nothing any longer.
func (t *tally) leaves(p *v1.Pod) {
	on := t.taken[p.Spec.NodeName]
	if on == nil {
		return
	}
	if was, has := on.pods[p.UID]; has {
		delete(on.pods, p.UID)
		on.sum = on.sum.Minus(was)
		t.crowded(p.Spec.NodeName)
	}
	if len(on.pods) == 0 {
		delete(t.taken, p.Spec.NodeName)
	}
}

// crowded has a node looked at again if it has GPUs.
func (t *tally) crowded(node string) {
	if n := t.nodes[node]; n != nil {
		if _, up := t.ups.Has(string(n.UID)); up {
			t.dirty[node] = true
		}
	}
}

// starved returns for which lack of CPU or memory the free GPUs of a node, if there are any, cannot be had; "" is none.
func (t *tally) starved(n *v1.Node, parts int64) usage.Reason {
	held := int64(0)
	for uid := range t.pods[n.Name] {
		h, _ := t.holds.Has(string(uid))
		held += h.Value.Parts
	}
	if held >= parts {
		return ""
	}
	if _, says := n.Status.Allocatable[v1.ResourceCPU]; !says {
		return ""
	}
	left := request.RoomIn(n.Status.Allocatable)
	if on := t.taken[n.Name]; on != nil {
		left = left.Minus(on.sum)
	}
	return left.Strands(t.smallest)
}

// strandedBy adds to the parts of a node that cannot be had those for which CPU or memory is missing.
func (t *tally) strandedBy(n *v1.Node, gpus int, by map[usage.Reason]int64) map[usage.Reason]int64 {
	all := int64(gpus) * quota.Whole
	if why := t.starved(n, all); why != "" {
		by[why] = all
	}
	return by
}
