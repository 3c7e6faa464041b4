package nvml

import (
	"errors"
	"fmt"
)

// Probe is Client.Probe.
func (d *Driver) Probe(uuid string) error {
	_, err := d.probe(uuid)
	return err
}

// probe says also whether the GPU came back.
func (d *Driver) probe(uuid string) (back bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.open(); err != nil {
		return false, err
	}
	g, c, err := d.find(uuid)
	if err != nil {
		return false, err
	}
	if err := d.well(g, c); err != nil {
		return false, fmt.Errorf("probe %s: %w", uuid, err)
	}
	back = d.lost[g.facts.UUID]
	d.lost[g.facts.UUID] = false
	return back, nil
}

// well asks a GPU, and its MIG device c unless that is nil.
func (d *Driver) well(g *card, c *cut) error {
	// A fresh handle: one of before a reset is void.
	dev, err := d.lib.Device(g.facts.Index)
	if d.note(g.facts.UUID, err) != nil {
		return err
	}
	if got, err := dev.UUID(); d.note(g.facts.UUID, err) != nil {
		return err
	} else if got != g.facts.UUID {
		return fmt.Errorf("GPU %d is %s now: %w", g.facts.Index, got, NotFound)
	}
	ask := []func() error{
		func() error { return second(dev.Memory()) },
		func() error { return unless(second(dev.Temperature()), NotSupported, FunctionNotFound) },
	}
	if c != nil {
		ask = append(ask, func() error { return second(c.device.Memory()) })
	}
	for _, f := range ask {
		if err := d.note(g.facts.UUID, f()); err != nil {
			return err
		}
	}
	rows, err := dev.RemappedRows()
	switch {
	case d.note(g.facts.UUID, unless(err, NotSupported, FunctionNotFound)) != nil:
		return fmt.Errorf("remapped rows: %w", err)
	case err == nil && rows.Failed:
		return errors.New("a bad memory row could not be remapped; replace the GPU")
	}
	return d.wanted(g, dev)
}

// wanted returns an error when the driver says itself that the GPU cannot go on
// as it is. That links be drained, or that it be reset when it is free, is no
// such thing: a bad row that waits for a reset is not used until then.
//
// Source: nvmlDeviceGpuRecoveryAction_t of nvml.h, and NVIDIA, "GPU Debug
// Guidelines", recovery actions.
func (d *Driver) wanted(g *card, dev Device) error {
	action, err := dev.Field(FieldRecoveryAction, 0)
	if err != nil { // older drivers do not say
		return unless(d.note(g.facts.UUID, err), NotSupported, FunctionNotFound, InvalidArgument, NotFound)
	}
	switch action {
	case RecoveryReset, RecoveryBusReset:
		return fmt.Errorf("the driver asks for it: %w", ResetRequired)
	case RecoveryReboot, RecoveryPower:
		return errors.New("the driver asks that the node be restarted")
	}
	return nil
}

// second returns the error of a call with a value.
func second[T any](_ T, err error) error { return err }

// SetMemoryLimit is Client.SetMemoryLimit.
func (d *Driver) SetMemoryLimit(uuid, cgroup string, bytes int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	g, err := d.whole(uuid)
	if err != nil {
		return err
	}
	if err := d.note(uuid, g.device.SetMemoryLimit(cgroup, bytes)); err != nil {
		return fmt.Errorf("limit GPU memory of %s for cgroup %s: %w", uuid, cgroup, err)
	}
	return nil
}

// SetExclusive is Client.SetExclusive.
func (d *Driver) SetExclusive(uuid string, on bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	g, err := d.whole(uuid)
	if err != nil {
		return err
	}
	mode := ComputeDefault
	if on {
		mode = ComputeExclusive
	}
	if err := d.note(uuid, g.device.SetComputeMode(mode)); err != nil {
		return fmt.Errorf("set the compute mode of %s: %w", uuid, err)
	}
	return nil
}

// CDI is Client.CDI.
func (d *Driver) CDI() ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.open(); err != nil {
		return nil, err
	}
	spec, err := d.lib.CDI()
	if err != nil {
		return nil, fmt.Errorf("make a CDI specification: %w", d.note("", err))
	}
	return spec, nil
}

// SetMIGMode is Client.SetMIGMode.
func (d *Driver) SetMIGMode(uuid string, on bool) (needsReset bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	g, err := d.whole(uuid)
	if err != nil {
		return false, err
	}
	current, pending, err := g.device.MIGMode()
	if d.note(uuid, err) != nil {
		return false, fmt.Errorf("%s (%s) has no MIG: %w", uuid, g.facts.Product, err)
	}
	if current == on && pending == on {
		return false, nil
	}
	defer d.snapshot() // the handles of before may be void
	if !on && current {
		if err := d.cut(g, nil); err != nil {
			return false, err
		}
	}
	why, err := g.device.SetMIGMode(on)
	if d.note(uuid, err) != nil {
		return false, fmt.Errorf("set the MIG mode of %s: %w", uuid, err)
	}
	current, _, err = g.device.MIGMode()
	if d.note(uuid, err) != nil {
		return false, fmt.Errorf("ask for the MIG mode of %s: %w", uuid, err)
	}
	if why != nil && !errors.Is(why, ResetRequired) && !errors.Is(why, InUse) {
		return false, fmt.Errorf("activate the MIG mode of %s: %w", uuid, why)
	}
	return current != on, nil
}
