package allocation

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"

	cdi "tags.cncf.io/container-device-interface/specs-go"
)

// driver keeps what the driver says of how a container reaches its GPUs. It is
// safe for concurrent use.
type driver struct {
	ask   func(context.Context) ([]byte, error)
	stale chan struct{} // of capacity 1: what is kept is of another inventory

	inventory atomic.Int64 // counts inventories

	mu  sync.Mutex // held while asking, so that one asks for all
	has *driverSpec
	of  int64 // the inventory that has is of
}

// driverSpec is the driver's CDI spec, by device.
type driverSpec struct {
	common  cdi.ContainerEdits
	devices map[string]*cdi.ContainerEdits // by UUID of the GPU or MIG device
}

func newDriver(ask func(context.Context) ([]byte, error)) *driver {
	return &driver{ask: ask, stale: make(chan struct{}, 1)}
}

// forget says that the inventory has become another.
func (d *driver) forget() {
	d.inventory.Add(1)
	if d.ask != nil {
		signal(d.stale)
	}
}

// get gives the driver's spec, nil where the node has none. It asks once for
// each inventory, and again after an error.
func (d *driver) get(ctx context.Context) (*driverSpec, error) {
	if d.ask == nil {
		return nil, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.inventory.Load()
	if d.has != nil && d.of == now {
		return d.has, nil
	}
	raw, err := d.ask(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask the driver how containers reach its GPUs: %w", err)
	}
	var spec cdi.Spec
	if err := json.Unmarshal(raw, &spec); err != nil {
		return nil, fmt.Errorf("read the driver's CDI spec: %w", err)
	}
	s := &driverSpec{common: spec.ContainerEdits, devices: make(map[string]*cdi.ContainerEdits, len(spec.Devices))}
	for i := range spec.Devices {
		s.devices[spec.Devices[i].Name] = &spec.Devices[i].ContainerEdits
	}
	d.has, d.of = s, now
	return s, nil
}
