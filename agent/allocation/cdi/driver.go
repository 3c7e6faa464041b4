package cdi

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"

	specs "tags.cncf.io/container-device-interface/specs-go"
)

// Driver caches the driver's CDI spec, which says how a container reaches each
// GPU. It is safe for concurrent use.
type Driver struct {
	ask   func(context.Context) ([]byte, error)
	stale chan struct{} // of capacity 1

	inventory atomic.Int64 // counts inventories

	mu   sync.Mutex  // guards the fields below; held while asking, so one call asks for all
	spec *DriverSpec // nil: none yet
	of   int64       // the inventory that spec is for
}

// DriverSpec is the driver's CDI spec by device.
type DriverSpec struct {
	common  specs.ContainerEdits
	devices map[string]*specs.ContainerEdits // by UUID of the GPU or MIG device
}

// NewDriver returns a cache of what ask returns. A nil ask is a node whose driver
// gives no CDI spec.
func NewDriver(ask func(context.Context) ([]byte, error)) *Driver {
	return &Driver{ask: ask, stale: make(chan struct{}, 1)}
}

// Stale has a value after Invalidate. Values are coalesced.
func (d *Driver) Stale() <-chan struct{} { return d.stale }

// Invalidate drops the cached spec, because the inventory has changed.
func (d *Driver) Invalidate() {
	d.inventory.Add(1)
	if d.ask == nil {
		return
	}
	select {
	case d.stale <- struct{}{}:
	default:
	}
}

// Spec returns the driver's spec, nil if the node has none. It asks once for each
// inventory, and again after an error.
func (d *Driver) Spec(ctx context.Context) (*DriverSpec, error) {
	if d.ask == nil {
		return nil, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.inventory.Load()
	if d.spec != nil && d.of == now {
		return d.spec, nil
	}
	raw, err := d.ask(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask the driver how containers reach its GPUs: %w", err)
	}
	var spec specs.Spec
	if err := json.Unmarshal(raw, &spec); err != nil {
		return nil, fmt.Errorf("read the driver's CDI spec: %w", err)
	}
	s := &DriverSpec{common: spec.ContainerEdits, devices: make(map[string]*specs.ContainerEdits, len(spec.Devices))}
	for i := range spec.Devices {
		s.devices[spec.Devices[i].Name] = &spec.Devices[i].ContainerEdits
	}
	d.spec, d.of = s, now
	return s, nil
}
