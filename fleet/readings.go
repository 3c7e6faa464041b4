package fleet

import (
	"cmp"
	"hash/fnv"
	"path"
	"slices"
	"time"

	"berth.dev/berth/agent/exporter"
	"berth.dev/berth/agent/fakegpu"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/fleet/smi"
)

// load returns what the current run of a container does on one of its devices.
func (n *node) load(p *pod, c *container, d sharing.Device) fakegpu.Load {
	l := fakegpu.Load{
		Namespace: p.api.Namespace, Pod: p.api.Name, Container: c.spec.Name, Process: process(c), PID: pid(p, c),
		MilliGPU: d.MilliGPU, UtilizationRatio: c.plan.UtilizationRatio, MemoryBytes: c.plan.MemoryBytes,
		Start: c.begun, Curve: c.plan.Curve, Peers: len(c.devices) - 1, Asked: askedOf(c),
	}
	if d.Profile != "" {
		l.MIG = d.UUID
	}
	return l
}

// loads returns what runs on a GPU, in order of pod and container.
func (n *node) loads(index int) []fakegpu.Load {
	var out []fakegpu.Load
	n.eachHolder(func(p *pod, c *container, d sharing.Device) {
		if d.GPU == index && c.running() {
			out = append(out, n.load(p, c, d))
		}
	})
	return out
}

// eachHolder calls f for each device of each container that may run, in order
// of pod, container and device.
func (n *node) eachHolder(f func(*pod, *container, sharing.Device)) {
	var list []*pod
	for _, p := range n.pods {
		if !p.finished && !p.released {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b *pod) int {
		return cmp.Or(cmp.Compare(a.api.Namespace, b.api.Namespace), cmp.Compare(a.api.Name, b.api.Name), cmp.Compare(a.api.UID, b.api.UID))
	})
	for _, p := range list {
		for _, c := range p.containers {
			for _, d := range c.devices {
				f(p, c, d)
			}
		}
	}
}

// reading returns what a GPU, or one of its MIG devices, shows at a moment.
func (n *node) reading(g gpu.GPU, mig string, loads []fakegpu.Load, at time.Time) gpu.Reading {
	from, ok := n.totals[g.Index]
	if !ok {
		from.At = n.boot
	}
	return fakegpu.ReadFrom(g, mig, append(loads, n.past[g.Index]...), fakegpu.Faults{Thermal: n.faults.thermal[g.Index]}, from, at)
}

// process names the executable that nvidia-smi shows for a container.
func process(c *container) string {
	if len(c.spec.Command) > 0 {
		return path.Base(c.spec.Command[0])
	}
	repository, _ := splitImage(c.spec.Image)
	return path.Base(repository)
}

// pid assigns a container's main process a number in the node's namespace that
// does not change while it runs.
func pid(p *pod, c *container) int {
	h := fnv.New32a()
	h.Write([]byte(string(p.api.UID) + c.spec.Name))
	return 2000 + int(h.Sum32()%60000)
}

// View shows GPUs of a node as nvidia-smi sees them, indexed again from 0. Nil
// uuids are the whole node; others choose GPUs and MIG devices. While the
// driver is broken there are none, and DriverLost is set.
func (f *Fleet) View(node string, uuids []string) smi.View {
	n := f.find(node)
	if n == nil {
		return smi.View{Node: node, Now: f.now().UTC()}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.view(uuids, f.now(), true)
}

// view is View with mu held, at any time. Without busy it shows idle GPUs.
func (n *node) view(uuids []string, at time.Time, busy bool) smi.View {
	v := smi.View{Node: n.name, Driver: n.spec.Driver, CUDA: n.spec.CUDA, Now: at.UTC()} // containers have no time zone, as date has none there
	if n.faults.driver {
		v.DriverLost = true
		return v
	}
	for _, g := range n.gpus {
		if uuids != nil && !slices.Contains(uuids, g.UUID) {
			g.MIG = slices.DeleteFunc(slices.Clone(g.MIG), func(m gpu.MIGDevice) bool { return !slices.Contains(uuids, m.UUID) })
			if len(g.MIG) == 0 {
				continue
			}
		}
		var loads []fakegpu.Load
		if busy {
			loads = n.loads(g.Index)
		}
		d := smi.Device{GPU: g, Reading: n.reading(g, "", loads, at), MIG: map[string]gpu.Reading{}}
		for _, m := range g.MIG {
			d.MIG[m.UUID] = n.reading(g, m.UUID, loads, at)
		}
		for _, l := range loads {
			if shown := l.MIG == "" || slices.ContainsFunc(g.MIG, func(m gpu.MIGDevice) bool { return m.UUID == l.MIG }); shown && memoryOf(l, at) > 0 {
				d.Processes = append(d.Processes, smi.Process{
					PID: l.PID, Name: l.Process, MemoryBytes: memoryOf(l, at), UtilizationRatio: ratioOf(l, at), MIG: l.MIG,
				})
			}
		}
		d.GPU.Index = len(v.Devices)
		v.Devices = append(v.Devices, d)
	}
	return v
}

// memoryOf returns the memory of a load at a moment.
func memoryOf(l fakegpu.Load, at time.Time) int64 {
	bytes := l.MemoryBytes
	for _, p := range l.Curve {
		if !at.Before(l.Start.Add(p.After)) {
			bytes = p.MemoryBytes
		}
	}
	return bytes
}

// ratioOf returns the utilization of a load at a moment.
func ratioOf(l fakegpu.Load, at time.Time) float64 {
	ratio := l.UtilizationRatio
	for _, p := range l.Curve {
		if !at.Before(l.Start.Add(p.After)) {
			ratio = p.UtilizationRatio
		}
	}
	return ratio
}

// Metrics returns the devices of a node as its exporter pod shows them: GPUs
// and MIG devices in index order, each with its holders.
func (f *Fleet) Metrics(node string) []exporter.Device {
	n := f.find(node)
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.faults.driver {
		return nil
	}
	at := f.now()
	holders := map[string][]exporter.Pod{}
	n.eachHolder(func(p *pod, c *container, d sharing.Device) {
		holders[d.UUID] = append(holders[d.UUID], exporter.Pod{Namespace: p.api.Namespace, Name: p.api.Name, Container: c.spec.Name, UID: string(p.api.UID)})
	})
	var out []exporter.Device
	for _, g := range n.gpus {
		loads := n.loads(g.Index)
		if len(g.MIG) == 0 || len(holders[g.UUID]) > 0 {
			out = append(out, exporter.Device{GPU: g, Reading: n.reading(g, "", loads, at), Pods: holders[g.UUID]})
			continue
		}
		for i := range g.MIG {
			m := g.MIG[i]
			out = append(out, exporter.Device{GPU: g, MIG: &m, Reading: n.reading(g, m.UUID, loads, at), Pods: holders[m.UUID]})
		}
	}
	return out
}
