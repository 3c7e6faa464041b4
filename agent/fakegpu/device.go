package fakegpu

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/core/gpu"
)

// device is a handle: of a GPU, or of one of its MIG devices. As with NVML's, it
// is void once its device is gone.
type device struct {
	l    *Library
	uuid string // of the GPU
	mig  string // of the MIG device; "" is the whole GPU
}

var _ nvml.Device = (*device)(nil)

// fresh is how long a reading serves the calls of one sample.
const fresh = 20 * time.Millisecond

// ask is the way into every call on a device: traps, the state of the driver
// and of the GPU, then f with the library locked.
func ask[T any](d *device, symbol string, f func(*card) (T, error)) (T, error) {
	var none T
	d.l.mu.Lock()
	c := d.l.find(d.uuid)
	d.l.mu.Unlock()
	if err := d.l.enter(symbol, c); err != nil {
		return none, err
	}
	defer d.l.mu.Unlock()
	switch c = d.l.find(d.uuid); {
	case c == nil || !slices.Contains(d.l.present(), c):
		return none, nvml.GPUIsLost
	case d.l.isLost(c) && symbol != "nvmlDeviceGetUUID":
		return none, nvml.GPUIsLost
	case d.mig != "" && !slices.ContainsFunc(c.g.MIG, func(m gpu.MIGDevice) bool { return m.UUID == d.mig }):
		return none, nvml.InvalidArgument
	}
	return f(c)
}

// whole is ask for calls that MIG devices do not have.
func whole[T any](d *device, symbol string, f func(*card) (T, error)) (T, error) {
	return ask(d, symbol, func(c *card) (T, error) {
		if d.mig != "" {
			var none T
			return none, nvml.NotSupported
		}
		return f(c)
	})
}

// read is whole for what a Reading holds.
func read[T any](d *device, symbol string, f func(gpu.Reading) T) (T, error) {
	return whole(d, symbol, func(c *card) (T, error) { return f(d.l.read(c, "")), nil })
}

// find returns the card of a UUID, or nil.
func (l *Library) find(uuid string) *card {
	for _, c := range l.cards {
		if c.g.UUID == uuid {
			return c
		}
	}
	return nil
}

func (l *Library) isLost(c *card) bool {
	return slices.ContainsFunc(l.file.Lost, func(x Change) bool { return x.GPU == c.index && l.holds(x.After) })
}

// loads returns what runs on a card.
func (l *Library) loads(c *card) []Load {
	var out []Load
	for i, w := range l.file.Work {
		mig := l.bound[i]
		gone := w.MIG != nil && !slices.ContainsFunc(c.g.MIG, func(m gpu.MIGDevice) bool { return m.UUID == mig })
		if w.GPU != c.index || gone {
			continue
		}
		out = append(out, Load{
			Process: w.Process, PID: w.PID, MIG: mig, UtilizationRatio: w.Utilization,
			MemoryBytes: w.MemoryMiB << 20, MilliGPU: 1000, Peers: w.Peers,
		})
	}
	return out
}

// bind finds the MIG devices that loads name by place. They stay on them,
// whatever is partitioned later.
func (l *Library) bind() {
	l.bound = make([]string, len(l.file.Work))
	for i, w := range l.file.Work {
		l.bound[i] = l.cards[w.GPU].device(w.MIG)
	}
}

// read returns what a card, or its MIG device, shows now.
func (l *Library) read(c *card, mig string) gpu.Reading {
	now := time.Now()
	if have, ok := c.reading[mig]; ok && now.Sub(have.at) < fresh {
		return have.r
	}
	hot := slices.ContainsFunc(l.file.Thermal, func(x Change) bool { return x.GPU == c.index && l.holds(x.After) })
	r := ReadFrom(c.g, mig, l.loads(c), Faults{Thermal: hot}, c.totals, now)
	c.reading[mig] = reading{now, r}
	return r
}

func (d *device) UUID() (string, error) {
	return ask(d, "nvmlDeviceGetUUID", func(c *card) (string, error) {
		if d.mig != "" {
			return d.mig, nil
		}
		return c.g.UUID, nil
	})
}

func (d *device) Name() (string, error) {
	return ask(d, "nvmlDeviceGetName", func(c *card) (string, error) {
		if d.mig != "" {
			return c.product.Name + " MIG " + c.migDevice(d.mig).Profile, nil
		}
		return c.product.Name, nil
	})
}

func (d *device) Minor() (int, error) {
	return whole(d, "nvmlDeviceGetMinorNumber", func(c *card) (int, error) { return c.index, nil })
}

func (d *device) PCI() (nvml.PCI, error) {
	return whole(d, "nvmlDeviceGetPciInfoExt", func(c *card) (nvml.PCI, error) {
		class := 0x0302
		if strings.Contains(c.product.Name, "GeForce") {
			class = 0x0300
		}
		return nvml.PCI{BusID: c.g.BusID, Class: class, ID: c.product.PCIID()}, nil
	})
}

func (d *device) NUMANode() (int, error) {
	return whole(d, "", func(c *card) (int, error) { return c.g.NUMANode, nil })
}

