package deviceplugin

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// event is a set of things that happened since a plugin last looked.
type event uint

const (
	kubeletCame     event = 1 << iota // kubelet.sock was made
	socketGone                        // our socket was removed
	streamOpened                      // the kubelet began to read the list
	streamEnded                       // it, or its connection, ended
	offerChanged                      // the resource came or went
	strangerCame                      // the socket of NVIDIA's plugin was made
	strangerLeft                      // that socket was removed
	foreignGone                       // a foreign plugin's connection ended
	checkpointNoted                   // the kubelet wrote its checkpoint
)

// plugin keeps one resource registered. What it does depends on what is true
// when it looks, not on the order in which events reached it: events only say
// that it should look, and timers stand in for the few that do not exist.
type plugin struct {
	resource string
	opts     Options
	node     Node
	path     string // of our socket
	theirs   string // the socket of the same resource by NVIDIA's plugin
	list     *list
	end      func(error) // ends Run with an error
	wake     chan struct{}

	mu      sync.Mutex
	events  event
	offered bool
	ours    map[string]bool // IDs that we have offered, ever

	// The rest belongs to the goroutine of run.
	server  *server
	kubelet os.FileInfo // the kubelet.sock at which we registered
	since   time.Time   // when
	foreign *foreign    // not nil: another plugin has the resource
	stale   bool        // there is a file at theirs that no plugin has served since we registered
	begun   int         // streams that the server had had before the last registration
	delay   time.Duration
	strikes int    // checkpoints in a row that hold IDs of others
	said    string // the last failure that was logged

	ensureAt, confirmAt, settleAt, returnAt time.Time // zero: not armed
}

func newPlugin(resource string, o Options, n Node, end func(error)) *plugin {
	ours, theirs := socketNames(o.Prefix, resource)
	return &plugin{
		resource: resource, opts: o, node: n,
		path: filepath.Join(o.Dir, ours), theirs: filepath.Join(o.Dir, theirs),
		end: end, list: newList(), wake: make(chan struct{}, 1), ours: make(map[string]bool),
	}
}

// notify says that something happened. It never waits.
func (p *plugin) notify(e event) {
	p.mu.Lock()
	p.events |= e
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// offer sets the devices; offered is false where the resource has gone, which
// leaves it with capacity 0 and takes it from the kubelet.
func (p *plugin) offer(devices []Device, offered bool) {
	p.mu.Lock()
	for _, d := range devices {
		p.ours[d.ID] = true
	}
	changed := p.offered != offered
	p.offered = offered
	p.mu.Unlock()
	p.list.set(inOrder(devices))
	if changed {
		p.notify(offerChanged)
	}
}

func (p *plugin) isOffered() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.offered
}

// run works until ctx ends; then the server has stopped and the socket is
// gone. The kubelet counts the devices as unhealthy from there on, and forgets
// them after five minutes.
func (p *plugin) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		p.step(ctx)
		timer.Stop()
		if at := p.next(); !at.IsZero() {
			timer.Reset(time.Until(at))
		}
		select {
		case <-ctx.Done():
			p.stop(p.opts.times.drain)
			p.foreign.close()
			return
		case <-p.wake:
		case <-timer.C:
		}
	}
}

