package snapshot

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/request"
)

// placementOf is what a pod takes of node i of s, where n is that node as it was
// counted. What is there no more, because more is held than the node has, is
// left out.
func placementOf(s *cluster.Snapshot, i int, n *devices.Node, pod *v1.Pod) cluster.Placement {
	free := s.Node(i)
	p := cluster.Placement{Node: i, Request: request.NodeResources(pod)}
	p.Request.CPUMilli = min(p.Request.CPUMilli, free.FreeCPUMilli)
	p.Request.MemoryBytes = min(p.Request.MemoryBytes, free.FreeMemoryBytes)
	t := taker{s: s, node: i, left: map[int]int32{}}
	mine := func(h devices.Holder) bool { return h.Pod == pod.Name && h.Namespace == pod.Namespace }
	for j := range min(len(n.GPUs), len(s.GPUs(i))) {
		for _, h := range n.GPUs[j].Holders {
			if mine(h) {
				t.share(j, h)
			}
		}
		for _, d := range n.GPUs[j].MIG {
			if slices.ContainsFunc(d.Holders, mine) {
				t.mig(j, d)
			}
		}
	}
	for _, h := range n.Unplaced {
		if mine(h) {
			t.share(t.roomiest(), h)
		}
	}
	slices.SortStableFunc(t.devices, func(a, b cluster.Device) int {
		return cmp.Or(cmp.Compare(a.GPU, b.GPU), cmp.Compare(a.Start, b.Start))
	})
	p.Devices = t.devices
	p.Request.GPUs = int32(len(t.devices))
	if len(t.devices) > 0 {
		p.Request.MilliGPU = t.devices[0].MilliGPU
	}
	return p
}

// taker takes devices of one node for one pod.
type taker struct {
	s       *cluster.Snapshot
	node    int
	left    map[int]int32 // milli-GPUs of GPUs that were touched
	devices []cluster.Device
}

// room is what is left of GPU j for shares and whole requests.
func (t *taker) room(j int) int32 {
	if n, ok := t.left[j]; ok {
		return n
	}
	if g := &t.s.GPUs(t.node)[j]; !g.MIG {
		return g.FreeMilli
	}
	return 0
}

// roomiest is the GPU with the most left, or -1.
func (t *taker) roomiest() int {
	best := -1
	for j := range t.s.GPUs(t.node) {
		if best < 0 || t.room(j) > t.room(best) {
			best = j
		}
	}
	return best
}

// share takes what h holds of GPU j, as far as there is room. Its memory is in
// proportion: what a container may use of a GPU shared by time is not its own.
func (t *taker) share(j int, h devices.Holder) {
	if j < 0 || !t.s.GPUs(t.node)[j].Healthy {
		return // what stays on a GPU that failed takes nothing that others could get
	}
	milli := min(int32(max(1, min(h.MilliGPU, cluster.Whole))), t.room(j))
	if milli <= 0 {
		return
	}
	t.left[j] = t.room(j) - milli
	t.devices = append(t.devices, cluster.Device{
		GPU: int32(j), MilliGPU: milli, MemoryBytes: cluster.ShareBytes(milli, t.s.Cards(t.node)[j].MemoryBytes),
	})
}

// mig takes a MIG device of GPU j.
func (t *taker) mig(j int, d devices.MIGDevice) {
	g := &t.s.GPUs(t.node)[j]
	if !g.MIG || !g.Healthy {
		return
	}
	profile := t.s.ProfileNumber(g.Product, d.Profile)
	if profile == 0 || t.s.Starts(t.node, j, profile)&(1<<d.Start) == 0 {
		return
	}
	for _, got := range t.devices {
		if got.GPU == int32(j) && got.Profile != 0 && int(got.Start) == d.Start {
			return
		}
	}
	t.devices = append(t.devices, t.s.MIGDevice(t.node, j, profile, d.Start))
}
