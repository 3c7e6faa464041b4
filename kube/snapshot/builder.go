package snapshot

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/request"
)

// Builder makes a Snapshot of nodes and keeps it up to date, node by node and pod
// by pod: Read fills one at once, the scheduler lets one follow what it sees. It is
// not safe for concurrent use.
type Builder struct {
	Snapshot *cluster.Snapshot
}

// NewBuilder makes the Snapshot of nodes, in the order of their names: equal
// clusters give equal decisions. It sorts the nodes and sets their Index. It refuses
// what cluster.New refuses.
func NewBuilder(nodes []*Node) (Builder, error) {
	slices.SortFunc(nodes, func(a, b *Node) int { return strings.Compare(a.Object.Name, b.Object.Name) })
	specs := make([]cluster.Spec, len(nodes))
	for i, at := range nodes {
		at.Index, specs[i] = i, at.Spec
	}
	s, err := cluster.New(specs)
	if err != nil {
		return Builder{}, fmt.Errorf("count the cluster: %w", err)
	}
	return Builder{Snapshot: s}, nil
}

// Replace reads a node again whose object offers something else now; nothing is
// held there then. It reports false where the node has become another than the
// Snapshot can hold in its place: a new Builder is needed then.
func (b *Builder) Replace(at *Node, n *v1.Node) bool {
	next := ReadNode(n)
	for key := range at.Held {
		b.Leave(at, key)
	}
	b.Snapshot.SetBase(at.Index, 0, 0, 0)
	if b.Snapshot.Replace(at.Index, &next.Spec) != nil {
		return false
	}
	at.Object, at.Spec, at.Foreign, at.Odd, at.mig = n, next.Spec, next.Foreign, next.Odd, next.mig
	return true
}

// Enter counts devices as held by a pod, or for it where r is its request, under a
// key: the pod's UID, or another where a pod counts twice.
func (b *Builder) Enter(at *Node, key types.UID, pod *v1.Pod, held []sharing.Device, r *cluster.Request) {
	o := &Occupant{Pod: pod, Hold: r != nil}
	if o.Placement.Node = at.Index; r != nil {
		o.Placement.Request = *r
	} else {
		o.Placement.Request = request.Demand(pod, gpu.Sharing{})
	}
	for i := range held {
		if d, ok := b.deviceOf(at, &held[i]); ok {
			o.Placement.Devices = append(o.Placement.Devices, d)
		}
	}
	sortDevices(o.Placement.Devices)
	o.Placement.Ends = endsOf(pod)
	b.Assume(at, key, o)
}

// endsOf is cluster.Placement.Ends of a pod.
func endsOf(pod *v1.Pod) int64 {
	if ends := request.EndsFrom(pod, time.Now()); !ends.IsZero() {
		return ends.Unix()
	}
	return 0
}

func sortDevices(list []cluster.Device) {
	slices.SortStableFunc(list, func(a, b cluster.Device) int { return cmp.Or(cmp.Compare(a.GPU, b.GPU), cmp.Compare(a.Start, b.Start)) })
}

// Assume counts o on a node as far as there is room, and reports whether it could:
// of CPU and memory what is free, and of devices those on GPUs that are healthy. The
// others are given to no pod, and are removed from o.
func (b *Builder) Assume(at *Node, key types.UID, o *Occupant) bool {
	p := &o.Placement
	n := b.Snapshot.Node(at.Index)
	p.Request.CPUMilli, p.Request.MemoryBytes = min(p.Request.CPUMilli, n.FreeCPUMilli), min(p.Request.MemoryBytes, n.FreeMemoryBytes)
	p.Request.Class = 0
	for {
		p.Request.GPUs = int32(len(p.Devices))
		if b.Snapshot.Assume(p) == nil {
			at.Held[key] = o
			return true
		}
		if len(p.Devices) == 0 {
			return false
		}
		p.Devices = b.possible(at, p.Devices)
	}
}

// possible is list without the first device that cannot be taken, or without the
// last.
func (b *Builder) possible(at *Node, list []cluster.Device) []cluster.Device {
	for i := range list {
		one := cluster.Placement{Node: at.Index, Request: cluster.Request{GPUs: 1}, Devices: list[i : i+1]}
		m := b.Snapshot.Mark()
		err := b.Snapshot.Assume(&one)
		b.Snapshot.RollBack(m)
		if err != nil {
			return slices.Delete(slices.Clone(list), i, i+1)
		}
	}
	return list[:len(list)-1]
}

// Leave frees what is held on a node under a key, if anything.
func (b *Builder) Leave(at *Node, key types.UID) {
	if o := at.Held[key]; o != nil {
		delete(at.Held, key)
		if err := b.Snapshot.Release(&o.Placement); err != nil {
			panic("kube/snapshot: what was assumed cannot be released: " + err.Error())
		}
	}
}

// EnterUnits counts units of nvidia.com/gpu on a node that publishes no devices: on
// its healthy GPUs, in order, whichever pods hold them.
func (b *Builder) EnterUnits(at *Node, units int64) {
	o := &Occupant{}
	o.Placement.Node = at.Index
	shares := int64(b.Snapshot.Node(at.Index).Shares)
	for j, c := range b.Snapshot.Cards(at.Index) {
		if n := min(units, shares); n > 0 && b.Snapshot.GPUs(at.Index)[j].Healthy {
			units -= n
			milli := int32(min(cluster.Whole, n*(cluster.Whole/shares)))
			if n == shares {
				milli = cluster.Whole
			}
			o.Placement.Devices = append(o.Placement.Devices, cluster.Device{GPU: int32(j), MilliGPU: milli, MemoryBytes: cluster.ShareBytes(milli, c.MemoryBytes)})
		}
	}
	if len(o.Placement.Devices) > 0 {
		b.Assume(at, "", o)
	}
}
