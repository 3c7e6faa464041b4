package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"berth.dev/berth/agent/config"
	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/agent/settings"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/health"
)

// driver is what the keeper asks of the child that owns the driver.
type driver interface {
	Snapshot(ctx context.Context) (nvml.Snapshot, error)
	Probe(ctx context.Context, uuid string) error
	Events() <-chan nvml.Event
	Changed() <-chan struct{}
}

// offers takes what the node has: package allocation's Node.
type offers interface {
	SetGPUs(s nvml.Snapshot, healthy map[string]bool, c config.Settings) error
}

// Status is what the keeper knows at one moment. It is a value: nobody changes it.
type Status struct {
	Snapshot nvml.Snapshot
	Settings config.Settings
	InForce  bool              // Settings are; without, nothing is offered
	Healthy  map[string]bool   // by UUID of GPUs and MIG devices; false for those that are drained, too
	Why      map[string]string // why those of it are not, by UUID
	Xid      map[string]int    // last Xid, by UUID of GPUs; 0 is none
}

// keeper holds together driver, health and configuration on one goroutine, and
// hands what comes out to the offers and to a listener.
type keeper struct {
	driver  driver
	offers  offers
	listen  func(Status)                       // told of every new Status
	say     func(kind, reason, message string) // events on the node
	choices <-chan settings.Choice
	log     *slog.Logger
	now     func() time.Time

	mu      sync.Mutex
	drained map[string]string // why, by UUID of GPUs that are taken out of the offer; with mu
	poke    chan struct{}     // drained has changed

	health   *health.State
	snapshot nvml.Snapshot
	seen     bool // a snapshot without Failed has come
	choice   settings.Choice
	refused  string          // what was last said of a configuration
	told     map[string]bool // devices that are known as unhealthy, by UUID

	fetching bool
	again    bool // something changed while a snapshot was on its way
	fetched  chan fetched
	probed   chan probed
}

type fetched struct {
	snapshot nvml.Snapshot
	err      error
	asked    time.Time
}

type probed struct {
	uuid string
	err  error
}

func newKeeper(d driver, o offers, choices <-chan settings.Choice, p health.Policy) *keeper {
	return &keeper{
		driver: d, offers: o, choices: choices, health: health.New(p), now: time.Now,
		listen: func(Status) {}, say: func(string, string, string) {}, log: slog.New(slog.DiscardHandler),
		drained: map[string]string{}, told: map[string]bool{}, poke: make(chan struct{}, 1), fetched: make(chan fetched), probed: make(chan probed),
	}
}

// run works until ctx ends. The error is that of a driver that cannot be read at
// the start, where the configuration says that this ends the agent.
func (k *keeper) run(ctx context.Context) error {
	var calls sync.WaitGroup
	defer calls.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	k.fetch(ctx, &calls)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		if err := k.failed(); err != nil {
			return err
		}
		k.probe(ctx, &calls)
		if next := k.health.Next(); !next.IsZero() {
			timer.Reset(max(0, next.Sub(k.now())))
		}
		select {
		case <-ctx.Done():
			return nil
		case c, ok := <-k.choices:
			if !ok {
				k.choices = nil
				continue
			}
			k.choose(c)
		case <-k.driver.Changed():
			k.fetch(ctx, &calls)
		case f := <-k.fetched:
			k.fetching = false
			k.take(f)
			if k.again {
				k.fetch(ctx, &calls)
			}
		case e := <-k.driver.Events():
			k.event(e)
		case p := <-k.probed:
			k.changed(k.health.Probed(p.uuid, p.err, k.now()))
		case <-k.poke:
			k.apply()
		case <-timer.C:
			if k.health.Stale(k.now()) {
				k.fetch(ctx, &calls)
			}
		}
	}
}

// failed is why the agent has to end.
func (k *keeper) failed() error {
	if k.seen || k.snapshot.Failed == "" || !k.choice.InForce || !k.choice.FailOnInitError {
		return nil
	}
	return fmt.Errorf("read the GPUs of this node: %s (with failOnInitError: false the agent waits until it can)", k.snapshot.Failed)
}

// fetch asks for a snapshot beside the loop: a driver that hangs must not keep
// events waiting.
func (k *keeper) fetch(ctx context.Context, calls *sync.WaitGroup) {
	if k.fetching {
		k.again = true
		return
	}
	k.fetching, k.again = true, false
	asked := k.now()
	calls.Go(func() {
		s, err := k.driver.Snapshot(ctx)
		select {
		case k.fetched <- fetched{s, err, asked}:
		case <-ctx.Done():
		}
	})
}

// take notes a snapshot. A driver that cannot be read, as while it is upgraded,
// makes every GPU unhealthy; what containers hold stays theirs.
func (k *keeper) take(f fetched) {
	switch {
	case f.err != nil:
		if !errors.Is(f.err, context.Canceled) {
			k.log.Warn("the driver was not read; it is asked again when its process is back", "error", f.err)
		}
		return
	case f.snapshot.Failed != "" && k.seen:
		k.log.Warn("the driver cannot be read any more", "why", f.snapshot.Failed)
		k.changed(k.health.Inventory(nil, f.asked))
		return
	case f.snapshot.Failed != "":
		k.snapshot = f.snapshot
	default:
		k.snapshot, k.seen = f.snapshot, true
	}
	changed := k.health.Inventory(k.snapshot.Node().GPUs, f.asked)
	k.tell(changed)
	k.apply()
}

