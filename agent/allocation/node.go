package allocation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"berth.dev/berth/agent/allocation/cdi"
	"berth.dev/berth/agent/allocation/checkpoint"
	"berth.dev/berth/agent/allocation/ledger"
	"berth.dev/berth/agent/allocation/notice"
	"berth.dev/berth/agent/deviceplugin"
)

// Node joins the ledger of one node, the kubelet's checkpoint and the CDI specs.
// Package deviceplugin calls it for the kubelet. It is safe for concurrent use.
type Node struct {
	// Set by New and not changed; each is safe for concurrent use itself.
	o          Options
	log        *slog.Logger
	checkpoint *checkpoint.Reader
	driver     *cdi.Driver
	changed    chan struct{} // of capacity 1: Offers may return something else
	held       chan struct{} // of capacity 1: Holders may return something else
	tidy       chan struct{} // of capacity 1: a pod may have ended
	locked     *os.File      // the lock on the directory of CDI specs
	events     notice.Events

	// Each has its own lock. They are taken with mu held, never the other way round.
	answers  checkpoint.Answers
	refusals notice.Refusals
	unserved notice.Unserved

	mu      sync.Mutex // guards the fields below
	ledger  *ledger.Ledger
	specs   cdi.Dir
	builder cdi.Builder
	offers  map[string][]deviceplugin.Device // as published last
	pending map[string]bool                  // pods with a commitment that have not started, by UID

	otherPlugin   bool  // another plugin serves GPUs of this node
	othersUnknown error // why it is not known what other plugins allocated; nil: it is known
	reported      bool  // the node's users have had an event about othersUnknown
}

// tidyAgain is the time until pods that could not be read are read again.
const tidyAgain = 10 * time.Second

// New returns the node of a directory of CDI specs, after it has read what an
// earlier agent allocated. It offers nothing until SetGPUs. While another agent has
// the directory, as in a rolling update, it waits until that one has exited or ctx
// is done.
func New(ctx context.Context, o Options) (*Node, error) {
	if o.Pods == nil {
		return nil, errors.New("allocation without a source of pods")
	}
	o.CDIDir = cmp.Or(o.CDIDir, DefaultCDIDir)
	o.DeviceDir = cmp.Or(o.DeviceDir, DefaultDeviceDir)
	o.CgroupRoot = cmp.Or(o.CgroupRoot, DefaultCgroupRoot)
	o.DevRoot = cmp.Or(o.DevRoot, "/")
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	n := &Node{
		o: o, log: o.Log, checkpoint: checkpoint.NewReader(o.DeviceDir), driver: cdi.NewDriver(o.DriverCDI),
		changed: make(chan struct{}, 1), held: make(chan struct{}, 1), tidy: make(chan struct{}, 1),
		events:  notice.Events{OnPod: o.Event, OnNode: o.NodeEvent},
		ledger:  ledger.New(o.Kubelet, o.Log),
		specs:   cdi.Dir{Path: o.CDIDir},
		builder: cdi.Builder{DevRoot: o.DevRoot, MPS: o.MPS},

		othersUnknown: errNotRead,
	}
	if err := os.MkdirAll(o.CDIDir, 0o755); err != nil {
		return nil, fmt.Errorf("create the CDI spec directory: %w", err)
	}
	locked, err := cdi.Lock(ctx, o.CDIDir, func(path string) {
		n.log.Info("another agent runs on this node; waiting for it to exit", "lock", path)
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

// Close unlocks the directory of CDI specs for another agent. Spec files stay: pods
// hold their devices, and the kubelet may restart containers without an agent.
func (n *Node) Close() {
	n.checkpoint.Close()
	_ = n.locked.Close()
}

// load reads the spec files into the ledger. It removes those that cannot be
// parsed, because the kubelet calls PreStart before it starts the container again,
// and those that no record names any longer.
func (n *Node) load() error {
	list, err := n.specs.Load()
	if err != nil {
		return err
	}
	for _, f := range list {
		if f.Record == nil {
			n.log.Warn("removing a CDI spec that cannot be read", "path", n.specs.File(f.Nonce))
			if err := n.specs.Remove(f.Nonce); err != nil {
				return err
			}
			continue
		}
		n.ledger.Load(f.Record)
	}
	current := n.ledger.Nonces()
	for _, f := range list {
		if f.Record != nil && !current[f.Nonce] {
			if err := n.specs.Remove(f.Nonce); err != nil {
				return err
			}
		}
	}
	return nil
}

// Run follows the pods until ctx is done: it frees what ended pods held, and reads
// the driver's CDI spec before the first pod needs it. It returns nil.
func (n *Node) Run(ctx context.Context) error {
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-n.o.Pods.Changed():
		case <-n.tidy:
		case <-again:
		case <-n.driver.Stale():
			if err := n.readDriver(ctx); err != nil && ctx.Err() == nil {
				n.log.Warn("the driver's CDI spec is not available yet", "error", err)
			}
			continue
		}
		again = nil
		if err := n.Tidy(ctx); err != nil && ctx.Err() == nil {
			n.log.Warn("cannot read pods or their allocations; every allocation stays until then", "error", err)
			again = time.After(tidyAgain)
		}
	}
}

// readDriver reads the driver's CDI spec, and in mode kubelet writes it under the
// names that the answers refer to.
func (n *Node) readDriver(ctx context.Context) error {
	spec, err := n.driver.Spec(ctx)
	if err != nil || spec == nil || !n.o.Kubelet {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.builder.ByCDI() {
		return nil
	}
	return n.builder.WriteDriverSpecs(n.o.CDIDir, spec)
}

// Changed has a value after the result of Offers has changed.
func (n *Node) Changed() <-chan struct{} { return n.changed }

// HoldersChanged has a value after the result of Holders may have changed. It is
// for one reader; values are coalesced.
func (n *Node) HoldersChanged() <-chan struct{} { return n.held }

// Differences returns how many commitments named another device than the
// kubelet's choice stood for.
func (n *Node) Differences() int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ledger.Differences()
}

// Refusals returns how many starts were refused, by reason: each of package
// notice is there.
func (n *Node) Refusals() map[string]int64 { return n.refusals.Counts() }

// Holders returns every container that holds devices, sorted by namespace, pod and
// container.
func (n *Node) Holders() []Holder {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ledger.Holders()
}

// signal sends to a channel of capacity 1, unless it has a value.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
