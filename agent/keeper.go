package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"berth.dev/berth/agent/config"
	"berth.dev/berth/agent/labels"
	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/agent/settings"
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

// keeper holds together driver, health and configuration on one goroutine, and
// hands what comes out to the offers and to a listener.
type keeper struct {
	driver  driver
	offers  offers
	prepare func(Status)                             // told of every Status before it is offered
	faulty  func() map[string]string                 // why shares of GPUs cannot be used, by UUID; "" is that they can
	listen  func(Status)                             // told of every new Status
	say     func(kind, reason, message string)       // events on the node
	holders func(uuid string) []string               // who holds a GPU or MIG device now, for a person
	xid     func(uuid string, xid int, at time.Time) // told of every Xid
	choices <-chan settings.Choice
	log     *slog.Logger
	now     func() time.Time

	mu      sync.Mutex
	drained map[string]bool // UUIDs of GPUs that are taken out of the offer; with mu
	asked   chan request
	before  chan []nvml.Event // what an earlier agent had marked
	ended   chan struct{}     // closed when run has returned

	health   *health.State
	snapshot nvml.Snapshot
	seen     bool   // a snapshot without Failed has come
	unread   string // as Status has it
	choice   settings.Choice
	refused  string          // what was last said of a configuration
	told     map[string]bool // devices that are known as unhealthy, by UUID

	waiting  []chan struct{} // for a snapshot that was asked for after them
	fetching bool
	again    bool // something changed while a snapshot was on its way
	fetched  chan fetched
	probed   chan probed
}

// request asks the loop to offer again, with refresh after a new snapshot.
type request struct {
	refresh bool
	done    chan struct{} // closed when it is done
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
		prepare: func(Status) {}, faulty: func() map[string]string { return nil },
		listen: func(Status) {}, say: func(string, string, string) {}, holders: func(string) []string { return nil },
		xid: func(string, int, time.Time) {}, unread: notRead, log: slog.New(slog.DiscardHandler),
		drained: map[string]bool{}, told: map[string]bool{}, asked: make(chan request), before: make(chan []nvml.Event, 1), ended: make(chan struct{}), fetched: make(chan fetched), probed: make(chan probed),
	}
}

// run works until ctx ends. The error is that of a driver that cannot be read at
// the start, where the configuration says that this ends the agent.
func (k *keeper) run(ctx context.Context) error {
	defer close(k.ended)
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
			} else {
				k.answer()
			}
		case e := <-k.driver.Events():
			k.event(e)
		case p := <-k.probed:
			k.changed(k.health.Probed(p.uuid, p.err, k.now()))
		case marks := <-k.before:
			k.recall(marks)
		case r := <-k.asked:
			if !r.refresh {
				k.apply()
				close(r.done)
				continue
			}
			k.waiting = append(k.waiting, r.done)
			k.fetch(ctx, &calls)
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
	case errors.Is(f.err, context.Canceled):
		return
	case f.err != nil:
		k.log.Warn("cannot read the driver; it is read again when its process is back", "error", f.err)
		k.unread = f.err.Error()
		k.listen(k.status())
		return
	case f.snapshot.Failed != "" && k.seen:
		k.log.Warn("the driver can no longer be read", "why", f.snapshot.Failed)
		k.unread = f.snapshot.Failed
		k.tell(k.health.Inventory(nil, f.asked))
		k.apply()
		return
	}
	before := k.snapshot
	k.snapshot, k.unread, k.seen = f.snapshot, f.snapshot.Failed, f.snapshot.Failed == ""
	k.byHand(before)
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
	if e.Xid != 0 {
		k.xid(e.UUID, e.Xid, now)
	}
	changed := k.health.Event(health.Event{UUID: e.UUID, Xid: e.Xid, GI: e.GI, Lost: e.Lost}, now)
	kind, reason, message := labels.XidEvent(k.snapshot, e)
	k.log.Warn("driver", "event", message, "unhealthy", changed)
	k.say(kind, reason, message)
	for _, uuid := range changed {
		k.told[uuid] = true // by this very event
	}
	if len(changed) > 0 {
		k.apply()
	}
}

