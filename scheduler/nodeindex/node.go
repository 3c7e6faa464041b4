package nodeindex

import (
	"maps"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/api"
	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/snapshot"
	"berth.dev/berth/kube/view"
	"berth.dev/berth/scheduler/state"
)

// node is one node of a view.
type node struct {
	Index      int
	Generation int64    // of the NodeInfo that was read last
	Object     *v1.Node // of it
	Spec       cluster.Spec
	Foreign    bool // it publishes no devices: they are counted, not chosen
	Odd        bool // see odd
	mig        map[string]migPlace
	Held       map[types.UID]*Occupant
	From       *state.Ledger // that held was made from, and its version then
	Version    int
}

// migPlace is where a MIG device is: a GPU by position, profile and start.
type migPlace struct {
	gpu     int
	profile string
	start   int
}

// newNode reads a node.
func newNode(n *v1.Node) *node {
	at := &node{Generation: -1, Object: n, Held: map[types.UID]*Occupant{}}
	at.read()
	return at
}

// read makes spec from object.
func (at *node) read() {
	n := at.Object
	gpus, s, err := devices.GPUs(n)
	at.Foreign, at.Odd, at.mig = err == nil && len(gpus) == 0, err != nil || odd(gpus, s), map[string]migPlace{}
	pods := n.Status.Allocatable.Pods().Value()
	at.Spec = snapshot.Spec(n)
	at.Spec.Pods = int32(min(max(pods, 0), math.MaxInt32))
	if at.Foreign {
		at.Spec.Shares = foreignShares(n)
		return
	}
	at.Spec.Shares = int32(max(1, s.Replicas[api.ResourceGPU]))
	if s.Strategy == "" || s.Strategy == gpu.SharingNone {
		at.Spec.Shares = 1
	}
	for j := range at.Spec.GPUs {
		g := &at.Spec.GPUs[j]
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
func (at *node) same(n *v1.Node) bool {
	o := at.Object
	return o == n || state.SameDevices(o, n) && sameAmounts(o.Status.Allocatable, n.Status.Allocatable) &&
		sameAmounts(o.Status.Capacity, n.Status.Capacity) && o.Annotations[api.AnnotationSharesDo] == n.Annotations[api.AnnotationSharesDo] && (!at.Foreign || maps.Equal(o.Labels, n.Labels))
}

// judgedSame says whether classes judge a node as they did object.
func (at *node) judgedSame(n *v1.Node) bool {
	o := at.Object
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
func (w *View) deviceOf(at *node, d *sharing.Device) (cluster.Device, bool) {
	if d.Profile != "" {
		p, ok := at.mig[d.UUID]
		if !ok {
			return cluster.Device{}, false
		}
		number := w.Snapshot.ProfileNumber(w.Snapshot.GPUs(at.Index)[p.gpu].Product, p.profile)
		if number == 0 {
			return cluster.Device{}, false
		}
		return w.Snapshot.MIGDevice(at.Index, p.gpu, number, p.start), true
	}
	for j, c := range w.Snapshot.Cards(at.Index) {
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
func (w *View) namesOf(at *node, devs []cluster.Device) ([]sharing.Named, bool) {
	cards := w.Snapshot.Cards(at.Index)
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

// Prefer brings one node of the view to what info shows, with mu held, and
// names the devices there that the placement policy chooses for a pod. at is nil
// where there is no view, named where the policy has nothing to say.
func (s *index) Prefer(log klog.Logger, d *state.State, info fwk.NodeInfo, pod *v1.Pod, w *state.Request) (at *node, named map[string][]sharing.Named) {
	if s.View == nil {
		return nil, nil
	}
	if at = s.View.ByName[info.Node().Name]; at == nil {
		return nil, nil
	}
	if at.Generation != info.GetGeneration() && !s.View.refresh(log, d, at, info) {
		s.View = nil // made again for the next pod
		return nil, nil
	}
	if !w.Devices || w.Hold != nil || !state.OneKind(w.Parts) || at.Foreign || at.Odd {
		return at, nil
	}
	r, _, err := s.View.Request(pod, w)
	if r.Class = 0; err != nil || placement.Fit(s.View.Snapshot, at.Index, &r) != placement.Fits {
		return at, nil
	}
	devices, ok := s.View.namesOf(at, placement.On(s.View.Index, at.Index, &r).Devices)
	if !ok {
		return at, nil
	}
	if named, ok = state.NameDevices(w.Parts, devices); !ok {
		return at, nil
	}
	return at, named
}
