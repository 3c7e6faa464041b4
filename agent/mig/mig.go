// Package mig partitions the GPUs of a node into MIG devices as the node's label
// nvidia.com/mig.config asks, in the place of NVIDIA's MIG manager. It touches
// only GPUs that no pod holds, waits for the others, and says how far it is.
// What has to be done is decided by package core/mig.
package mig

import (
	"context"
	"log/slog"
	"time"

	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/core/mig"
)

// Driver does what is asked to GPUs: an nvml.Client.
type Driver interface {
	Snapshot(ctx context.Context) (nvml.Snapshot, error)
	SetMIGMode(ctx context.Context, uuid string, on bool) (needsReset bool, err error)
	PartitionMIG(ctx context.Context, uuid string, profiles []string) error
}

var _ Driver = (*nvml.Client)(nil)

// Options are what a Manager works with. Driver, Label, Holders, Drain and State
// must be there.
type Options struct {
	Driver Driver
	// File holds configurations in the format of mig-parted. "" is none: then
	// those of mig.Builtin are there. They are there beside File's too, where it
	// does not name them itself.
	File string
	// FileChanges tells when to read File again. nil is settings.Changes of File.
	FileChanges <-chan struct{}
	// Label returns the value of api.LabelMIGConfig at first and whenever it changes; ""
	// is a node without it, whose GPUs are left alone.
	Label <-chan string
	// Holders names who holds each GPU or MIG device, by UUID, such as
	// "pod team-a/train-0". While it gives an error nothing is touched.
	Holders func(ctx context.Context) (map[string][]string, error)
	// Wait says why no GPU of the node may be touched now, even if no pod holds it; "" is
	// that those may be that no pod holds. It is asked before each step. nil is
	// always "".
	Wait func(ctx context.Context) string
	// Drain takes a whole GPU, and all that it is partitioned into now or later, out of
	// the offer until release is called: from its return on, no other pod gets it.
	Drain func(uuid string) (release func())
	// Refresh makes the rest of the agent take over what the GPUs are now. It
	// runs after changes and before GPUs are released. nil does nothing.
	Refresh func(ctx context.Context) error
	// State writes api.LabelMIGState; "" removes it. It is called on changes only, and
	// again later where it fails.
	State func(ctx context.Context, s mig.State) error
	// Event tells of a change of state or reason. nil does nothing.
	Event func(warning bool, reason, message string)
	// Retry is how long to wait before trying again what no event announces: a
	// GPU in use by a process that is no pod, a mode that needs a reset, what Wait
	// says, or an error of Holders. 0 is 30 s.
	Retry time.Duration
	Log   *slog.Logger // nil is silence
}

// Manager brings GPUs to the configuration of a label. Make it by New and run
// it once.
type Manager struct {
	o       Options
	freed   chan struct{}
	changed chan struct{}

	// What follows belongs to Run.
	label    string
	known    bool
	configs  map[string]mig.Config
	faults   map[string]error // why configurations of the file are left out, by name
	fileErr  error
	fileSaid string             // what was last told of the file
	drained  map[string]func()  // release, by UUID
	before   map[string]mig.GPU // as they were before the first change, by UUID
	failed   map[string]string  // why not to try again, by UUID
	later    map[string]wait    // what to try again after Retry, by UUID
	said     said               // what is written
	unsaid   bool               // the label could not be written
	waiting  bool               // something is left to do
	put      bool               // all is put off, and tried again after Retry
}

// wait is why a step is tried again later.
type wait struct {
	why  string
	gone bool // the driver did not answer; Changed tells when it does
	mode bool // its mode is set and needs a reset; a GPU whose mode holds does not wait
}

type said struct {
	state mig.State
	why   string
}

// New makes a Manager. It panics if a part that it needs is missing: that is a
// bug in the caller.
func New(o Options) *Manager {
	if o.Driver == nil || o.Label == nil || o.Holders == nil || o.Drain == nil || o.State == nil {
		panic("mig.New: Driver, Label, Holders, Drain and State must be there")
	}
	if o.Refresh == nil {
		o.Refresh = func(context.Context) error { return nil }
	}
	if o.Wait == nil {
		o.Wait = func(context.Context) string { return "" }
	}
	if o.Event == nil {
		o.Event = func(bool, string, string) {}
	}
	if o.Retry == 0 {
		o.Retry = 30 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Manager{
		o: o, freed: make(chan struct{}, 1), changed: make(chan struct{}, 1),
		drained: map[string]func(){}, before: map[string]mig.GPU{},
		failed: map[string]string{}, later: map[string]wait{},
	}
}

// Freed says that holders changed. It costs nothing unless a GPU is waited for.
// It never blocks.
func (m *Manager) Freed() { poke(m.freed) }

// Changed says that GPUs or their MIG devices changed, or that the driver can be
// asked again: they are compared with the configuration again. It never blocks.
func (m *Manager) Changed() { poke(m.changed) }

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