func (d *device) ComputeCapability() (major, minor int, err error) {
	v, err := whole(d, "nvmlDeviceGetCudaComputeCapability", func(c *card) ([2]int, error) {
		return [2]int{c.product.ComputeMajor, c.product.ComputeMinor}, nil
	})
	return v[0], v[1], err
}

// Cores counts 128 to a multiprocessor, and on the chips that have it so, 192
// or 64.
func (d *device) Cores() (int, error) {
	return whole(d, "nvmlDeviceGetNumGpuCores", func(c *card) (int, error) {
		each := 128
		switch major, minor := c.product.ComputeMajor, c.product.ComputeMinor; {
		case major == 3:
			each = 192
		case major == 6 && minor == 0, major == 7, major == 8 && minor == 0:
			each = 64
		}
		return each * c.product.Multiprocessors, nil
	})
}

func (d *device) Memory() (nvml.Memory, error) {
	return ask(d, "nvmlDeviceGetMemoryInfo_v2", func(c *card) (nvml.Memory, error) {
		r := d.l.read(c, d.mig)
		total := c.g.MemoryBytes
		if d.mig != "" {
			total = c.migDevice(d.mig).MemoryBytes
		}
		return nvml.Memory{Total: total, Used: r.MemoryUsedBytes, Reserved: r.MemoryReservedBytes}, nil
	})
}

// Nodes lists the nodes of the file that are on the host under the same path.
func (d *device) Nodes() ([]string, error) {
	return ask(d, "", func(c *card) ([]string, error) {
		var out []string
		for _, n := range d.l.nodes(c, d.mig) {
			if n.HostPath == "" || n.HostPath == n.Path {
				out = append(out, n.Path)
			}
		}
		return out, nil
	})
}

// nodes lists the nodes of a GPU, or those of its MIG device alone.
func (l *Library) nodes(c *card, mig string) []DeviceNode {
	var out []DeviceNode
	for _, n := range l.file.DeviceNodes {
		gpu := n.GPU
		if i := slices.IndexFunc(l.cards, func(c *card) bool { return n.Path == "/dev/nvidia"+strconv.Itoa(c.index) }); gpu == nil && i >= 0 {
			gpu = &i
		}
		if gpu != nil && *gpu == c.index && (n.MIG == nil) == (mig == "") && c.device(n.MIG) == mig {
			out = append(out, n)
		}
	}
	return out
}

// migDevice returns the MIG device of a UUID that is known to be there.
func (c *card) migDevice(uuid string) gpu.MIGDevice {
	return c.g.MIG[slices.IndexFunc(c.g.MIG, func(m gpu.MIGDevice) bool { return m.UUID == uuid })]
}

func (d *device) NVLink(link int) (nvml.NVLink, error) {
	return whole(d, "nvmlDeviceGetNvLinkState", func(c *card) (nvml.NVLink, error) {
		switch {
		case c.product.NVLinks == 0:
			return nvml.NVLink{}, nvml.NotSupported
		case link < 0 || link >= c.product.NVLinks:
			return nvml.NVLink{}, nvml.InvalidArgument
		case c.g.Clique == 0:
			return nvml.NVLink{}, nil
		case c.product.ComputeMajor >= 8: // NVSwitch from Ampere on
			return nvml.NVLink{Active: true, Switch: true}, nil
		}
		// Before, links went straight to neighbors, here in a ring.
		var peers []*card
		self := 0
		for _, o := range d.l.present() {
			if o == c {
				self = len(peers)
			}
			if o.g.Clique == c.g.Clique {
				peers = append(peers, o)
			}
		}
		step := link/2 + 1
		if link%2 == 1 {
			step = -step
		}
		n := len(peers)
		to := peers[((self+step)%n+n)%n]
		return nvml.NVLink{Active: to != c, Remote: to.g.BusID}, nil
	})
}

func (d *device) Fabric() (string, error) {
	return whole(d, "nvmlDeviceGetGpuFabricInfoV", func(*card) (string, error) { return "", nil })
}

func (d *device) SupportedEvents() (uint64, error) {
	return whole(d, "nvmlDeviceGetSupportedEventTypes", func(*card) (uint64, error) {
		return nvml.EventXid | nvml.EventSingleBitECC | nvml.EventDoubleBitECC, nil
	})
}

func (d *device) SetComputeMode(mode int) error {
	_, err := whole(d, "nvmlDeviceSetComputeMode", func(c *card) (int, error) {
		if mode != nvml.ComputeDefault && mode != nvml.ComputeExclusive {
			return 0, nvml.InvalidArgument
		}
		c.exclusive = mode == nvml.ComputeExclusive
		d.l.save()
		return 0, nil
	})
	return err
}

// SetMemoryLimit notes the limit; nothing keeps to it.
func (d *device) SetMemoryLimit(cgroup string, bytes int64) error {
	_, err := whole(d, "nvmlDeviceSetMemoryLimits_v1", func(c *card) (int, error) {
		if bytes < 0 || bytes > c.g.MemoryBytes || cgroup == "" {
			return 0, nvml.InvalidArgument
		}
		c.limits[cgroup] = bytes
		return 0, nil
	})
	return err
}
