package nvml

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"berth.dev/berth/internal/pause"
)

// waitFor is how long one wait for events takes: after it, the GPUs are
// counted, and their MIG devices compared with those of the last snapshot, since
// NVML tells of no GPU that comes or goes, and older drivers of no MIG device.
const waitFor = 5 * time.Second

// stuckAfter is when a round of Watch is taken for hung: a GPU may take seconds
// to be counted.
const stuckAfter = time.Minute

// Listener is told what Watch sees.
type Listener struct {
	Event   func(Event)
	Changed func() // GPUs or MIG devices came or went, or a MIG mode is another
	// Stuck is called, by another goroutine, when the driver has not returned from
	// a wait for long: no event will come, and the process should end.
	Stuck func(error)
}

// Watch tells of Xids and lost GPUs until ctx ends, which it notices within 5 s.
// The error is ErrReload, or why nothing could be watched.
func (d *Driver) Watch(ctx context.Context, to Listener) error {
	late := time.AfterFunc(stuckAfter, func() {
		to.Stuck(fmt.Errorf("a wait of %v for events has not returned in %v", waitFor, stuckAfter))
	})
	defer late.Stop()
	var set EventSet
	defer func() {
		if set != nil {
			_ = set.Close()
		}
	}()
	var have []string
	for bad := 0; ctx.Err() == nil; late.Reset(stuckAfter) {
		uuids, devices, err := d.present()
		if err != nil {
			return err
		}
		if set == nil || !slices.Equal(have, uuids) {
			if set != nil {
				d.drain(set, to.Event)
				to.Changed()
			}
			if set, err = d.register(devices); err != nil {
				return err
			}
			have = uuids
		} else if d.repartitioned() {
			to.Changed()
		}
		d.tell(to.Event) // what present has found
		e, err := set.Wait(waitFor)
		switch {
		case err == nil:
			bad = 0
			if e.Type&EventXid != 0 {
				to.Event(d.keep(e))
			}
		case errors.Is(err, Timeout):
			bad = 0
		case reloads(err):
			return fmt.Errorf("%w: wait for events: %w", ErrReload, err)
		default: // a GPU was lost: register the rest again
			d.drain(set, to.Event)
			set = nil
			to.Changed()
			if bad++; bad > 3 {
				return fmt.Errorf("wait for events: %w", err)
			}
			if !pause.For(ctx, time.Duration(bad)*200*time.Millisecond) {
				return nil
			}
		}
	}
	return nil
}

// drain closes a set, after it has told what it still holds: the Xid of a GPU
// comes with its loss.
func (d *Driver) drain(set EventSet, emit func(Event)) {
	for range 1000 {
		e, err := set.Wait(0)
		if err != nil {
			break
		}
		if e.Type&EventXid != 0 {
			emit(d.keep(e))
		}
	}
	_ = set.Close()
}

// present lists the GPUs that answer, and notes those that do not any longer.
func (d *Driver) present() (uuids []string, devices []Device, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.open(); err != nil {
		return nil, nil, err
	}
	count, err := d.lib.DeviceCount()
	if d.note("", err) != nil {
		return nil, nil, errors.Join(d.gone, err)
	}
	for i := range count {
		dev, err := d.lib.Device(i)
		uuid := ""
		if err == nil {
			if uuid, err = dev.UUID(); err == nil {
				_, err = dev.Memory() // the UUID may come out of a cache
			}
		}
		if err == nil {
			uuids, devices = append(uuids, uuid), append(devices, dev)
			continue
		}
		if j := slices.IndexFunc(d.gpus, func(g *card) bool { return g.facts.Index == i }); uuid == "" && j >= 0 {
			uuid = d.gpus[j].facts.UUID
		}
		_ = d.note(uuid, err)
	}
	for _, g := range d.gpus { // those that vanished altogether
		if !g.facts.Lost && !slices.Contains(uuids, g.facts.UUID) {
			_ = d.note(g.facts.UUID, GPUIsLost)
		}
	}
	return uuids, devices, d.gone
}

// repartitioned reports whether the MIG devices of a GPU are others than the last snapshot
// has, as when a person partitions by nvidia-smi: then a new one is due. What cannot be read
// now is looked at again after the next wait.
func (d *Driver) repartitioned() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.gone == nil && slices.ContainsFunc(d.gpus, d.other)
}

// other compares one GPU with what the driver says of it. d.mu is held.
func (d *Driver) other(g *card) bool {
	if g.facts.Lost || d.lost[g.facts.UUID] || !g.facts.MIGCapable {
		return false
	}
	current, pending, err := g.device.MIGMode()
	if err != nil {
		return false
	}
	if current != g.facts.MIGEnabled || (current != pending) != g.facts.MIGPending {
		return true
	}
	for i := range g.slots {
		dev, err := g.device.MIGDevice(i)
		if err != nil {
			if unless(err, NotFound, InvalidArgument) == nil && g.slots[i] != "" {
				return true
			}
			continue
		}
		if uuid, err := dev.UUID(); err == nil && uuid != g.slots[i] {
			return true
		}
	}
	return false
}

// register makes an event set of all that these GPUs can tell of Xids.
func (d *Driver) register(devices []Device) (EventSet, error) {
	set, err := d.lib.NewEventSet()
	if err != nil {
		return nil, fmt.Errorf("make an event set: %w", err)
	}
	const wanted = EventXid | EventDoubleBitECC | EventSingleBitECC | EventMIGChange
	for _, dev := range devices {
		if can, err := dev.SupportedEvents(); err == nil && can&wanted != 0 {
			_ = set.Register(dev, can&wanted) // an old GPU without events is fine
		}
	}
	return set, nil
}

// tell passes on the losses that calls have met.
func (d *Driver) tell(emit func(Event)) {
	d.mu.Lock()
	news := d.news
	d.news = nil
	d.mu.Unlock()
	for _, e := range news {
		emit(e)
	}
}

// keep remembers the last Xid of a device.
func (d *Driver) keep(e EventData) Event {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.xids[xidKey{e.UUID, e.GI}] = int(e.Data)
	d.xids[xidKey{e.UUID, anywhere}] = int(e.Data)
	return Event{UUID: e.UUID, Xid: int(e.Data), GI: e.GI, CI: e.CI, At: time.Now()}
}
