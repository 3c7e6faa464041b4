package fleet

import (
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/agent/fakegpu"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/fleet/spec"
)

// node is one simulated node: its kubelet, GPUs and device plugin. mu guards
// the fields below it and the pods on the node.
type node struct {
	fleet *Fleet
	name  string
	ip    string
	boot  time.Time // when its GPU counters began
	alarm alarm

	mu      sync.Mutex
	spec    spec.Node   // GPUs without faults, Sharing in force
	gpus    []gpu.GPU   // GPUs with faults, those that are draining unhealthy
	api     *v1.Node    // newest seen; nil until then
	faults  faults      // in force
	noted   string      // annotation that faults were read from
	config  configLabel // of the device plugin, as last read
	refused brokenConfig
	mig     partition
	ledger  *sharing.Ledger
	pods    map[types.UID]*pod
	images  map[string]bool        // present on the node
	totals  map[int]fakegpu.Totals // counters by GPU index, of what has ended
	past    map[int][]fakegpu.Load // loads that ended after totals
	since   time.Time              // since when no device plugin runs; zero is that one does
	lease   lease
}

// newNode makes the engine of a node whose GPUs are s.GPUs without faults. It
// is an error if they cannot be offered as s.Sharing says.
func newNode(f *Fleet, s spec.Node, ip string, now time.Time) (*node, error) {
	n := &node{
		fleet: f, name: s.Name, ip: ip, spec: s, gpus: s.GPUs, boot: now, pods: map[types.UID]*pod{},
		images: map[string]bool{}, totals: map[int]fakegpu.Totals{}, past: map[int][]fakegpu.Load{},
	}
	n.alarm.task = n
	var err error
	n.ledger, err = sharing.NewLedger(n.gpus, s.Sharing)
	return n, err
}

// now returns the node as it is now: spec with the GPUs of the moment.
func (n *node) now() spec.Node {
	s := n.spec
	s.GPUs = n.gpus
	return s
}

// device returns a device that the node offers, or that a pod holds.
func (n *node) device(id string) (sharing.Device, bool) {
	for _, d := range n.ledger.Devices() {
		if d.ID == id {
			return d, true
		}
	}
	for _, h := range n.ledger.Held() {
		if h.Device.ID == id {
			return h.Device, true
		}
	}
	uuid, size, ok := sharing.ParseSizeID(id)
	for _, g := range n.gpus {
		if g.UUID == uuid && ok {
			d := sharing.Device{
				ID: id, Resource: sharing.ResourceMemory, UUID: uuid, GPU: g.Index, Healthy: g.Healthy, Clique: g.Clique, NUMANode: g.NUMANode,
			}
			d.MilliGPU, d.MemoryBytes = size.Of(g.MemoryBytes)
			return d, true
		}
	}
	return sharing.Device{}, false
}

// parts returns devices with the memory that their holder may count on: of a
// time-slicing share, its even part.
func (n *node) parts(devices []sharing.Device) []sharing.Device {
	if n.spec.Sharing.Strategy != gpu.SharingTimeSlicing {
		return devices
	}
	out := slices.Clone(devices)
	for i, d := range out {
		_, replica, _ := sharing.ParseID(d.ID)
		if r := n.spec.Sharing.Replicas[unrenamed(d.Resource)]; replica >= 0 && r > 1 {
			out[i].MemoryBytes /= int64(r)
		}
	}
	return out
}

// plan decides what the current run of a container does.
func (n *node) plan(p *pod, c *container) Plan {
	switch {
	case p.plugin && n.faults.plugin:
		return pluginCrash(pluginFault)
	case p.plugin && n.refused.namespace == p.api.Namespace:
		return pluginCrash(n.refused.why)
	}
	plan := Behave(p.api, c.spec, n.parts(c.devices))
	if _, ok := downloads(p.api, c.spec); ok && !c.running() {
		if ended, ok := c.recalled(); ok {
			return ended
		}
	}
	if plan.Model != nil {
		files, known := n.fleet.files.of(p.api, c.spec)
		if !known {
			files, known = p.modelFiles()
		}
		plan = plan.withFiles(files, known)
	}
	if c.holds(n.faults.oom) {
		plan = outOfMemory(plan, oomAfter)
	}
	return plan
}

// settle adds what a run did to the counters of its GPUs when it ends.
func (n *node) settle(p *pod, c *container, at time.Time) {
	for _, d := range c.devices {
		if d.GPU >= len(n.gpus) {
			continue
		}
		l := n.load(p, c, d)
		l.End = at
		from, ok := n.totals[d.GPU]
		if !ok {
			from.At = n.boot
		}
		n.past[d.GPU] = append(n.past[d.GPU], l)
		n.totals[d.GPU] = fakegpu.Advance(n.gpus[d.GPU], append(n.loads(d.GPU), n.past[d.GPU]...), from, at)
		n.past[d.GPU] = slices.DeleteFunc(n.past[d.GPU], func(l fakegpu.Load) bool { return !l.End.After(at) })
	}
}

// broken reports whether the node's kubelet does nothing.
func (n *node) broken() bool { return n.faults.kubelet }
