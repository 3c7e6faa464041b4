package snapshot

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/request"
)

// placementOf is what a pod takes of a node. Devices that are not there, because more
// is held than the node has, are left out; Assume does the same with CPU and memory.
func (b *Builder) placementOf(n *countedNode, pod *v1.Pod) cluster.Placement {
	p := cluster.Placement{Node: n.at.Index, Request: request.NodeResources(pod), Ends: endsOf(pod)}
	t := taker{b: b, at: n.at, left: map[int]int32{}}
	mine := func(h devices.Holder) bool { return h.Pod == pod.Name && h.Namespace == pod.Namespace }
	for j := range min(len(n.counted.GPUs), len(n.at.Spec.GPUs)) {
		for _, h := range n.counted.GPUs[j].Holders {
			if mine(h) {
				t.share(j, h)
			}
		}
		for _, d := range n.counted.GPUs[j].MIG {
			if slices.ContainsFunc(d.Holders, mine) {
				t.mig(d)
			}
		}
	}
	for _, h := range n.counted.Unplaced {
		if mine(h) {
			t.share(t.roomiest(), h)
		}
	}
	sortDevices(t.devices)
	if p.Devices = t.devices; len(p.Devices) > 0 {
		p.Request.MilliGPU = p.Devices[0].MilliGPU
	}
	return p
}

// taker takes devices of one node for one pod.
type taker struct {
	b       *Builder
	at      *Node
	left    map[int]int32 // milli-GPUs of GPUs that were touched
	devices []cluster.Device
}

func (t *taker) gpus() []cluster.GPU { return t.b.Snapshot.GPUs(t.at.Index) }

// room is what is left of GPU j for shares and whole requests.
func (t *taker) room(j int) int32 {
	if n, ok := t.left[j]; ok {
		return n
	}
	if g := &t.gpus()[j]; !g.MIG {
		return g.FreeMilli
	}
	return 0
}

// roomiest is the GPU with the most left, or -1.
func (t *taker) roomiest() int {
	best := -1
	for j := range t.gpus() {
		if best < 0 || t.room(j) > t.room(best) {
			best = j
		}
	}
	return best
}

// share takes what h holds of GPU j, as far as there is room. Its memory is in
// proportion: what a container may use of a GPU shared by time is not its own.
func (t *taker) share(j int, h devices.Holder) {
	if j < 0 || !t.gpus()[j].Healthy {
		return // what stays on a GPU that failed takes nothing that others could get
	}
	milli := min(int32(max(1, min(h.MilliGPU, cluster.Whole))), t.room(j))
	if milli <= 0 {
		return
	}
	t.left[j] = t.room(j) - milli
	t.devices = append(t.devices, cluster.Device{
		GPU: int32(j), MilliGPU: milli, MemoryBytes: cluster.ShareBytes(milli, t.b.Snapshot.Cards(t.at.Index)[j].MemoryBytes),
	})
}

// mig takes a MIG device, if it can be taken.
func (t *taker) mig(d devices.MIGDevice) {
	got, ok := t.b.migDevice(t.at, d.UUID)
	if !ok {
		return
	}
	g := &t.gpus()[got.GPU]
	if !g.MIG || !g.Healthy || t.b.Snapshot.Starts(t.at.Index, int(got.GPU), got.Profile)&(1<<d.Start) == 0 || slices.Contains(t.devices, got) {
		return
	}
	t.devices = append(t.devices, got)
}
