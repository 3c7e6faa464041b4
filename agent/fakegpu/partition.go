package fakegpu

import (
	"slices"
	"time"

	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/core/gpu"
)

// shapeOf returns the number of the shape that a profile has in nvml.h.
func shapeOf(p gpu.Product, f gpu.Profile) int {
	double := false // as many slices as a plain profile, and more memory
	for _, o := range p.Profiles {
		double = double || o.Slices == f.Slices && o.Size < f.Size
	}
	switch of := f.Suffix(); {
	case of != "":
		return map[string]map[int]int{
			"+me": {1: 7, 2: 8}, "+gfx": {1: 10, 2: 11, 4: 12}, "-me": {1: 13, 2: 14}, "+me.all": {1: 15, 2: 16},
		}[of][f.Slices]
	case double:
		return 9
	}
	return map[int]int{1: 0, 2: 1, 3: 2, 4: 3, 7: 4}[f.Slices]
}

// computeShapes are the compute slices of NVML's compute instance shapes; the
// IDs of their profiles are the numbers too.
var computeShapes = map[int]int{0: 1, 1: 2, 2: 3, 3: 4, 4: 7}

// cuttable is whole for GPUs with MIG, on is for those that have it on.
func cuttable[T any](d *device, symbol string, on bool, f func(*card) (T, error)) (T, error) {
	return whole(d, symbol, func(c *card) (T, error) {
		if len(c.product.Profiles) == 0 || on && !c.mig {
			var none T
			return none, nvml.NotSupported
		}
		return f(c)
	})
}

func (d *device) MIGMode() (current, pending bool, err error) {
	v, err := cuttable(d, "nvmlDeviceGetMigMode", false, func(c *card) ([2]bool, error) { return [2]bool{c.mig, c.migNext}, nil })
	return v[0], v[1], err
}

// SetMIGMode is in force at once from Hopper on; on Ampere it waits for a reset.
func (d *device) SetMIGMode(on bool) (activation, err error) {
	return cuttable(d, "nvmlDeviceSetMigMode", false, func(c *card) (error, error) {
		c.migNext = on
		busy := slices.ContainsFunc(d.l.file.Work, func(w Work) bool { return w.GPU == c.index })
		switch {
		case c.mig == on:
		case busy || c.exclusive:
			return nvml.InUse, nil
		case c.product.ComputeMajor < 9 && !c.group.AutoReset:
			return nvml.ResetRequired, nil
		default:
			c.reset()
		}
		d.l.save()
		return nil, nil
	})
}

func (d *device) MaxMIGDevices() (int, error) {
	return whole(d, "nvmlDeviceGetMaxMigDeviceCount", func(c *card) (int, error) { return c.product.ComputeSlices, nil })
}

func (d *device) MIGDevice(index int) (nvml.Device, error) {
	return whole(d, "nvmlDeviceGetMigDeviceHandleByIndex", func(c *card) (nvml.Device, error) {
		switch {
		case index < 0 || index >= c.product.ComputeSlices:
			return nil, nvml.InvalidArgument
		case index >= len(c.g.MIG):
			return nil, nvml.NotFound
		}
		return &device{l: d.l, uuid: d.uuid, mig: c.g.MIG[index].UUID}, nil
	})
}

func (d *device) GPUInstanceProfile(shape int) (nvml.GPUInstanceProfile, error) {
	return cuttable(d, "nvmlDeviceGetGpuInstanceProfileInfo", false, func(c *card) (nvml.GPUInstanceProfile, error) {
		if shape < 0 || shape >= nvml.GPUInstanceShapes {
			return nvml.GPUInstanceProfile{}, nvml.InvalidArgument
		}
		for _, f := range c.product.Profiles {
			if shapeOf(c.product, f) == shape {
				return nvml.GPUInstanceProfile{
					ID: f.ID, Slices: f.Slices, Max: f.Max, Multiprocessors: f.Multiprocessors, MemoryMiB: f.MemoryMiB,
					CopyEngines: f.CopyEngines, Decoders: f.Decoders, Encoders: f.Encoders, JPEG: f.JPEG, OFA: f.OFA,
				}, nil
			}
		}
		return nvml.GPUInstanceProfile{}, nvml.NotSupported
	})
}

func (c *card) profile(id int) (gpu.Profile, bool) {
	i := slices.IndexFunc(c.product.Profiles, func(f gpu.Profile) bool { return f.ID == id })
	if i < 0 {
		return gpu.Profile{}, false
	}
	return c.product.Profiles[i], true
}

