package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc/status"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// event is a set of things that happened since a plugin last looked.
type event uint

const (
	kubeletCame      event = 1 << iota // kubelet.sock was made
	socketGone                         // our socket was removed
	streamOpened                       // the kubelet began to read the list
	streamEnded                        // it, or its connection, ended
	offerChanged                       // the resource came or went
	strangerCame                       // the socket of NVIDIA's plugin was made
	strangerGone                       // a foreign plugin's connection ended
	checkpointNoted                    // the kubelet wrote its checkpoint
)

// plugin keeps one resource registered. What it does depends on what is true
// when it looks, not on the order in which events reached it: events only say
// that it should look, and timers stand in for the few that do not exist.
type plugin struct {
	resource string
	opts     Options
	node     Node
	path     string // of our socket
	rival    string // the socket of the same resource by NVIDIA's plugin
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
	delay   time.Duration
	strikes int    // checkpoints in a row that hold IDs of others
	said    string // the last failure that was logged

	ensureAt, confirmAt, settleAt, returnAt time.Time // zero: not armed
}

func newPlugin(resource string, o Options, n Node, end func(error)) *plugin {
	ours, rival := socketNames(o.Prefix, resource)
	return &plugin{
		resource: resource, opts: o, node: n,
		path: filepath.Join(o.Dir, ours), rival: filepath.Join(o.Dir, rival),
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

// next gives the time of the earliest timer, and zero when none is armed: a
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

// due says whether a timer has run out, and if so disarms it.
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
		p.confirmAt, p.said = time.Time{}, ""
	}
	if e&streamEnded != 0 {
		p.lost(now)
	}
	if e&offerChanged != 0 {
		p.offerChanged(now)
	}
	if e&strangerCame != 0 {
		p.ensureAt = now.Add(p.opts.times.gap) // its file is there before it listens
	}
	if e&socketGone != 0 && p.server != nil && !p.server.intact() {
		p.ensureAt = now
	}
	if e&kubeletCame != 0 {
		p.anew(now)
	}
	if e&checkpointNoted != 0 && p.settleAt.IsZero() {
		p.settleAt = now.Add(p.opts.times.settle)
	}
	if e&strangerGone != 0 && p.foreign != nil {
		p.returnAt = now.Add(p.opts.times.back)
	}
	if due(&p.settleAt, now) {
		p.readCheckpoint(ctx, now)
	}
	if due(&p.returnAt, now) {
		p.comeBack(ctx, now)
	}
	if due(&p.confirmAt, now) {
		p.fail(errors.New("the kubelet accepted the registration and does not read the devices"))
	}
	if due(&p.ensureAt, now) {
		p.ensure(ctx)
	}
}

// anew begins again with a kubelet that has started: it knows of no plugin,
// and has removed all sockets.
func (p *plugin) anew(now time.Time) {
	info, err := os.Stat(p.kubeletSocket())
	if err == nil && sameFile(info, p.kubelet) {
		return // a retry was quicker than the event
	}
	p.kubelet = nil
	if p.server != nil && p.server.live() > 0 {
		p.stop(0) // connections of the kubelet that ended
	}
	if p.foreign != nil && len(p.foreign.conns) == 0 {
		p.forgive() // it may register again; then the checkpoint tells
	}
	p.delay, p.strikes, p.ensureAt, p.confirmAt = 0, 0, now, time.Time{}
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
// connection first and marking the resource unhealthy after, whoever has it by
// then; so the next registration waits for a moment. A plugin that is dropped
// again and again waits longer each time.
func (p *plugin) lost(now time.Time) {
	if p.foreign != nil || p.server == nil || p.server.live() > 0 {
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

// longer gives the next delay after a failure.
func (p *plugin) longer() time.Duration {
	p.delay = min(max(2*p.delay, p.opts.times.first), p.opts.times.most)
	return p.delay
}

// fail logs why the resource is not registered, once for each reason, and has
// it tried again.
func (p *plugin) fail(err error) {
	p.opts.Counters.RegistrationFailures.Add(1)
	if text := err.Error(); text != p.said {
		p.said = text
		p.opts.Log.Warn("resource is not registered with the kubelet; trying again", "resource", p.resource, "err", err)
	}
	p.ensureAt = time.Now().Add(p.longer())
}

// ensure makes true what should be: our socket is there, and the kubelet
// either reads our list or has just been asked to.
func (p *plugin) ensure(ctx context.Context) {
	if p.foreign != nil || !p.isOffered() {
		return
	}
	if p.yield(ctx) {
		return
	}
	if p.server == nil {
		p.server = p.newServer()
	}
	err := p.server.listen(p.path)
	if errors.Is(err, errTaken) {
		if f := lookAt(ctx, p.path, p.strangerGone); f != nil {
			p.standBack(f, fmt.Sprintf("another node agent of Berth serves %s at %s: run only one on a node", p.resource, p.path))
			return
		}
	}
	if errors.Is(err, errNoFolder) {
		p.end(err) // inotify does not say so while a socket of ours was in it
		return
	}
	if err != nil {
		p.fail(err)
		return
	}
	if p.server.live() > 0 || !p.confirmAt.IsZero() {
		return // only the socket was missing
	}
	if err := p.register(ctx); err != nil {
		p.fail(err)
		return
	}
	p.opts.Counters.Registrations.Add(1)
	p.opts.Log.Info("registered with the kubelet", "resource", p.resource)
	if p.server.live() == 0 {
		p.confirmAt = time.Now().Add(p.opts.times.confirm)
	}
}

func (p *plugin) kubeletSocket() string { return filepath.Join(p.opts.Dir, "kubelet.sock") }

// register tells the kubelet of our socket. The kubelet answers after it has
// connected to it.
func (p *plugin) register(ctx context.Context) error {
	path := p.kubeletSocket()
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no kubelet.sock in %s: the kubelet does not run, or its folder is not the one mounted here", p.opts.Dir)
	}
	if err != nil {
		return fmt.Errorf("register with the kubelet: %w", err)
	}
	conn, err := dial(path)
	if err != nil {
		return fmt.Errorf("register with the kubelet: %w", err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second) // the kubelet's own is 10 s
	defer cancel()
	_, err = v1beta1.NewRegistrationClient(conn).Register(ctx, &v1beta1.RegisterRequest{
		Version: v1beta1.Version, Endpoint: filepath.Base(p.path), ResourceName: p.resource, Options: callOptions(),
	})
	if err != nil {
		return fmt.Errorf("register with the kubelet: %s", status.Convert(err).Message())
	}
	p.kubelet, p.since = info, time.Now()
	return nil
}

// stop stops the server, if there is one.
func (p *plugin) stop(drain time.Duration) {
	if p.server != nil {
		p.server.stop(drain)
		p.server, p.kubelet = nil, nil
	}
}
