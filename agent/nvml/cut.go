package nvml

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"berth.dev/berth/core/gpu"
)

// CutMIG is Client.CutMIG.
func (d *Driver) CutMIG(uuid string, profiles []string) error {
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
		return fmt.Errorf("%s: MIG is off; turn it on before it is cut: %w", uuid, InvalidState)
	}
	defer d.snapshot() // the handles of before are void
	return d.cut(g, profiles)
}

// instance is a GPU instance and the compute instances in it.
type instance struct {
	GPUInstance
	computes []compute
}

type compute struct{ id, profile int }

// cut replaces what is there.
func (d *Driver) cut(g *card, names []string) error {
	facts := g.facts
	facts.Profiles = profiles(g.device, facts) // with placements, now that MIG is on
	for _, p := range facts.Profiles {
		facts.ComputeSlices = max(facts.ComputeSlices, p.Slices)
	}
	want, err := gpu.Layout(facts.product(), names)
	if err != nil {
		return fmt.Errorf("cut %s: %w", facts.UUID, err)
	}
	before, err := instances(g.device, facts)
	if d.note(facts.UUID, err) != nil {
		return fmt.Errorf("list the GPU instances of %s: %w", facts.UUID, err)
	}
	if same(before, want, facts) {
		return nil
	}
	var gone, made []instance
	restore := func(cause error) error {
		_ = d.note(facts.UUID, cause)
		cause = fmt.Errorf("cut %s: %w", facts.UUID, cause)
		for _, in := range made {
			if err := destroy(g.device, in, nil); err != nil {
				return errors.Join(cause, fmt.Errorf("and what was made of it could not be removed: %w", err))
			}
		}
		for _, in := range gone {
			if err := remake(g.device, in); err != nil {
				return errors.Join(cause, fmt.Errorf("and what was there could not be made again: %w", err))
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
	// Largest first, as they were placed.
	slices.SortStableFunc(want, func(a, b gpu.MIGDevice) int { return cmp.Compare(b.MemoryBytes, a.MemoryBytes) })
	for _, m := range want {
		p := facts.Profiles[slices.IndexFunc(facts.Profiles, func(p gpu.Profile) bool { return p.Name == m.Profile })]
		in, err := create(g.device, p, m.Start)
		if in.ID >= 0 {
			made = append(made, in)
		}
		if err != nil {
			return restore(fmt.Errorf("make a %s at memory slice %d: %w", m.Profile, m.Start, err))
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
					in.computes = append(in.computes, compute{id, cp.ID})
				}
			}
			out = append(out, in)
		}
	}
	slices.SortFunc(out, func(a, b instance) int { return cmp.Compare(a.Placement.Start, b.Placement.Start) })
	return out, nil
}

// same says whether a GPU has just these profiles, each with one compute
// instance, wherever they are.
func same(have []instance, want []gpu.MIGDevice, g GPU) bool {
	count := map[int]int{}
	for _, in := range have {
		if len(in.computes) != 1 {
			return false
		}
		count[in.Profile]++
	}
	for _, m := range want {
		for _, p := range g.Profiles {
			if p.Name == m.Profile {
				count[p.ID]--
			}
		}
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
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

// create makes a GPU instance and the one compute instance that fills it. On an
// error the ID of what it made is at least 0 if there is something to remove.
func create(dev Device, p gpu.Profile, start int) (instance, error) {
	in := instance{GPUInstance: GPUInstance{ID: -1}}
	gi, err := dev.CreateGPUInstance(p.ID, Placement{Start: start, Size: p.Size})
	if err != nil {
		return in, err
	}
	in.GPUInstance = gi
	for n := range ComputeInstanceShapes {
		cp, err := dev.ComputeInstanceProfile(gi.ID, n)
		if err != nil || cp.Slices != p.Slices {
			continue
		}
		ci, err := dev.CreateComputeInstance(gi.ID, cp.ID)
		if err != nil {
			return in, fmt.Errorf("its compute instance: %w", err)
		}
		in.computes = []compute{{ci, cp.ID}}
		return in, nil
	}
	return in, fmt.Errorf("no compute instance profile has its %d slices: %w", p.Slices, NotSupported)
}
