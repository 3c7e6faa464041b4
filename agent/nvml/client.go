package nvml

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// ErrGone says that the child which owns NVML ended before it answered, or does
// not run. It is no fault of a GPU: try again after Changed.
var ErrGone = errors.New("the NVML child is not running")

// Client runs the child that owns NVML and restarts it when it ends or hangs.
// It is safe for concurrent use; calls are sent one at a time. Make it by
// Start.
type Client struct {
	o       Options
	events  chan Event
	changed chan struct{}
	done    chan struct{}

	mu       sync.Mutex
	child    *child // the last one that was begun; never nil
	restarts int

	more  atomic.Pointer[[]Measure] // what Samples asks for
	names map[string]string         // texts of samples; see unpack. mu guards it
}

// Start begins the child and returns at once. When ctx ends, the child is asked
// to end by closing its stdin, and killed 2 s later; Wait waits for that. The
// child never outlives this process.
//
// Start panics if o.Command is empty: that is a bug in the caller.
func Start(ctx context.Context, o Options) *Client {
	if len(o.Command) == 0 {
		panic("nvml.Start: no command")
	}
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	if o.Backoff == 0 {
		o.Backoff = 500 * time.Millisecond
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	c := &Client{
		names: map[string]string{},
		o:     o, events: make(chan Event, 1024), changed: make(chan struct{}, 1),
		done: make(chan struct{}), child: newChild(),
	}
	go c.supervise(ctx)
	return c
}

// supervise runs one child after the other until ctx ends.
func (c *Client) supervise(ctx context.Context) {
	defer close(c.done)
	// The kernel ends a child with PDEATHSIG when the thread that began it ends,
	// not the process. So this goroutine keeps its thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	wait := c.o.Backoff
	for {
		began := time.Now()
		c.child.run(ctx, c)
		why := c.child.why
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) >= 60*c.o.Backoff {
			wait = c.o.Backoff
		}
		c.o.Log.Warn("the NVML child exited; restarting it", "why", why, "after", wait)
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		wait = min(2*wait, 60*c.o.Backoff)
		c.mu.Lock()
		c.child = newChild()
		c.restarts++
		c.mu.Unlock()
	}
}

// current is the last child that was begun.
func (c *Client) current() *child {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.child
}

// call sends a request to the child and waits for its answer, for the child to
// be ready first. limit is for the answer alone. When ctx ends first, the child
// still has until limit before it is killed.
func (c *Client) call(ctx context.Context, limit time.Duration, r request) (answer, error) {
	ch := c.current()
	a, err := ch.ask(ctx, limit, r)
	if err != nil {
		return answer{}, fmt.Errorf("nvml %s: %w", r.Call, err)
	}
	if err := a.err(); err != nil {
		return answer{}, fmt.Errorf("nvml %s: %w", r.Call, err)
	}
	return a, nil
}

// slow is the limit of calls that wait for hardware: without the persistence
// daemon, every GPU takes seconds to wake up.
func (c *Client) slow() time.Duration { return 6 * c.o.Timeout }

// Snapshot asks what there is. A driver that cannot be read is no error:
// Snapshot.Failed says why.
func (c *Client) Snapshot(ctx context.Context) (Snapshot, error) {
	a, err := c.call(ctx, c.slow(), request{Call: callSnapshot})
	if err != nil {
		return Snapshot{}, err
	}
	if a.Snapshot == nil {
		return Snapshot{}, errors.New("nvml snapshot: an empty answer")
	}
	return *a.Snapshot, nil
}

// Samples asks what every GPU and MIG device shows: each GPU in index order,
// then its MIG devices. Lost GPUs are left out. Ratios by GPM are the mean since
// the last call, or since the Snapshot before the first.
//
// The measures named by Ask are read too.
func (c *Client) Samples(ctx context.Context) ([]Sample, error) {
	r := request{Call: callSamples}
	if more := c.more.Load(); more != nil {
		r.More = *more
	}
	a, err := c.call(ctx, c.o.Timeout, r)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	samples, err := unpack(a.Samples, c.names)
	if err != nil {
		return nil, fmt.Errorf("nvml samples: %w", err)
	}
	return samples, nil
}

