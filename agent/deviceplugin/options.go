package deviceplugin

import (
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"
)

// Dir is where every kubelet looks for plugins; the path is compiled into it
// and does not follow its --root-dir.
const Dir = "/var/lib/kubelet/device-plugins"

// Prefix begins the names of our sockets. NVIDIA's plugin removes the socket
// of its own name when it starts and when it stops, no matter which process made it. With
// another name, the two can be seen side by side, and neither takes the
// other's socket away while users switch between them.
const Prefix = "berth-"

// Options says how Run serves a node. The zero value is what a node needs.
type Options struct {
	Dir    string // with kubelet.sock; "" is Dir
	Prefix string // before the socket names that NVIDIA's plugin has; "" is Prefix
	// Observe keeps Run from opening a socket and from registering anything:
	// it then only waits until its context ends.
	Observe bool
	// Foreign is told of another plugin that offers a resource which the node
	// offers too, with a sentence that says who and what to do; "" says that
	// it has gone. It is called from the goroutine of the resource, which waits
	// for it. May be nil.
	Foreign  func(resource, detail string)
	Log      *slog.Logger // nil: none
	Counters *Counters    // nil: not counted

	times times // for tests
}

// Counters counts what the kubelet asked and what became of it, since the
// start of the process. Times are sums in nanoseconds.
type Counters struct {
	Registrations        atomic.Int64 // that the kubelet accepted
	RegistrationFailures atomic.Int64
	Serving              atomic.Int64 // resources whose device list the kubelet reads now
	Allocates            atomic.Int64
	AllocateFailures     atomic.Int64
	AllocateNanos        atomic.Int64
	PreStarts            atomic.Int64
	PreStartFailures     atomic.Int64
	PreStartNanos        atomic.Int64
	Panics               atomic.Int64 // in handlers; each became an error
}

// times are the delays of a plugin. All of them are for what has no event.
type times struct {
	gap     time.Duration // from a lost stream to the next registration, see plugin.lost
	first   time.Duration // first delay after a failure; doubles
	most    time.Duration // last of these delays
	steady  time.Duration // a stream that lived so long ends the doubling
	confirm time.Duration // in which the kubelet opens a stream after a registration
	settle  time.Duration // from a write of the kubelet's checkpoint to our reading it
	back    time.Duration // from the end of a foreign plugin to our return
	allow   time.Duration // for the node to answer Allocate or PreStart; the kubelet gives PreStart 30 s
	drain   time.Duration // for calls under way when a server stops
}

func (o Options) withDefaults() Options {
	if o.Dir == "" {
		o.Dir = Dir
	}
	o.Dir = filepath.Clean(o.Dir)
	if o.Prefix == "" {
		o.Prefix = Prefix
	}
	if o.Foreign == nil {
		o.Foreign = func(string, string) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Counters == nil {
		o.Counters = new(Counters)
	}
	if o.times == (times{}) {
		o.times = times{
			gap: 50 * time.Millisecond, first: 2 * time.Millisecond, most: 30 * time.Second, steady: 10 * time.Second,
			confirm: 5 * time.Second, settle: time.Second, back: 2 * time.Second,
			allow: 25 * time.Second, drain: 2 * time.Second,
		}
	}
	return o
}
