package nvml

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"berth.dev/berth/core/gpu"
)

// Snapshot asks the driver for everything again.
func (d *Driver) Snapshot() Snapshot {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.snapshot()
}

func (d *Driver) snapshot() Snapshot {
	s := Snapshot{Fake: d.lib.Fake()}
	if err := d.open(); err != nil {
		s.Failed = err.Error()
		return s
	}
	count, err := d.lib.DeviceCount()
	if err == nil {
		s.Driver, err = d.lib.DriverVersion()
	}
	if d.note("", err) != nil {
		s.Failed = fmt.Sprintf("read the driver's inventory: %v", err)
		return s
	}
	if cuda, err := d.lib.CUDAVersion(); err == nil {
		s.CUDA = strconv.Itoa(cuda/1000) + "." + strconv.Itoa(cuda%1000/10)
	}
	before := d.gpus
	d.gpus, d.drift = nil, false
	for i := range count {
		if g := d.card(i, before); g != nil {
			d.gpus = append(d.gpus, g)
		}
	}
	for _, b := range before { // those that vanished altogether
		if !slices.ContainsFunc(d.gpus, func(g *card) bool { return g.facts.UUID == b.facts.UUID }) {
			_ = d.note(b.facts.UUID, GPUIsLost)
		}
	}
	link(d.gpus)
	for _, g := range d.gpus {
		d.known[g.facts.UUID] = g.facts
		s.GPUs = append(s.GPUs, g.facts)
	}
	d.primeGPM()
	if d.gone != nil {
		return Snapshot{Failed: d.gone.Error(), Fake: s.Fake}
	}
	return s
}

// card asks for one GPU. A lost one is given as it was known; nil if it never
// was.
func (d *Driver) card(index int, before []*card) *card {
	dev, err := d.lib.Device(index)
	if err == nil {
		var g *card
		if g, err = d.read(index, dev); err == nil {
			d.lost[g.facts.UUID] = false
			return g
		}
	}
	uuid := ""
	if dev != nil {
		uuid, _ = dev.UUID() // often known to the driver even when it is lost
	}
	if i := slices.IndexFunc(before, func(g *card) bool { return g.facts.Index == index }); uuid == "" && i >= 0 {
		uuid = before[i].facts.UUID
	}
	facts, ok := d.known[uuid]
	_ = d.note(uuid, err)
	if !ok {
		if uuid == "" {
			return nil
		}
		facts.UUID, facts.NUMANode = uuid, -1
	}
	facts.Index, facts.Lost, facts.Healthy = index, true, false
	d.lost[uuid] = true
	return &card{facts: facts, device: dev}
}

// read asks for what is needed, whose errors count, and for what is good to
// know.
func (d *Driver) read(index int, dev Device) (*card, error) {
	uuid, err := dev.UUID()
	if err != nil {
		return nil, err
	}
	name, err := dev.Name()
	if err != nil {
		return nil, err
	}
	memory, err := dev.Memory()
	if err != nil {
		return nil, err
	}
	g := GPU{GPU: gpu.GPU{
		Index: index, UUID: uuid, Product: name, MemoryBytes: memory.Total, NUMANode: -1, Healthy: true,
		Xid: d.xids[xidKey{uuid, anywhere}],
	}}
	if g.Minor, err = dev.Minor(); err != nil {
		g.Minor = index
	}
	if at, err := dev.PCI(); err == nil {
		g.BusID, g.Display, g.PCIID, g.SubsystemID = at.BusID, at.Class == 0x0300, at.ID, at.SubsystemID
	}
	if numa, err := dev.NUMANode(); err == nil {
		g.NUMANode = numa
	}
	g.ComputeMajor, g.ComputeMinor, _ = dev.ComputeCapability()
	g.Multiprocessors = multiprocessors(dev, g)
	g.Fabric, _ = dev.Fabric()
	g.Nodes, _ = dev.Nodes()
	c := &card{facts: g, device: dev}
	return c, d.readMIG(c)
}