// Ask says which measures Samples has from now on, in Sample.More.
func (c *Client) Ask(more []Measure) { c.more.Store(&more) }

// Events returns Xids and lost GPUs as they come. When 1024 wait, further ones
// are logged and dropped. The channel is never closed.
func (c *Client) Events() <-chan Event { return c.events }

// Changed tells that a child is ready, the first one too, or that GPUs or MIG
// devices came or went: take a new Snapshot. It holds at most one value and is
// never closed.
func (c *Client) Changed() <-chan struct{} { return c.changed }

// SetMIGMode turns MIG on or off. needsReset: the mode is pending until the GPU
// is reset. Turning it off removes all MIG devices first. InUse: a process uses
// the GPU.
func (c *Client) SetMIGMode(ctx context.Context, uuid string, on bool) (needsReset bool, err error) {
	a, err := c.call(ctx, c.slow(), request{Call: callMIGMode, UUID: uuid, On: on})
	return a.Reset, err
}

// PartitionMIG replaces all MIG devices of an idle GPU with MIG on by those of
// profiles, placed as gpu.Layout does; none removes them. A GPU that has exactly
// these profiles is left as it is. On an error the GPU is as it was before, or
// the error says what is missing; InUse: a process uses one.
func (c *Client) PartitionMIG(ctx context.Context, uuid string, profiles []string) error {
	_, err := c.call(ctx, c.slow(), request{Call: callPartitionMIG, UUID: uuid, Profiles: profiles})
	return err
}

// SetMemoryLimit bounds the GPU memory of the processes in a cgroup v2 folder,
// whose path is the host's. FunctionNotFound: the driver is too old for it;
// NotSupported: not on this GPU, and never on MIG devices.
func (c *Client) SetMemoryLimit(ctx context.Context, uuid, cgroup string, bytes int64) error {
	_, err := c.call(ctx, c.o.Timeout, request{Call: callMemoryLimit, UUID: uuid, Cgroup: cgroup, Bytes: bytes})
	return err
}

// SetExclusive sets the compute mode of a GPU to EXCLUSIVE_PROCESS, as MPS
// wants it, or back to the default.
func (c *Client) SetExclusive(ctx context.Context, uuid string, on bool) error {
	_, err := c.call(ctx, c.slow(), request{Call: callExclusive, UUID: uuid, On: on})
	return err
}

// Probe asks whether a GPU or MIG device is well: it is there and answers, no
// memory row could not be replaced, and the driver does not ask for a reset or
// a restart. A row that waits for its replacement is no fault. An error that is
// ErrGone says nothing of the GPU.
func (c *Client) Probe(ctx context.Context, uuid string) error {
	_, err := c.call(ctx, c.o.Timeout, request{Call: callProbe, UUID: uuid})
	return err
}

// CDI returns a CDI specification as JSON: common edits (driver files, hooks) and
// one device per GPU and MIG device, named by its UUID.
func (c *Client) CDI(ctx context.Context) ([]byte, error) {
	a, err := c.call(ctx, c.slow(), request{Call: callCDI})
	return a.CDI, err
}

// Restarts counts the children that were begun after the first.
func (c *Client) Restarts() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.restarts
}

// PID is the process ID of the child; 0 when none runs.
func (c *Client) PID() int { return c.current().processID() }

// Wait waits, after the context of Start has ended, until the child is gone.
func (c *Client) Wait() { <-c.done }

// emit passes an event on, never waiting for its reader.
func (c *Client) emit(e Event) {
	select {
	case c.events <- e:
	default:
		c.o.Log.Error("dropped a GPU event: 1024 are waiting to be read", "uuid", e.UUID, "xid", e.Xid, "lost", e.Lost)
	}
}

// signal notes a change.
func (c *Client) signal() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}
