// Package mps runs NVIDIA's MPS control daemon for the GPUs of a node that are
// shared by MPS: it starts the daemon, sets its limits, watches it, restarts it
// and stops it, and says what containers need to be its clients. Which GPUs are
// shared, and who holds shares, is decided elsewhere.
//
// One daemon serves all shared GPUs of a node. Its limits are those of one
// share; a client's own come by its environment.
//
// Source: the Multi-Process Service chapter of NVIDIA's GPU deployment
// documentation (commands and environment), and the folders of
// NVIDIA/k8s-device-plugin v0.20.
package mps

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
)

// GPU is one GPU that is shared by MPS.
type GPU struct {
	UUID        string
	Index       int
	MemoryBytes int64
}

// Want is what the daemon shall serve.
type Want struct {
	GPUs     []GPU // in index order; none stops the daemon
	Replicas int   // shares of each GPU, 2 or more
	// OneEach says that no container holds more than one share of a GPU
	// (failRequestsGreaterThanOne). Then the daemon itself keeps every client to
	// one share; else only the client's environment does, since a client cannot
	// have more than the daemon's limit.
	OneEach bool
}

// WantOf returns what the daemon shall serve on a node whose GPUs are offered as s
// says: nothing unless some are shared by MPS. Lost GPUs (not Healthy) are left
// out, since with one of them the daemon would not start for the others.
func WantOf(gpus []gpu.GPU, s gpu.Sharing) Want {
	if s.Strategy != gpu.SharingMPS {
		return Want{}
	}
	w := Want{Replicas: s.Replicas[gpu.ResourceGPU], OneEach: s.FailRequestsGreaterThanOne}
	devices, err := sharing.Devices(gpus, s)
	if err != nil { // nothing is offered either
		return Want{}
	}
	for _, g := range gpus {
		if g.Healthy && slices.ContainsFunc(devices, func(d sharing.Device) bool { return d.UUID == g.UUID && d.ID != d.UUID }) {
			w.GPUs = append(w.GPUs, GPU{UUID: g.UUID, Index: g.Index, MemoryBytes: g.MemoryBytes})
		}
	}
	return w
}

func (w Want) equal(o Want) bool {
	return w.Replicas == o.Replicas && w.OneEach == o.OneEach && slices.Equal(w.GPUs, o.GPUs)
}

func (w Want) uuids() []string {
	out := make([]string, len(w.GPUs))
	for i, g := range w.GPUs {
		out[i] = g.UUID
	}
	return out
}

// Options are what a Manager works with. Root and SetExclusive must be there.
type Options struct {
	// Program is nvidia-cuda-mps-control: a path, or a name to be found. "" is
	// that name.
	Program string
	// Root is the folder for pipes and logs, at the same path for the agent and
	// on the host: config.Settings.MPSRoot.
	Root string
	// SHM is the folder on the host that the daemon has as /dev/shm. Clients
	// have to have the same one. "" is Root + "/shm", which the agent's own
	// /dev/shm has to be mounted from.
	SHM string
	// SetExclusive sets the compute mode of a GPU: nvml.Client.SetExclusive.
	SetExclusive func(ctx context.Context, uuid string, on bool) error
	// Busy names who holds shares now. The daemon is not stopped under them:
	// another set of GPUs waits, and at the end of Run the daemon stays for the
	// next agent. nil is none.
	Busy func() []string
	// Wait says why no daemon may be started now, and none that runs be taken for
	// the agent's; "" is that it may. It is asked again after Interval. nil is
	// always "".
	Wait func(ctx context.Context) string
	// Health is told, on changes, why the shares of GPUs cannot be used, by UUID
	// of all GPUs that are wanted; "" is healthy. nil does nothing.
	Health func(map[string]string)
	// Interval is how often the daemon is asked whether it lives. 0 is 5 s.
	Interval time.Duration
	// Timeout is how long it may take to answer; to start it has six times as
	// much, since GPUs may have to wake up. 0 is 10 s.
	Timeout time.Duration
	// Backoff is the first wait before a restart; it doubles up to 30 times
	// itself. 0 is 1 s.
	Backoff time.Duration
	Log     *slog.Logger // nil is silence
}