func (d *device) Placements(profile int) ([]nvml.Placement, error) {
	return cuttable(d, "nvmlDeviceGetGpuInstancePossiblePlacements_v2", true, func(c *card) ([]nvml.Placement, error) {
		f, ok := c.profile(profile)
		if !ok {
			return nil, nvml.InvalidArgument
		}
		var out []nvml.Placement
		for _, start := range f.Placements {
			out = append(out, c.placement(f, start))
		}
		return out, nil
	})
}

// placement is a place in the units in which the driver counts memory slices.
func (c *card) placement(f gpu.Profile, start int) nvml.Placement {
	units := max(1, c.product.SliceUnits)
	return nvml.Placement{Start: start * units, Size: f.Size * units}
}

func (c *card) value(in *instance) nvml.GPUInstance {
	return nvml.GPUInstance{ID: in.id, Profile: in.profile.ID, Placement: c.placement(in.profile, in.start)}
}

func (d *device) GPUInstances(profile int) ([]nvml.GPUInstance, error) {
	return cuttable(d, "nvmlDeviceGetGpuInstances", true, func(c *card) ([]nvml.GPUInstance, error) {
		if _, ok := c.profile(profile); !ok {
			return nil, nvml.InvalidArgument
		}
		var out []nvml.GPUInstance
		for _, in := range c.instances {
			if in.profile.ID == profile {
				out = append(out, c.value(in))
			}
		}
		return out, nil
	})
}

func (d *device) CreateGPUInstance(profile int, at nvml.Placement) (nvml.GPUInstance, error) {
	return cuttable(d, "nvmlDeviceCreateGpuInstanceWithPlacement", true, func(c *card) (nvml.GPUInstance, error) {
		f, ok := c.profile(profile)
		start := at.Start / max(1, c.product.SliceUnits)
		if !ok || at != c.placement(f, start) || !slices.Contains(f.Placements, start) {
			return nvml.GPUInstance{}, nvml.InvalidArgument
		}
		if !c.room(f, start) {
			return nvml.GPUInstance{}, nvml.InsufficientResources
		}
		// Of a product with this one placement, Layout tells the ID.
		one := c.product
		f1 := f
		f1.Placements = []int{start}
		one.Profiles = []gpu.Profile{f1}
		laid, err := gpu.Layout(one, []string{f.Name})
		if err != nil {
			return nvml.GPUInstance{}, nvml.Unknown
		}
		in := &instance{id: laid[0].GI, profile: f, start: start}
		c.instances = append(c.instances, in)
		d.l.repartition(c)
		return c.value(in), nil
	})
}

// room reports whether a profile can still be partitioned at a start: memory slices,
// compute slices, the most of it, the one OFA engine and the media engines.
func (c *card) room(f gpu.Profile, start int) bool {
	computes, alike, ofa, most, media := f.Slices, 1, f.OFA, 0, f.MediaUnits()
	for _, p := range c.product.Profiles {
		most = max(most, p.OFA)
	}
	for _, in := range c.instances {
		if start < in.start+in.profile.Size && in.start < start+f.Size {
			return false
		}
		computes += in.profile.Slices
		ofa += in.profile.OFA
		media += in.profile.MediaUnits()
		if in.profile.ID == f.ID {
			alike++
		}
	}
	return computes <= c.product.ComputeSlices && alike <= f.Max && ofa <= most && media <= gpu.MediaUnitsMost
}

// repartition follows a change of instances.
func (l *Library) repartition(c *card) {
	c.totals = Advance(c.g, l.loads(c), c.totals, time.Now())
	c.describe()
	l.save()
}

// instance finds a GPU instance.
func (c *card) instance(id int) (*instance, error) {
	i := slices.IndexFunc(c.instances, func(in *instance) bool { return in.id == id })
	if i < 0 {
		return nil, nvml.NotFound
	}
	return c.instances[i], nil
}

func (d *device) DestroyGPUInstance(gi int) error {
	_, err := cuttable(d, "nvmlGpuInstanceDestroy", true, func(c *card) (int, error) {
		in, err := c.instance(gi)
		switch {
		case err != nil:
			return 0, err
		case len(in.computes) > 0:
			return 0, nvml.InUse
		}
		c.instances = slices.DeleteFunc(c.instances, func(o *instance) bool { return o == in })
		d.l.repartition(c)
		return 0, nil
	})
	return err
}

