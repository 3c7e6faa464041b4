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

// driver is what the reconciler asks of the child that owns the driver.
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

// reconciler combines driver, health and configuration on one goroutine, and passes
// the result to the offers and to a listener.
type reconciler struct {
	driver    driver
	offers    offers
	prepare   func(Status)                             // called with every Status before it is offered
	faulty    func() map[string]string                 // why shares of GPUs cannot be used, by UUID; "": they can
	listen    func(Status)                             // called with every new Status
	nodeEvent func(kind, reason, message string)       // sends an event about the node
	holders   func(uuid string) []string               // the pods that hold a GPU or MIG device now, for messages
	xid       func(uuid string, xid int, at time.Time) // called for every Xid
	choices   <-chan settings.Choice
	log       *slog.Logger
	now       func() time.Time

	mu       sync.Mutex
	drained  map[string]bool   // guarded by mu: UUIDs of GPUs that are not offered
	requests chan request      // from other goroutines
	earlier  chan []nvml.Event // Xids by which an earlier agent had marked GPUs
	ended    chan struct{}     // closed when run has returned

	// Used on run's goroutine alone, as everything below.
	health   *health.State
	snapshot nvml.Snapshot
	seen     bool   // a snapshot without Failed has come
	unread   string // as Status has it
	choice   settings.Choice
	refused  string          // the error that was reported last about a configuration
	reported map[string]bool // devices that were reported as unhealthy, by UUID

	waiting  []chan struct{} // closed after a snapshot that was requested later than they
	fetching bool
	again    bool // something changed while a snapshot was being read
	fetched  chan fetched
	probed   chan probed
}

// request has run offer the GPUs again, with refresh after a new snapshot.
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

func newReconciler(d driver, o offers, choices <-chan settings.Choice, p health.Policy) *reconciler {
	return &reconciler{
		driver: d, offers: o, choices: choices, health: health.New(p), now: time.Now,
		prepare: func(Status) {}, faulty: func() map[string]string { return nil },
		listen: func(Status) {}, nodeEvent: func(string, string, string) {}, holders: func(string) []string { return nil },
		xid: func(string, int, time.Time) {}, unread: notRead, log: slog.New(slog.DiscardHandler),
		drained: map[string]bool{}, reported: map[string]bool{}, requests: make(chan request), earlier: make(chan []nvml.Event, 1), ended: make(chan struct{}), fetched: make(chan fetched), probed: make(chan probed),
	}
}

