package allocation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/agent/config"
	"berth.dev/berth/agent/deviceplugin"
	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
)

// Node knows the devices of one node and who holds them. It is what package
// deviceplugin asks. It is safe for concurrent use.
type Node struct {
	o          Options
	log        *slog.Logger
	checkpoint *checkpoint
	driver     *driver
	changed    chan struct{} // of capacity 1
	held       chan struct{} // of capacity 1: Holders may have changed
	tidy       chan struct{} // of capacity 1: a pod may have ended
	locked     *os.File      // held as long as the node is

	mu       sync.Mutex
	files    files
	snapshot nvml.Snapshot
	settings config.Settings
	gpus     []gpu.GPU       // with their health
	ledger   *sharing.Ledger // nil until SetGPUs
	tokens   sharing.Tokens
	records  map[string]*record               // by pod UID
	astray   map[string]bool                  // pods that hold something the node does not offer as it was given
	nonces   map[string][]string              // of answers, by tokenKey
	offers   map[string][]deviceplugin.Device // as last told
	beside   bool                             // another plugin serves GPUs of this node
	past     map[string]bool                  // pods that have ended and that the kubelet may name still, by UID
	unread   error                            // why it is not known what other plugins gave
	cried    bool                             // that has been told

	waiting     map[string]bool // pods with a commitment and without a record, by UID
	drained     map[string]bool // see Drained
	welcome     map[string]bool // see Promised, by UID
	unreached   map[string]bool // pods that tellUnreached has seen, by UID; replaced, never changed
	differences int64
	refusals    map[string]int64
}

// tidyAgain is when pods that could not be read are asked for again, if nothing
// is heard of them before.
const tidyAgain = 10 * time.Second

// New makes the node of a folder of CDI specs and reads what an earlier agent has
// given out. It offers nothing until SetGPUs. It waits while another agent has
// the folder, as in a rolling update, until that has ended or ctx has.
func New(ctx context.Context, o Options) (*Node, error) {
	if o.Pods == nil {
		return nil, errors.New("allocation without a source of pods")
	}
	o.CDIDir = cmp.Or(o.CDIDir, DefaultCDIDir)
	o.DeviceDir = cmp.Or(o.DeviceDir, DefaultDeviceDir)
	o.CgroupRoot = cmp.Or(o.CgroupRoot, DefaultCgroupRoot)
	o.DevRoot = cmp.Or(o.DevRoot, "/")
	n := &Node{
		o: o, log: o.Log, checkpoint: newCheckpoint(o.DeviceDir), driver: newDriver(o.DriverCDI),
		changed: make(chan struct{}, 1), held: make(chan struct{}, 1), tidy: make(chan struct{}, 1),
		files:   files{dir: o.CDIDir, step: func(string) error { return nil }},
		records: map[string]*record{}, astray: map[string]bool{}, nonces: map[string][]string{}, refusals: map[string]int64{},
		past: map[string]bool{}, unread: errUnread,
	}
	if n.log == nil {
		n.log = slog.New(slog.DiscardHandler)
	}
	if n.o.Event == nil {
		n.o.Event = func(*v1.Pod, string, string, string) {}
	}
	if n.o.NodeEvent == nil {
		n.o.NodeEvent = func(string, string, string) {}
	}
	if err := os.MkdirAll(o.CDIDir, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of CDI specs: %w", err)
	}
	locked, err := lock(ctx, o.CDIDir, func(path string) {
		n.log.Info("another agent runs on this node, waiting for its end", "lock", path)
	})
	if err != nil {
		return nil, err
	}
	n.locked = locked
	if err := n.load(); err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

// Close gives the folder of CDI specs to another agent. Spec files stay: pods
// hold their devices, and containers may be started again without an agent as
// far as the kubelet lets them.
func (n *Node) Close() {
	n.checkpoint.close()
	_ = n.locked.Close()
}

// load reads the spec files. One that is not to be understood is removed: the
// kubelet asks before it starts the container again.
func (n *Node) load() error {
	list, err := n.files.load()
	if err != nil {
		return err
	}
	for _, l := range list {
		if l.record == nil {
			n.log.Warn("removing a CDI spec that cannot be read", "path", n.files.path(l.nonce))
			if err := n.files.remove(l.nonce); err != nil {
				return err
			}
			continue
		}
		if r := n.records[l.record.PodUID]; r != nil {
			l.record.merge(r)
		}
		n.records[l.record.PodUID] = l.record
	}
	return n.dropOutdated(list)
}

// dropOutdated removes spec files of names that the kubelet has had replaced.
func (n *Node) dropOutdated(list []loaded) error {
	current := map[string]bool{}
	for _, r := range n.records {
		for i := range r.Containers {
			for _, e := range r.Containers[i].Entries {
				current[e.Nonce] = true
			}
		}
	}
	for _, l := range list {
		if l.record != nil && !current[l.nonce] {
			if err := n.files.remove(l.nonce); err != nil {
				return err
			}
		}
	}
	return nil
}

// Run follows the pods until ctx ends: what ended ones held is free again, and
// the driver's part of CDI specs is read ahead of the first pod. It returns nil.
func (n *Node) Run(ctx context.Context) error {
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-n.o.Pods.Changed():
		case <-n.tidy:
		case <-again:
		case <-n.driver.stale:
			if err := n.readDriver(ctx); err != nil && ctx.Err() == nil {
				n.log.Warn("the driver's CDI spec cannot be had yet", "error", err)
			}
			continue
		}
		again = nil
		if err := n.Tidy(ctx); err != nil && ctx.Err() == nil {
			n.log.Warn("pods, or what they were given, cannot be read; what is held stays so until they can", "error", err)
			again = time.After(tidyAgain)
		}
	}
}

