package nvml

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"berth.dev/berth/core/gpu"
)

// PartitionMIG is Client.PartitionMIG.
func (d *Driver) PartitionMIG(uuid string, profiles []string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	g, err := d.whole(uuid)
	if err != nil {
		return err
	}
	current, _, err := g.device.MIGMode()
	switch {
	case d.note(uuid, err) != nil:
		return fmt.Errorf("%s (%s) has no MIG: %w", uuid, g.facts.Product, err)
	case !current:
		return fmt.Errorf("%s: MIG is off; turn it on before partitioning: %w", uuid, InvalidState)
	}
	defer d.snapshot() // the handles of before are void
	return d.cut(g, profiles)
}

// instance is a GPU instance and the compute instances in it.
type instance struct {
	GPUInstance
	computes []compute
}

type compute struct{ id, profile, slices int }

// wanted is a GPU instance to be, with the compute slices of each compute instance
// in it.
type wanted struct {
	gpu.Profile
	start    int
	computes []int
}

// wants puts the devices of a layout, in the order of gpu.Layout, into their GPU
// instances; largest first, as they were placed.
func wants(layout []gpu.MIGDevice, product gpu.Product) []wanted {
	var out []wanted
	for _, m := range layout {
		if m.CI == 0 {
			p, _, _ := product.Compute(m.Profile)
			out = append(out, wanted{Profile: p, start: m.Start})
		}
		out[len(out)-1].computes = append(out[len(out)-1].computes, m.Slices)
	}
	slices.SortStableFunc(out, func(a, b wanted) int { return cmp.Compare(b.MemoryMiB, a.MemoryMiB) })
	return out
}

// cut replaces what is there.
func (d *Driver) cut(g *card, names []string) error {
	facts := g.facts
	var units int
	facts.Profiles, units = profiles(g.device, facts) // with placements, now that MIG is on
	for _, p := range facts.Profiles {
		facts.ComputeSlices = max(facts.ComputeSlices, p.Slices)
	}
	layout, err := gpu.Layout(facts.product(), names)
	if err != nil {
		return fmt.Errorf("partition %s: %w", facts.UUID, err)
	}
	want := wants(layout, facts.product())
	before, err := instances(g.device, facts)
	if d.note(facts.UUID, err) != nil {
		return fmt.Errorf("list the GPU instances of %s: %w", facts.UUID, err)
	}
	if same(before, want) {
		return nil
	}
	var gone, made []instance
	restore := func(cause error) error {
		_ = d.note(facts.UUID, cause)
		cause = fmt.Errorf("partition %s: %w", facts.UUID, cause)
		for _, in := range made {
			if err := destroy(g.device, in, nil); err != nil {
				return errors.Join(cause, fmt.Errorf("and what was created could not be removed: %w", err))
			}
		}
		for _, in := range gone {
			if err := remake(g.device, in); err != nil {
				return errors.Join(cause, fmt.Errorf("and the previous partition could not be recreated: %w", err))
			}
		}
		return cause
	}
	for _, in := range before {
		left := instance{}
		if err := destroy(g.device, in, &left); err != nil {
			gone = append(gone, left)
			return restore(fmt.Errorf("remove GPU instance %d: %w", in.ID, err))
		}
		gone = append(gone, in)
	}
	for _, w := range want {
		in, err := create(g.device, w, units)
		if in.ID >= 0 {
			made = append(made, in)
		}
		if err != nil {
			return restore(fmt.Errorf("make a %s at memory slice %d: %w", w.Name, w.start, err))
		}
	}
	return nil
}

// instances lists what is there, in order of placement.
func instances(dev Device, g GPU) ([]instance, error) {
	var out []instance
	for _, p := range g.Profiles {
		list, err := dev.GPUInstances(p.ID)
		if err := unless(err, NotSupported, InvalidArgument); err != nil {
			return nil, err
		}
		for _, gi := range list {
			in := instance{GPUInstance: gi}
			for n := range ComputeInstanceShapes {
				cp, err := dev.ComputeInstanceProfile(gi.ID, n)
				if err != nil {
					continue
				}
				ids, err := dev.ComputeInstances(gi.ID, cp.ID)
				if err := unless(err, NotSupported, InvalidArgument); err != nil {
					return nil, err
				}
				for _, id := range ids {
					in.computes = append(in.computes, compute{id, cp.ID, cp.Slices})
				}
			}
			out = append(out, in)
		}
	}
	slices.SortFunc(out, func(a, b instance) int { return cmp.Compare(a.Placement.Start, b.Placement.Start) })
	return out, nil
}

// same reports whether a GPU has just these GPU instances, each with just these
// compute instances, wherever they are.
func same(have []instance, want []wanted) bool {
	count := map[string]int{}
	for _, in := range have {
		var sizes []int
		for _, c := range in.computes {
			sizes = append(sizes, c.slices)
		}
		count[content(in.Profile, sizes)]++
	}
	for _, w := range want {
		count[content(w.ID, w.computes)]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
}

// content names what is in a GPU instance, the same for the same sizes.
func content(profile int, sizes []int) string {
	sizes = slices.Sorted(slices.Values(sizes))
	return fmt.Sprint(profile, sizes)
}

// destroy removes compute instances, then the GPU instance. On an error, left
// is what was removed until then: an instance of ID -1 has lost compute
// instances alone.
func destroy(dev Device, in instance, left *instance) error {
	for i, c := range in.computes {
		if err := dev.DestroyComputeInstance(in.ID, c.id); err != nil {
			if left != nil {
				*left = instance{GPUInstance: in.GPUInstance, computes: in.computes[:i]}
				left.Profile = -1
			}
			return err
		}
	}
	err := dev.DestroyGPUInstance(in.ID)
	if err != nil && left != nil {
		*left = in
		left.Profile = -1
	}
	return err
}

// remake makes what destroy removed.
func remake(dev Device, in instance) error {
	id := in.ID
	if in.Profile >= 0 {
		gi, err := dev.CreateGPUInstance(in.Profile, in.Placement)
		if err != nil {
			return err
		}
		id = gi.ID
	}
	for _, c := range in.computes {
		if _, err := dev.CreateComputeInstance(id, c.profile); err != nil {
			return err
		}
	}
	return nil
}

// create makes a GPU instance and the compute instances in it. On an error the ID
// of what it made is at least 0 if there is something to remove.
func create(dev Device, w wanted, units int) (instance, error) {
	in := instance{GPUInstance: GPUInstance{ID: -1}}
	gi, err := dev.CreateGPUInstance(w.ID, Placement{Start: w.start * units, Size: w.Size * units})
	if err != nil {
		return in, err
	}
	in.GPUInstance = gi
	for _, size := range w.computes {
		c, err := createCompute(dev, gi.ID, size)
		if err != nil {
			return in, err
		}
		in.computes = append(in.computes, c)
	}
	return in, nil
}

// createCompute makes a compute instance of a size in a GPU instance.
func createCompute(dev Device, gi, size int) (compute, error) {
	for n := range ComputeInstanceShapes {
		cp, err := dev.ComputeInstanceProfile(gi, n)
		if err != nil || cp.Slices != size {
			continue
		}
		ci, err := dev.CreateComputeInstance(gi, cp.ID)
		if err != nil {
			return compute{}, fmt.Errorf("its compute instance: %w", err)
		}
		return compute{ci, cp.ID, size}, nil
	}
	return compute{}, fmt.Errorf("no compute instance profile has %d slices: %w", size, NotSupported)
}
