package fakegpu

import (
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/core/gpu"
)

// Options say how a Library runs.
type Options struct {
	Node  string // seed of UUIDs where the file names no node; "" is the host's name
	State string // file that keeps MIG devices and counters over restarts; "" keeps them in memory
	// Devices of the node that containers may be given, as CheckDevices has them.
	Devices []string

	Log  *slog.Logger // nil is none
	Exit func(int)    // ends the process at a crash; nil is os.Exit
}

// Library is a driver whose GPUs do not exist: a state machine behind the same
// seam as NVIDIA's. It is safe for concurrent use.
type Library struct {
	o       Options
	changes chan struct{}
	closed  chan struct{}

	mu      sync.Mutex
	file    File
	text    string    // that file is read from; "" is not from text
	base    time.Time // what every After counts from
	version string    // that the process has loaded; "" before Init
	cards   []*card   // every GPU of the file, by its place
	bound   []string  // UUIDs of the MIG devices of file.Work; "" is the whole GPU
	sets    map[*eventSet]bool
	early   []nvml.EventData // Xids that came before there was a set
	fired   time.Time        // Xids and resets due until then have happened
	next    *time.Timer      // the next After
	loaded  bool             // the state of an earlier process was read
	stop    func() error
}

var _ nvml.Library = (*Library)(nil)

// New makes a Library of a checked File. The process's clock is its clock.
func New(f File, o Options) *Library {
	l := newLibrary(o)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.apply(f, time.Now())
	return l
}

func newLibrary(o Options) *Library {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Exit == nil {
		o.Exit = os.Exit
	}
	if o.Node == "" {
		o.Node, _ = os.Hostname()
	}
	return &Library{
		o: o, changes: make(chan struct{}, 1), closed: make(chan struct{}),
		sets: map[*eventSet]bool{}, stop: func() error { return nil },
	}
}

// Apply changes the file while it is in use, as editing it does.
func (l *Library) Apply(f File) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.apply(f, time.Now())
	l.tell()
}

// Close ends following the file, and lets calls that hang return.
func (l *Library) Close() error {
	l.mu.Lock()
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	if l.next != nil {
		l.next.Stop()
	}
	stop := l.stop
	l.stop = func() error { return nil }
	l.mu.Unlock()
	return stop()
}

// apply makes f the file as of base. GPUs that stay, by UUID, keep what was
// done to them, unless the file now asks for other MIG devices.
func (l *Library) apply(f File, base time.Time) {
	before := l.cards
	for _, c := range before {
		c.totals = Advance(c.g, l.loads(c), c.totals, base)
	}
	l.file, l.base, l.fired, l.cards = f, base, base.Add(-1), nil
	node := f.Node
	if node == "" {
		node = l.o.Node
	}
	place := 0
	for _, group := range f.GPUs {
		p, err := group.product()
		if err != nil {
			continue // Parse refuses it
		}
		for range group.count() {
			l.cards = append(l.cards, newCard(p, group, place))
			place++
		}
	}
	// Addresses and links as a node has them that holds just these.
	usual := map[string][]gpu.GPU{}
	for i, c := range l.cards {
		if usual[c.product.Name] == nil {
			usual[c.product.Name] = gpu.New(node, c.product, len(l.cards))
		}
		c.place(usual[c.product.Name][i], l.cards)
	}
	for _, c := range l.cards {
		if at := slices.IndexFunc(before, func(b *card) bool { return b.g.UUID == c.g.UUID }); at >= 0 {
			c.inherit(before[at])
		}
	}
	l.load()
	l.bind()
	l.due()
}

// due lets happen what is due now, and comes back for what is due next.
func (l *Library) due() {
	now := time.Now()
	for _, x := range l.file.Xids {
		if l.falls(x.After, now) {
			l.raise(x)
		}
	}
	for _, c := range l.file.Reset {
		if l.falls(c.After, now) {
			l.cards[c.GPU].reset()
		}
	}
	for _, c := range l.file.Lost {
		if l.falls(c.After, now) {
			l.lose(l.cards[c.GPU].g.UUID)
		}
	}
	l.fired = now
	if l.next != nil {
		l.next.Stop()
		l.next = nil
	}
	wait := time.Duration(-1)
	for _, r := range l.file.references() {
		if d := l.base.Add(r.after).Sub(now); d > 0 && (wait < 0 || d < wait) {
			wait = d
		}
	}
	if wait < 0 {
		return
	}
	l.next = time.AfterFunc(wait, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		select {
		case <-l.closed:
			return
		default:
		}
		l.due()
		l.tell()
	})
}