// recall marks again what an earlier agent had marked: a restart of the agent proves
// nothing of a GPU. Nobody is told again.
func (k *keeper) recall(marks []nvml.Event) {
	var changed []string
	for _, e := range marks {
		changed = append(changed, k.health.Event(health.Event{UUID: e.UUID, Xid: e.Xid, GI: e.GI}, k.now())...)
	}
	for _, uuid := range changed {
		k.told[uuid] = true
	}
	if len(changed) > 0 {
		k.apply()
	}
}

// changed tells of devices whose verdict changed without an event of the driver's,
// and offers again.
func (k *keeper) changed(uuids []string) {
	k.tell(uuids)
	if len(uuids) > 0 {
		k.apply()
	}
}

// tell says of devices what became of them. A MIG device is not told of beside its
// GPU.
func (k *keeper) tell(uuids []string) {
	for _, uuid := range uuids {
		if g, device, ok := k.snapshot.Find(uuid); ok && device != nil && slices.Contains(uuids, g.UUID) {
			delete(k.told, uuid)
			continue
		}
		healthy, _, why := k.health.Verdict(uuid)
		switch {
		case !healthy && !k.told[uuid]:
			k.told[uuid] = true
			k.log.Warn("unhealthy", "device", uuid, "why", why)
			k.say("Warning", "GPUUnhealthy", "GPU "+uuid+": "+why)
		case healthy && k.told[uuid]:
			delete(k.told, uuid)
			k.log.Info("healthy again", "device", uuid)
			k.say(labels.RecoveredEvent(k.snapshot, uuid))
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

// Drain takes a GPU out of the offer, with all that it is cut into, until release is
// called: from its return on nothing new is given of it.
func (k *keeper) Drain(uuid string) (release func()) {
	k.mu.Lock()
	k.drained[uuid] = true
	k.mu.Unlock()
	k.ask(context.Background(), false)
	return func() {
		k.mu.Lock()
		delete(k.drained, uuid)
		k.mu.Unlock()
		k.ask(context.Background(), false)
	}
}

// Reoffer offers again where what faulty gives has changed. It returns when that is
// done, or the keeper has ended.
func (k *keeper) Reoffer() { k.ask(context.Background(), false) }

// Refresh reads the driver again and offers what it says. It returns when that is
// done, or ctx or the keeper has ended.
func (k *keeper) Refresh(ctx context.Context) error {
	k.ask(ctx, true)
	return ctx.Err()
}

func (k *keeper) ask(ctx context.Context, refresh bool) {
	r := request{refresh, make(chan struct{})}
	select {
	case k.asked <- r:
	case <-k.ended:
		return
	case <-ctx.Done():
		return
	}
	select {
	case <-r.done:
	case <-k.ended:
	case <-ctx.Done():
	}
}

// answer tells those who wait for a snapshot that it has been taken over.
func (k *keeper) answer() {
	for _, done := range k.waiting {
		close(done)
	}
	k.waiting = nil
}

// apply offers what there is, and tells the listener. What is prepared may say by
// faulty that it is not ready: so shares are never offered before MPS serves them.
func (k *keeper) apply() {
	k.prepare(k.status())
	s := k.status()
	if s.InForce && (k.seen || k.snapshot.Failed != "") {
		if err := k.offers.SetGPUs(s.Snapshot, s.Healthy, s.Settings); err != nil {
			k.log.Error("the GPUs cannot be offered as configured; the previous offer stays", "error", err)
			k.say("Warning", "InvalidPluginConfig", fmt.Sprintf("the GPUs cannot be offered as configured; the previous offer stays: %v", err))
		}
	}
	k.listen(s)
}