func (k *keeper) choose(c settings.Choice) {
	for _, w := range c.Warnings {
		k.log.Warn("configuration", "source", c.Source, "warning", w)
	}
	if c.Err != nil && c.Err.Error() != k.refused {
		k.refused = c.Err.Error()
		k.log.Error("configuration", "error", c.Err)
		k.say("Warning", "InvalidPluginConfig", k.refused)
	}
	if c.Err == nil {
		k.refused = ""
	}
	k.choice = c
	k.apply()
}

func (k *keeper) event(e nvml.Event) {
	now := k.now()
	changed := k.health.Event(health.Event{UUID: e.UUID, Xid: e.Xid, GI: e.GI, Lost: e.Lost}, now)
	if len(changed) == 0 && e.Xid != 0 {
		x := gpu.Xid(e.Xid)
		k.log.Info("Xid", "xid", e.Xid, "gpu", e.UUID, "name", x.Name)
	}
	k.changed(changed)
}

// changed tells of devices whose verdict changed, and offers anew.
func (k *keeper) changed(uuids []string) {
	k.tell(uuids)
	if len(uuids) > 0 {
		k.apply()
	}
}

// tell says of whole GPUs, and of MIG devices that fell alone, what became of them.
func (k *keeper) tell(uuids []string) {
	for _, uuid := range uuids {
		g, device, ok := k.snapshot.Find(uuid)
		healthy, _, why := k.health.Verdict(uuid)
		name := "GPU " + uuid
		if ok {
			name = fmt.Sprintf("GPU %d (%s)", g.Index, g.UUID)
		}
		if device != nil {
			if whole, _, _ := k.health.Verdict(g.UUID); !whole {
				continue // the GPU's own event says it
			}
			name = fmt.Sprintf("MIG device %s of GPU %d (%s)", device.Profile, g.Index, device.UUID)
		}
		switch {
		case !healthy:
			k.log.Warn("unhealthy", "device", name, "why", why)
			k.say("Warning", "GPUUnhealthy", name+": "+why)
			k.told[uuid] = true
		case k.told[uuid]:
			delete(k.told, uuid)
			k.log.Info("healthy again", "device", name)
			k.say("Normal", "GPUHealthy", name+" is proven well and is offered again.")
		}
	}
}

// probe asks for proof of those GPUs that are due.
func (k *keeper) probe(ctx context.Context, calls *sync.WaitGroup) {
	for _, uuid := range k.health.Due(k.now()) {
		calls.Go(func() {
			err := k.driver.Probe(ctx, uuid)
			select {
			case k.probed <- probed{uuid, err}:
			case <-ctx.Done():
			}
		})
	}
}

// Drain takes GPUs out of the offer until release is called: nothing new is given
// of them. why is a sentence.
func (k *keeper) Drain(uuids []string, why string) (release func()) {
	k.mu.Lock()
	for _, uuid := range uuids {
		k.drained[uuid] = why
	}
	k.mu.Unlock()
	k.nudge()
	return func() {
		k.mu.Lock()
		for _, uuid := range uuids {
			delete(k.drained, uuid)
		}
		k.mu.Unlock()
		k.nudge()
	}
}

func (k *keeper) nudge() {
	select {
	case k.poke <- struct{}{}:
	default:
	}
}

// status is what is known now.
func (k *keeper) status() Status {
	s := Status{
		Snapshot: k.snapshot, Settings: k.choice.Settings, InForce: k.choice.InForce,
		Healthy: k.health.Healthy(), Why: map[string]string{}, Xid: map[string]int{},
	}
	k.mu.Lock()
	drained := maps.Clone(k.drained)
	k.mu.Unlock()
	for _, g := range k.snapshot.GPUs {
		s.Xid[g.UUID] = k.health.LastXid(g.UUID)
		why, out := drained[g.UUID]
		for _, uuid := range append([]string{g.UUID}, uuidsOf(g.MIG)...) {
			if out {
				s.Healthy[uuid], s.Why[uuid] = false, why
			}
			if own, mine := drained[uuid]; mine {
				s.Healthy[uuid], s.Why[uuid] = false, own
			}
			if well, _, verdict := k.health.Verdict(uuid); !well {
				s.Why[uuid] = verdict
			}
		}
	}
	return s
}

func uuidsOf(devices []gpu.MIGDevice) []string {
	var out []string
	for _, d := range devices {
		out = append(out, d.UUID)
	}
	return out
}

// apply offers what there is, and tells the listener.
func (k *keeper) apply() {
	s := k.status()
	if s.InForce && (k.seen || k.snapshot.Failed != "") {
		if err := k.offers.SetGPUs(s.Snapshot, s.Healthy, s.Settings); err != nil {
			k.log.Error("the GPUs cannot be offered as configured; what was offered before stays", "error", err)
			k.say("Warning", "InvalidPluginConfig", fmt.Sprintf("the GPUs cannot be offered as configured; what was offered before stays: %v", err))
		}
	}
	k.listen(s)
}
