package devices

import (
	"maps"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/api"
	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/snapshot"
	"berth.dev/berth/kube/view"
)

// site is one node of a world.
type site struct {
	index      int
	generation int64    // of the NodeInfo that was read last
	object     *v1.Node // of it
	spec       cluster.Spec
	foreign    bool // it publishes no devices: they are counted, not chosen
	odd        bool // see odd
	mig        map[string]migPlace
	held       map[types.UID]*occupant
	from       *node // that held was made from, and its version then
	version    int
}

// migPlace is where a MIG device is: a GPU by position, profile and start.
type migPlace struct {
	gpu     int
	profile string
	start   int
}

// newSite reads a node.
func newSite(n *v1.Node) *site {
	at := &site{generation: -1, object: n, held: map[types.UID]*occupant{}}
	at.read()
	return at
}

// read makes spec from object.
func (at *site) read() {
	n := at.object
	gpus, s, err := devices.GPUs(n)
	at.foreign, at.odd, at.mig = err == nil && len(gpus) == 0, err != nil || odd(gpus, s), map[string]migPlace{}
	pods := n.Status.Allocatable.Pods().Value()
	at.spec = snapshot.Spec(n)
	at.spec.Pods = int32(min(max(pods, 0), math.MaxInt32))
	if at.foreign {
		at.spec.Shares = foreignShares(n)
		return
	}
	at.spec.Shares = int32(max(1, s.Replicas[api.ResourceGPU]))
	if s.Strategy == "" || s.Strategy == gpu.SharingNone {
		at.spec.Shares = 1
	}
	for j := range at.spec.GPUs {
		g := &at.spec.GPUs[j]
		k := slices.IndexFunc(gpus, func(o gpu.GPU) bool { return o.UUID == g.UUID })
		if k < 0 {
			continue
		}
		g.Clique, g.NUMANode = gpus[k].Clique, gpus[k].NUMANode
		for _, m := range g.MIG {
			at.mig[m.UUID] = migPlace{j, m.Profile, m.Start}
		}
	}
}

// foreignShares is how many devices of nvidia.com/gpu a node without an
// inventory makes of each GPU, as its labels say.
func foreignShares(n *v1.Node) int32 {
	for _, read := range view.Cluster([]*v1.Node{n}, nil).Nodes {
		for _, g := range read.GPUs {
			return int32(max(1, g.Shares))
		}
	}
	return 1
}

// same says whether a node offers what object does.
func (at *site) same(n *v1.Node) bool {
	o := at.object
	return o == n || sameDevices(o, n) && sameAmounts(o.Status.Allocatable, n.Status.Allocatable) &&
		sameAmounts(o.Status.Capacity, n.Status.Capacity) && o.Annotations[api.AnnotationSharesDo] == n.Annotations[api.AnnotationSharesDo] && (!at.foreign || maps.Equal(o.Labels, n.Labels))
}

// judgedSame says whether classes judge a node as they did object.
func (at *site) judgedSame(n *v1.Node) bool {
	o := at.object
	return o == n || o.Spec.Unschedulable == n.Spec.Unschedulable && slices.Equal(o.Spec.Taints, n.Spec.Taints) && maps.Equal(o.Labels, n.Labels) &&
		o.Annotations[api.AnnotationDatasets] == n.Annotations[api.AnnotationDatasets] && sameImages(o, n)
}

func sameAmounts(a, b v1.ResourceList) bool {
	if len(a) != len(b) {
		return false
	}
	for name, q := range a {
		if other, ok := b[name]; !ok || q.Cmp(other) != 0 {
			return false
		}
	}
	return true
}

// deviceOf turns a device of a ledger into one of the Snapshot.
func (w *world) deviceOf(at *site, d *sharing.Device) (cluster.Device, bool) {
	if d.Profile != "" {
		p, ok := at.mig[d.UUID]
		if !ok {
			return cluster.Device{}, false
		}
		number := w.snapshot.ProfileNumber(w.snapshot.GPUs(at.index)[p.gpu].Product, p.profile)
		if number == 0 {
			return cluster.Device{}, false
		}
		return w.snapshot.MIGDevice(at.index, p.gpu, number, p.start), true
	}
	for j, c := range w.snapshot.Cards(at.index) {
		if c.Index != d.GPU {
			continue
		}
		out := cluster.Device{GPU: int32(j), MilliGPU: int32(max(1, d.MilliGPU)), MemoryBytes: d.MemoryBytes}
		if d.Resource != sharing.ResourceMemory {
			out.MemoryBytes = cluster.ShareBytes(out.MilliGPU, c.MemoryBytes)
		}
		return out, true
	}
	return cluster.Device{}, false
}

// namesOf gives the UUIDs of the devices of a placement on a node.
func (w *world) namesOf(at *site, devs []cluster.Device) ([]sharing.Named, bool) {
	cards := w.snapshot.Cards(at.index)
	out := make([]sharing.Named, 0, len(devs))
	for _, d := range devs {
		uuid := cards[d.GPU].UUID
		if d.Profile != 0 {
			uuid = ""
			for name, p := range at.mig {
				if p.gpu == int(d.GPU) && p.start == int(d.Start) {
					uuid = name
				}
			}
		}
		if uuid == "" || uuid == devices.UnknownUUID {
			return nil, false
		}
		out = append(out, sharing.Named{UUID: uuid, MilliGPU: int64(d.MilliGPU), MemoryBytes: d.MemoryBytes})
	}
	return out, true
}

// foreignUnits is how many devices of a node without an inventory are asked for
// by the pods there.
func foreignUnits(info fwk.NodeInfo) int64 {
	asked := info.GetRequested().GetScalarResources()
	return asked[api.ResourceGPU] + asked[api.ResourceGPUShared]
}
