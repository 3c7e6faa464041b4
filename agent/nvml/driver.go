package nvml

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"berth.dev/berth/core/gpu"
)

// ErrReload says that the driver was unloaded or replaced under our feet: the
// process has to end, so nothing of the old one stays open, and a new
// process loads the new library.
var ErrReload = errors.New("the driver was unloaded or replaced")

// Driver answers questions about a node out of a Library: what the child does
// for a Client. It remembers what a later answer needs: handles, the last Xid of
// each device, samples of counters. It is safe for concurrent use; one call
// runs at a time, but for Watch.
type Driver struct {
	lib Library

	mu       sync.Mutex
	inited   bool
	absent   bool            // Init went wrong, and not for a mismatch of versions
	gpus     []*card         // of the last snapshot, in index order
	known    map[string]GPU  // facts of every GPU seen, for when it is lost
	gpm      map[gpmKey]*gpm // counters at the last Samples
	xids     map[xidKey]int  // last Xid
	asked    []Measure       // what Samples reads beyond a Reading
	gpmAsked []int           // gpmMetrics, and what asked wants of GPM
	drift    bool            // Samples saw other MIG devices than the snapshot did
	gone     error           // ErrReload, once it happened
	lost     map[string]bool // GPUs that are lost, by UUID
	news     []Event         // losses that were not reported yet
}

// card is one GPU of the last snapshot.
type card struct {
	facts  GPU
	device Device
	cuts   []cut
	slots  []string // UUIDs of MIG devices by their index; "" is free
}

// cut is one MIG device.
type cut struct {
	gpu.MIGDevice
	device Device
}

type xidKey struct {
	uuid string
	gi   int // -1 is the whole GPU, anywhere is that or any MIG device of it
}

const anywhere = -2

// NewDriver makes a Driver that has asked nothing yet.
func NewDriver(lib Library) *Driver {
	return &Driver{
		lib: lib, known: map[string]GPU{}, gpm: map[gpmKey]*gpm{}, xids: map[xidKey]int{},
		lost: map[string]bool{},
	}
}

// Close lets go of the driver.
func (d *Driver) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, g := range d.gpm {
		g.last.Free()
	}
	clear(d.gpm)
	if !d.inited {
		return nil
	}
	d.inited = false
	return d.lib.Shutdown()
}

// Open connects to the driver if that was not done yet. The error is NVML's, or
// ErrReload.
func (d *Driver) Open() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.open()
}

// open connects to the driver if it is not yet.
func (d *Driver) open() error {
	if d.gone != nil {
		return d.gone
	}
	if d.inited {
		return nil
	}
	err := d.lib.Init()
	switch {
	case err == nil:
		d.inited = true
	case !errors.Is(err, LibRMVersionMismatch):
		d.absent = true
	case d.absent:
		// An attempt leaves the library in memory. The driver that came since is
		// another one, whose library only a new process loads.
		d.gone = fmt.Errorf("%w: %w", ErrReload, err)
		return d.gone
	}
	return err
}

// note keeps what an error tells beyond the call it came from: that the driver
// is gone, or the GPU. Without a driver no GPU is to be found, and none is lost. It
// gives the error back.
func (d *Driver) note(uuid string, err error) error {
	switch {
	case err == nil:
	case reloads(err):
		d.gone = fmt.Errorf("%w: %w", ErrReload, err)
	case errors.Is(err, GPUIsLost) && d.gone == nil && uuid != "" && !d.lost[uuid]:
		d.lost[uuid] = true
		d.news = append(d.news, Event{UUID: uuid, GI: -1, CI: -1, Lost: true, At: time.Now()})
	}
	return err
}

// reloads reports whether an error of a call, after Init went well, means that the
// driver has gone.
func reloads(err error) bool {
	return errors.Is(err, Uninitialized) || errors.Is(err, DriverNotLoaded) || errors.Is(err, LibRMVersionMismatch)
}

// ended returns ErrReload once the driver was seen to be gone.
func (d *Driver) ended() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.gone
}

// find returns the GPU of a UUID, or the one whose MIG device has it; then c is
// not nil. The last snapshot is taken again if it has neither.
func (d *Driver) find(uuid string) (g *card, c *cut, err error) {
	for range 2 {
		for _, g := range d.gpus {
			if g.facts.UUID == uuid {
				return g, nil, nil
			}
			for i := range g.cuts {
				if g.cuts[i].UUID == uuid {
					return g, &g.cuts[i], nil
				}
			}
		}
		if s := d.snapshot(); s.Failed != "" {
			return nil, nil, fmt.Errorf("find %s: %s", uuid, s.Failed)
		}
	}
	return nil, nil, fmt.Errorf("%s: no GPU or MIG device has this UUID: %w", uuid, NotFound)
}

// whole is find for what only a whole GPU can do.
func (d *Driver) whole(uuid string) (*card, error) {
	if err := d.open(); err != nil {
		return nil, err
	}
	g, c, err := d.find(uuid)
	switch {
	case err != nil:
		return nil, err
	case c != nil:
		return nil, fmt.Errorf("%s is a MIG device; name its GPU %s: %w", uuid, g.facts.UUID, NotSupported)
	case g.facts.Lost:
		return nil, fmt.Errorf("%s: %w", uuid, GPUIsLost)
	}
	return g, nil
}