func (n *Node) readDriver(ctx context.Context) error {
	if _, err := n.driver.get(ctx); err != nil {
		return err
	}
	return n.writeDriverSpecs(ctx)
}

// Changed has a value after Offers has begun to give something else.
func (n *Node) Changed() <-chan struct{} { return n.changed }

// Held has a value after Holders may have begun to give something else. It is for
// one reader; values are coalesced.
func (n *Node) Held() <-chan struct{} { return n.held }

// Differences is how many commitments named another device than the kubelet's
// choice stood for.
func (n *Node) Differences() int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.differences
}

// Refusals counts the starts that were refused, by reason; see the Reason
// constants. Every reason is there.
func (n *Node) Refusals() map[string]int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := map[string]int64{}
	for _, reason := range []string{
		ReasonMissing, ReasonMalformed, ReasonUnhealthy, ReasonTaken, ReasonUnknown, ReasonAmbiguous, ReasonPodUnknown, ReasonDriver, ReasonWrite,
	} {
		out[reason] = n.refusals[reason]
	}
	return out
}

// Holders gives every container that holds devices, sorted by namespace, pod and
// container.
func (n *Node) Holders() []Holder {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []Holder
	for _, r := range n.records {
		for i := range r.Containers {
			c := &r.Containers[i]
			if len(c.Devices) == 0 {
				continue
			}
			h := Holder{PodUID: r.PodUID, Namespace: r.Namespace, Pod: r.Pod, Container: c.Name, Committed: r.Committed, Picked: slices.Clone(c.Picked)}
			for j := range c.Devices {
				h.Devices = append(h.Devices, c.Devices[j].device(n.well(&c.Devices[j])))
			}
			out = append(out, h)
		}
	}
	slices.SortFunc(out, func(a, b Holder) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.PodUID, b.PodUID), cmp.Compare(a.Container, b.Container))
	})
	return out
}

// uids are the pods with a record, sorted: the order in which they are counted.
func (n *Node) uids() []string { return slices.Sorted(maps.Keys(n.records)) }

// signal puts a value into a channel of capacity 1 that has none.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