// falls reports whether something that happens once does so now.
func (l *Library) falls(after time.Duration, now time.Time) bool {
	at := l.base.Add(after)
	return at.After(l.fired) && !at.After(now)
}

// holds reports whether something that lasts has begun. It does so with the Xids of
// its moment, not before they were raised.
func (l *Library) holds(after time.Duration) bool { return !l.base.Add(after).After(l.fired) }

// tell wakes all that wait: GPUs may have come, gone or changed.
func (l *Library) tell() {
	l.save()
	for s := range l.sets {
		s.wake()
	}
	select {
	case l.changes <- struct{}{}:
	default:
	}
}

// Changes tells that the file changed, or that something in it came due.
func (l *Library) Changes() <-chan struct{} { return l.changes }

// Fake is true.
func (l *Library) Fake() bool { return true }

// Init loads the driver that the file has now.
func (l *Library) Init() error {
	if err := l.trap("nvmlInit_v2", nil); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch v := l.file.Driver; {
	case v.Library != nil && !*v.Library:
		return nvml.LibraryNotFound
	case v.Unloaded:
		return nvml.DriverNotLoaded
	}
	l.version = l.driverVersion()
	return nil
}

// Shutdown lets go of it.
func (l *Library) Shutdown() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.version == "" {
		return nvml.Uninitialized
	}
	l.version = ""
	return nil
}

func (l *Library) driverVersion() string {
	if v := l.file.Driver.Version; v != "" {
		return v
	}
	return "570.124.06"
}

// ready reports whether calls can reach the driver at all.
func (l *Library) ready() error {
	switch {
	case l.version == "":
		return nvml.Uninitialized
	case l.file.Driver.Unloaded:
		return nvml.DriverNotLoaded
	case l.version != l.driverVersion():
		return nvml.LibRMVersionMismatch
	}
	return nil
}

// enter is the way into every call on the node: what traps and missing symbols
// do to it, then the state of the driver, with l locked on success.
func (l *Library) enter(symbol string, c *card) error {
	if err := l.trap(symbol, c); err != nil {
		return err
	}
	l.mu.Lock()
	if err := l.ready(); err != nil {
		l.mu.Unlock()
		return err
	}
	return nil
}

// DriverVersion is nvmlSystemGetDriverVersion.
func (l *Library) DriverVersion() (string, error) {
	if err := l.enter("nvmlSystemGetDriverVersion", nil); err != nil {
		return "", err
	}
	defer l.mu.Unlock()
	return l.version, nil
}

// CUDAVersion is nvmlSystemGetCudaDriverVersion_v2.
func (l *Library) CUDAVersion() (int, error) {
	if err := l.enter("nvmlSystemGetCudaDriverVersion_v2", nil); err != nil {
		return 0, err
	}
	defer l.mu.Unlock()
	major, minor, err := cudaVersion(l.file.Driver.CUDA)
	return 1000*major + 10*minor, err
}

// present lists the GPUs that are in the node now.
func (l *Library) present() []*card {
	var out []*card
	for i, c := range l.cards {
		if !slices.ContainsFunc(l.file.Removed, func(r Change) bool { return r.GPU == i && l.holds(r.After) }) {
			out = append(out, c)
		}
	}
	return out
}

// DeviceCount counts the GPUs that are in the node now.
func (l *Library) DeviceCount() (int, error) {
	if err := l.enter("nvmlDeviceGetCount_v2", nil); err != nil {
		return 0, err
	}
	defer l.mu.Unlock()
	return len(l.present()), nil
}

// Device returns the GPU at an index among those that are in the node now. A lost
// one has a handle; its calls fail.
func (l *Library) Device(index int) (nvml.Device, error) {
	if err := l.enter("nvmlDeviceGetHandleByIndex_v2", nil); err != nil {
		return nil, err
	}
	defer l.mu.Unlock()
	there := l.present()
	if index < 0 || index >= len(there) {
		return nil, nvml.InvalidArgument
	}
	return &device{l: l, uuid: there[index].g.UUID}, nil
}