// run works until ctx is done. It returns an error if the driver cannot be read at
// startup and the configuration says that the agent exits then.
func (k *reconciler) run(ctx context.Context) error {
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
			k.setSnapshot(f)
			if k.again {
				k.fetch(ctx, &calls)
			} else {
				k.answer()
			}
		case e := <-k.driver.Events():
			k.event(e)
		case p := <-k.probed:
			k.healthChanged(k.health.Probed(p.uuid, p.err, k.now()))
		case marks := <-k.earlier:
			k.restoreMarks(marks)
		case r := <-k.requests:
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

// failed returns why the agent must exit, or nil.
func (k *reconciler) failed() error {
	if k.seen || k.snapshot.Failed == "" || !k.choice.InForce || !k.choice.FailOnInitError {
		return nil
	}
	return fmt.Errorf("read the GPUs of this node: %s (with failOnInitError: false the agent waits until it can)", k.snapshot.Failed)
}

// fetch reads a snapshot on another goroutine: a driver that hangs must not delay
// events.
func (k *reconciler) fetch(ctx context.Context, calls *sync.WaitGroup) {
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

// setSnapshot uses a new snapshot. If the driver cannot be read, as while it is
// upgraded, every GPU becomes unhealthy; containers keep their devices.
func (k *reconciler) setSnapshot(f fetched) {
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
		k.reportHealth(k.health.Inventory(nil, f.asked))
		k.apply()
		return
	}
	before := k.snapshot
	k.snapshot, k.unread, k.seen = f.snapshot, f.snapshot.Failed, f.snapshot.Failed == ""
	k.reportManualMIG(before)
	changed := k.health.Inventory(k.snapshot.Node().GPUs, f.asked)
	k.reportHealth(changed)
	k.apply()
}

func (k *reconciler) choose(c settings.Choice) {
	for _, w := range c.Warnings {
		k.log.Warn("configuration", "source", c.Source, "warning", w)
	}
	if c.Err != nil && c.Err.Error() != k.refused {
		k.refused = c.Err.Error()
		k.log.Error("configuration", "error", c.Err)
		k.nodeEvent("Warning", "InvalidPluginConfig", k.refused)
	}
	if c.Err == nil {
		k.refused = ""
	}
	k.choice = c
	k.apply()
}

func (k *reconciler) event(e nvml.Event) {
	now := k.now()
	if e.Xid != 0 {
		k.xid(e.UUID, e.Xid, now)
	}
	changed := k.health.Event(health.Event{UUID: e.UUID, Xid: e.Xid, GI: e.GI, Lost: e.Lost}, now)
	kind, reason, message := labels.XidEvent(k.snapshot, e)
	k.log.Warn("driver", "event", message, "unhealthy", changed)
	k.nodeEvent(kind, reason, message)
	for _, uuid := range changed {
		k.reported[uuid] = true // by this very event
	}
	if len(changed) > 0 {
		k.apply()
	}
}

// restoreMarks marks GPUs as unhealthy that an earlier agent had marked: a restart of
// the agent does not prove a GPU healthy. It sends no event.
func (k *reconciler) restoreMarks(marks []nvml.Event) {
	var changed []string
	for _, e := range marks {
		changed = append(changed, k.health.Event(health.Event{UUID: e.UUID, Xid: e.Xid, GI: e.GI}, k.now())...)
	}
	for _, uuid := range changed {
		k.reported[uuid] = true
	}
	if len(changed) > 0 {
		k.apply()
	}
}

// healthChanged reports devices whose health changed without an event of the driver,
// and offers them again.
func (k *reconciler) healthChanged(uuids []string) {
	k.reportHealth(uuids)
	if len(uuids) > 0 {
		k.apply()
	}
}

// reportHealth logs and sends events about the health of devices. A MIG device has no
// event if its GPU has one.
func (k *reconciler) reportHealth(uuids []string) {
	for _, uuid := range uuids {
		if g, device, ok := k.snapshot.Find(uuid); ok && device != nil && slices.Contains(uuids, g.UUID) {
			delete(k.reported, uuid)
			continue
		}
		healthy, _, why := k.health.Verdict(uuid)
		switch {
		case !healthy && !k.reported[uuid]:
			k.reported[uuid] = true
			k.log.Warn("unhealthy", "device", uuid, "why", why)
			k.nodeEvent("Warning", "GPUUnhealthy", "GPU "+uuid+": "+why)
		case healthy && k.reported[uuid]:
			delete(k.reported, uuid)
			k.log.Info("healthy again", "device", uuid)
			k.nodeEvent(labels.RecoveredEvent(k.snapshot, uuid))
		}
	}
}

// probe starts the health checks of GPUs that are due.
func (k *reconciler) probe(ctx context.Context, calls *sync.WaitGroup) {
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

// Drain stops offering a GPU and its MIG devices until release is called: after Drain
// returns, nothing of it is allocated to new pods.
func (k *reconciler) Drain(uuid string) (release func()) {
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

// Reoffer offers the GPUs again after the result of faulty has changed. It returns when
// that is done, or run has returned.
func (k *reconciler) Reoffer() { k.ask(context.Background(), false) }

// Refresh reads the driver again and offers its GPUs. It returns when that is done, or
// ctx is done, or run has returned.
func (k *reconciler) Refresh(ctx context.Context) error {
	k.ask(ctx, true)
	return ctx.Err()
}

func (k *reconciler) ask(ctx context.Context, refresh bool) {
	r := request{refresh, make(chan struct{})}
	select {
	case k.requests <- r:
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

// answer ends the requests that wait for a snapshot.
func (k *reconciler) answer() {
	for _, done := range k.waiting {
		close(done)
	}
	k.waiting = nil
}

// apply offers the GPUs and calls the listener. prepare may change what faulty returns,
// so shares are never offered before MPS serves them.
func (k *reconciler) apply() {
	k.prepare(k.status())
	s := k.status()
	if s.InForce && (k.seen || k.snapshot.Failed != "") {
		if err := k.offers.SetGPUs(s.Snapshot, s.Healthy, s.Settings); err != nil {
			k.log.Error("the GPUs cannot be offered as configured; the previous offer stays", "error", err)
			k.nodeEvent("Warning", "InvalidPluginConfig", fmt.Sprintf("the GPUs cannot be offered as configured; the previous offer stays: %v", err))
		}
	}
	k.listen(s)
}