func (d *device) ComputeInstanceProfile(gi, shape int) (nvml.ComputeInstanceProfile, error) {
	return cuttable(d, "nvmlGpuInstanceGetComputeInstanceProfileInfo", true, func(c *card) (nvml.ComputeInstanceProfile, error) {
		in, err := c.instance(gi)
		if err != nil {
			return nvml.ComputeInstanceProfile{}, err
		}
		n, ok := computeShapes[shape]
		if !ok || !slices.Contains(in.profile.ComputeSizes(), n) {
			return nvml.ComputeInstanceProfile{}, nvml.NotSupported
		}
		return nvml.ComputeInstanceProfile{ID: shape, Slices: n}, nil
	})
}

func (d *device) ComputeInstances(gi, profile int) ([]int, error) {
	return cuttable(d, "nvmlGpuInstanceGetComputeInstances", true, func(c *card) ([]int, error) {
		in, err := c.instance(gi)
		if err != nil {
			return nil, err
		}
		var out []int
		for _, ci := range in.computes {
			if ci.slices == computeShapes[profile] {
				out = append(out, ci.id)
			}
		}
		return out, nil
	})
}

func (d *device) CreateComputeInstance(gi, profile int) (int, error) {
	return cuttable(d, "nvmlGpuInstanceCreateComputeInstance", true, func(c *card) (int, error) {
		in, err := c.instance(gi)
		if err != nil {
			return 0, err
		}
		n, ok := computeShapes[profile]
		if !ok {
			return 0, nvml.InvalidArgument
		}
		used, id := n, 0
		for _, ci := range in.computes {
			used += ci.slices
			if ci.id == id { // they are in order of ID
				id++
			}
		}
		if used > in.profile.Slices {
			return 0, nvml.InsufficientResources
		}
		in.computes = slices.Insert(in.computes, id, computeInstance{id, n})
		d.l.repartition(c)
		return id, nil
	})
}

// DestroyComputeInstance is refused while the file has a load on it.
func (d *device) DestroyComputeInstance(gi, ci int) error {
	_, err := cuttable(d, "nvmlComputeInstanceDestroy", true, func(c *card) (int, error) {
		in, err := c.instance(gi)
		if err != nil {
			return 0, err
		}
		i := slices.IndexFunc(in.computes, func(x computeInstance) bool { return x.id == ci })
		if i < 0 {
			return 0, nvml.NotFound
		}
		at := slices.IndexFunc(c.g.MIG, func(m gpu.MIGDevice) bool { return m.GI == gi && m.CI == ci })
		if at >= 0 && slices.ContainsFunc(d.l.loads(c), func(l Load) bool { return l.MIG == c.g.MIG[at].UUID }) {
			return 0, nvml.InUse
		}
		in.computes = slices.Delete(in.computes, i, i+1)
		d.l.repartition(c)
		return 0, nil
	})
	return err
}

// part is ask for calls that MIG devices alone have.
func part[T any](d *device, symbol string, f func(*card, gpu.MIGDevice) (T, error)) (T, error) {
	return ask(d, symbol, func(c *card) (T, error) {
		if d.mig == "" {
			var none T
			return none, nvml.InvalidArgument
		}
		return f(c, c.migDevice(d.mig))
	})
}

func (d *device) GPUInstanceID() (int, error) {
	return part(d, "nvmlDeviceGetGpuInstanceId", func(_ *card, m gpu.MIGDevice) (int, error) { return m.GI, nil })
}

func (d *device) ComputeInstanceID() (int, error) {
	return part(d, "nvmlDeviceGetComputeInstanceId", func(_ *card, m gpu.MIGDevice) (int, error) { return m.CI, nil })
}

func (d *device) Attributes() (nvml.Attributes, error) {
	return part(d, "nvmlDeviceGetAttributes_v2", func(c *card, m gpu.MIGDevice) (nvml.Attributes, error) {
		in, err := c.instance(m.GI)
		if err != nil {
			return nvml.Attributes{}, err
		}
		return nvml.Attributes{
			Multiprocessors:   in.profile.Multiprocessors * m.Slices / in.profile.Slices,
			GPUInstanceSlices: in.profile.Slices, ComputeInstanceSlices: m.Slices, MemoryMiB: in.profile.MemoryMiB,
		}, nil
	})
}