// Manager runs the daemon. Make it by New and run it once. Set, Freed and
// Unhealthy are safe for concurrent use.
type Manager struct {
	o     Options
	poked chan struct{}

	mu     sync.Mutex
	want   Want
	health map[string]string // by UUID; "" is healthy
	untold bool              // health changed, and Health was not told

	// What follows belongs to Run.
	looked   bool // for a daemon that an earlier agent left
	runs     Want // what the daemon runs with; no GPUs: it does not run
	misses   int  // answers that did not come, in a row
	failures int  // starts that did not work, in a row
	// refused is the last Want that did not work; it is not tried again before
	// notBefore.
	refused   Want
	notBefore time.Time
}

// New makes a Manager. It panics if a part that it needs is missing: that is a
// bug in the caller.
func New(o Options) *Manager {
	if o.Root == "" || o.SetExclusive == nil {
		panic("mps.New: Root and SetExclusive must be there")
	}
	if o.Program == "" {
		o.Program = "nvidia-cuda-mps-control"
	}
	if o.SHM == "" {
		o.SHM = o.Root + "/shm"
	}
	if o.Busy == nil {
		o.Busy = func() []string { return nil }
	}
	if o.Wait == nil {
		o.Wait = func(context.Context) string { return "" }
	}
	if o.Health == nil {
		o.Health = func(map[string]string) {}
	}
	if o.Interval == 0 {
		o.Interval = 5 * time.Second
	}
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	if o.Backoff == 0 {
		o.Backoff = time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Manager{o: o, poked: make(chan struct{}, 1), health: map[string]string{}}
}

const notReady = "the MPS control daemon is not ready yet"

// Set says what the daemon shall serve from now on. Shares of GPUs that come new
// are unhealthy until the daemon serves them with its limits in force. It never
// blocks.
func (m *Manager) Set(w Want) {
	m.mu.Lock()
	w.GPUs = slices.Clone(w.GPUs)
	m.want = w
	for _, g := range w.GPUs {
		if _, ok := m.health[g.UUID]; !ok {
			m.health[g.UUID], m.untold = notReady, true
		}
	}
	m.mu.Unlock()
	m.poke()
}

// Freed says that holders changed. It never blocks.
func (m *Manager) Freed() { m.poke() }

// Unhealthy returns why the shares of each wanted GPU cannot be used, by UUID; ""
// is healthy. The caller owns the map.
func (m *Manager) Unhealthy() map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.health)
}

func (m *Manager) poke() {
	select {
	case m.poked <- struct{}{}:
	default:
	}
}

// tell tells what Set has changed.
func (m *Manager) tell() {
	m.mu.Lock()
	untold, now := m.untold, maps.Clone(m.health)
	m.untold = false
	m.mu.Unlock()
	if untold {
		m.o.Health(now)
	}
}

// say sets the health of all wanted GPUs, and tells if it changed.
func (m *Manager) say(why func(uuid string) string) {
	m.mu.Lock()
	now := map[string]string{}
	for _, g := range m.want.GPUs {
		now[g.UUID] = why(g.UUID)
	}
	changed := m.untold || !maps.Equal(now, m.health)
	m.health, m.untold = now, false
	m.mu.Unlock()
	if changed {
		m.o.Health(maps.Clone(now))
	}
}

// sayServed says that what the daemon serves is healthy.
func (m *Manager) sayServed() {
	m.say(func(uuid string) string {
		if slices.Contains(m.runs.uuids(), uuid) {
			return ""
		}
		return notReady
	})
}

func (m *Manager) sayAll(why string) { m.say(func(string) string { return why }) }