// multiprocessors divides the CUDA cores by those of one multiprocessor.
//
// Source: NVIDIA, CUDA C++ Programming Guide, "Compute Capabilities": FP32
// cores of a multiprocessor.
func multiprocessors(dev Device, g GPU) int {
	cores, err := dev.Cores()
	if err != nil {
		if p, ok := gpu.Find(g.Product); ok {
			return p.Multiprocessors
		}
		return 0
	}
	each := 128
	switch major, minor := g.ComputeMajor, g.ComputeMinor; {
	case major == 3:
		each = 192
	case major == 6 && minor == 0, major == 7, major == 8 && minor == 0:
		each = 64
	}
	return cores / each
}

// readMIG fills in modes, profiles and devices.
func (d *Driver) readMIG(c *card) error {
	g := &c.facts
	current, pending, err := c.device.MIGMode()
	if err != nil {
		return unless(err, NotSupported, FunctionNotFound) // a GPU without MIG
	}
	g.MIGCapable, g.MIGEnabled, g.MIGPending = true, current, current != pending
	var units int
	g.Profiles, units = profiles(c.device, *g)
	for _, p := range g.Profiles {
		g.ComputeSlices = max(g.ComputeSlices, p.Slices)
	}
	if !current {
		return nil
	}
	starts := map[int]GPUInstance{}
	for _, shape := range shapes(c.device) {
		instances, err := c.device.GPUInstances(shape.info.ID)
		if err != nil {
			continue // not all shapes can be listed on all drivers
		}
		for _, gi := range instances {
			gi.Placement.Start /= units
			starts[gi.ID] = gi
		}
	}
	n, err := c.device.MaxMIGDevices()
	if err != nil {
		return err
	}
	c.slots = make([]string, n)
	for i := range n {
		dev, err := c.device.MIGDevice(i)
		if err != nil {
			if err := unless(err, NotFound, InvalidArgument); err != nil {
				return err
			}
			continue
		}
		m, err := readCut(dev, *g, starts)
		if err != nil {
			return err
		}
		c.slots[i] = m.UUID
		c.cuts = append(c.cuts, cut{MIGDevice: m, device: dev})
	}
	slices.SortFunc(c.cuts, func(a, b cut) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.CI, b.CI)) })
	for _, m := range c.cuts {
		g.MIG = append(g.MIG, m.MIGDevice)
		if nodes, err := m.device.Nodes(); err == nil && len(nodes) > 0 {
			if g.MIGNodes == nil {
				g.MIGNodes = map[string][]string{}
			}
			g.MIGNodes[m.UUID] = nodes
		}
	}
	return nil
}

// unless returns nil for an error that is one of these.
func unless(err error, these ...Error) error {
	for _, e := range these {
		if codeOf(err) == e {
			return nil
		}
	}
	return err
}

// readCut asks for one MIG device.
func readCut(dev Device, g GPU, instances map[int]GPUInstance) (gpu.MIGDevice, error) {
	m := gpu.MIGDevice{}
	var err error
	if m.UUID, err = dev.UUID(); err != nil {
		return m, err
	}
	if m.GI, err = dev.GPUInstanceID(); err != nil {
		return m, err
	}
	if m.CI, err = dev.ComputeInstanceID(); err != nil {
		return m, err
	}
	has, err := dev.Attributes()
	if err != nil {
		return m, err
	}
	in, known := instances[m.GI]
	m.Slices, m.MemoryBytes, m.Start = has.ComputeInstanceSlices, has.MemoryMiB<<20, in.Placement.Start
	i := slices.IndexFunc(g.Profiles, func(p gpu.Profile) bool { return p.ID == in.Profile })
	switch {
	case known && i >= 0:
		m.Profile = g.Profiles[i].Name
	default:
		m.Profile = gpu.ProfileName(has.GPUInstanceSlices, has.MemoryMiB, g.MemoryBytes>>20, false)
	}
	// A compute instance that does not fill its GPU instance is named after both.
	if has.ComputeInstanceSlices < has.GPUInstanceSlices {
		m.Profile = strconv.Itoa(has.ComputeInstanceSlices) + "c." + m.Profile
	}
	return m, nil
}