// next returns the time of the earliest timer, and zero when none is armed: a
// plugin that is registered sleeps until something happens.
func (p *plugin) next() time.Time {
	var at time.Time
	for _, t := range []time.Time{p.ensureAt, p.confirmAt, p.settleAt, p.returnAt} {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	return at
}

// due reports whether a timer has run out, and if so disarms it.
func due(at *time.Time, now time.Time) bool {
	if at.IsZero() || at.After(now) {
		return false
	}
	*at = time.Time{}
	return true
}

// step looks at what happened and does what is due.
func (p *plugin) step(ctx context.Context) {
	p.mu.Lock()
	e := p.events
	p.events = 0
	p.mu.Unlock()
	now := time.Now()

	if e&streamOpened != 0 {
		p.said = ""
		if p.server != nil && p.server.begun() > p.begun { // else it was of a registration before
			p.confirmAt = time.Time{}
		}
	}
	if e&streamEnded != 0 {
		p.lost(now)
	}
	if e&offerChanged != 0 {
		p.offerChanged(now)
	}
	if e&strangerCame != 0 {
		p.ensureAt = now.Add(p.opts.times.gap) // its file is there before it listens
		p.stale = p.stale && e&strangerLeft != 0
	}
	if e&socketGone != 0 && p.server != nil && !p.server.intact() {
		p.ensureAt = now
	}
	if e&strangerLeft != 0 {
		p.left(e, now)
	}
	if e&kubeletCame != 0 {
		p.anew(now)
	}
	if e&checkpointNoted != 0 && p.settleAt.IsZero() {
		p.settleAt = now.Add(p.opts.times.settle)
	}
	if e&foreignGone != 0 && p.foreign != nil {
		p.returnAt = now.Add(p.opts.times.back)
	}
	if due(&p.settleAt, now) {
		p.readCheckpoint(ctx, now)
	}
	if due(&p.returnAt, now) {
		p.comeBack(ctx, now)
	}
	if due(&p.confirmAt, now) {
		p.fail(errors.New("the kubelet accepted the registration but does not read the devices"))
	}
	if due(&p.ensureAt, now) {
		p.ensure(ctx)
	}
}

// left acts on a socket of NVIDIA's plugin that was removed. If that plugin was
// there too shortly to be seen, the kubelet, as it drops it, may have marked our
// endpoint as stopped; see lost.
//
// A socket that a killed plugin left is another matter: the process that removes it, most
// likely the next one of that plugin, takes nothing from us. To end our stream now
// would have the kubelet drop that next one.
func (p *plugin) left(e event, now time.Time) {
	stale := p.stale
	p.stale = false
	if stale {
		_, err := os.Lstat(p.theirs)
		stale = e&strangerCame == 0 || err == nil // none came, or it is there
	}
	if !stale && p.foreign == nil && p.server != nil && p.server.live() > 0 {
		p.stop(0)
		p.ensureAt = now.Add(p.opts.times.gap)
	}
}

// anew begins again with a kubelet that has started: it knows of no plugin,
// and has removed all sockets.
func (p *plugin) anew(now time.Time) {
	info, err := os.Stat(p.kubeletSocket())
	if err == nil && sameFile(info, p.kubelet) {
		return // a retry was quicker than the event
	}
	p.ensureAt = now
	if p.server != nil && p.server.live() > 0 {
		if p.kubelet == nil { // they may be this kubelet's; it drops us then as in lost
			p.ensureAt = now.Add(p.opts.times.gap)
		}
		p.stop(0) // connections of the kubelet that ended
	}
	p.kubelet = nil
	if p.foreign != nil && len(p.foreign.conns) == 0 {
		p.forgive() // it may register again; then the checkpoint tells
	}
	p.delay, p.strikes, p.confirmAt = 0, 0, time.Time{}
}

// offerChanged takes the resource from the kubelet, or brings it back.
func (p *plugin) offerChanged(now time.Time) {
	switch {
	case p.isOffered():
		p.ensureAt = now.Add(p.opts.times.gap) // a stream of before may have just ended
	case p.foreign == nil:
		p.stop(p.opts.times.drain) // the list is empty now, and still sent
		p.ensureAt, p.confirmAt = time.Time{}, time.Time{}
	}
}

// lost acts on a stream that ended. Either the kubelet ended, or it has
// dropped us: it does so when an older stream of the same resource ends, which
// may be another plugin's. It drops a plugin in two steps, closing the
// connection first and marking the resource unhealthy after, whichever plugin has it by
// then; so the next registration waits for a moment. A plugin that is dropped
// again and again waits longer each time.
//
// While the stream of a registration is awaited, it was one of before that ended.
func (p *plugin) lost(now time.Time) {
	if p.foreign != nil || p.server == nil || p.server.live() > 0 || !p.confirmAt.IsZero() {
		return
	}
	p.server.mu.Lock()
	lived := now.Sub(p.server.opened)
	p.server.mu.Unlock()
	if lived > p.opts.times.steady {
		p.delay = 0
	}
	p.kubelet = nil
	p.ensureAt = now.Add(max(p.opts.times.gap, p.longer()))
}

// stop stops the server, if there is one.
func (p *plugin) stop(drain time.Duration) {
	if p.server != nil {
		p.server.stop(drain)
		p.server, p.kubelet = nil, nil
	}
}
