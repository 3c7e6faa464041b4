package deviceplugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"berth.dev/berth/internal/input"
)

// The kubelet keeps one endpoint for a resource: who registered last gets the
// calls. It does not close the connection of the one before, and takes device
// lists from both. When the stream of either ends, it drops the other. So a
// plugin that finds another one in its place keeps its stream open and says
// nothing in it: to close it would take the resource from both.

// foreign is another plugin that offers our resource, seen by its connections:
// when one ends, the plugin may have gone.
type foreign struct {
	conns []*grpc.ClientConn
	path  string // its socket; "" where only the checkpoint told of it
	wg    sync.WaitGroup
}

// checkpointName is the file in which the kubelet notes, beside what pods
// hold, the healthy devices of each resource by their IDs.
const checkpointName = "kubelet_internal_checkpoint"

// lookAt returns the plugin that lives at a socket, and nil if none does. gone
// is called from another goroutine when its connection ends.
//
// It asks for the plugin's options and nothing else. ListAndWatch would tell
// more, but NVIDIA's plugin gives each change of health to one reader only: a
// second one would take it from the kubelet.
func lookAt(ctx context.Context, path string, gone func()) *foreign {
	conn := answering(ctx, path)
	if conn == nil {
		return nil
	}
	f := &foreign{path: path}
	f.watch(conn, gone)
	return f
}

// answering returns a connection to the plugin at a socket, and nil if there is
// no such file, no process listens, or the one that does is not a device plugin.
func answering(ctx context.Context, path string) *grpc.ClientConn {
	if info, err := os.Lstat(path); err != nil || info.Mode()&fs.ModeSocket == 0 {
		return nil
	}
	conn, err := dial(path)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err = v1beta1.NewDevicePluginClient(conn).GetDevicePluginOptions(ctx, &v1beta1.Empty{})
	if c := status.Code(err); c == codes.Unavailable || c == codes.Unimplemented {
		_ = conn.Close() // nothing is left to say
		return nil
	}
	return conn // an error says that it lives, too
}

// watch calls gone when a connection that was opened has ended. A call may have
// passed through it before gRPC says that it is ready.
func (f *foreign) watch(conn *grpc.ClientConn, gone func()) {
	f.conns = append(f.conns, conn)
	f.wg.Go(func() {
		for s := conn.GetState(); s == connectivity.Ready || s == connectivity.Connecting; s = conn.GetState() {
			conn.WaitForStateChange(context.Background(), s) // Close changes it too
		}
		gone()
	})
}

// close ends the watching. It may be called on nil.
func (f *foreign) close() {
	if f == nil {
		return
	}
	for _, c := range f.conns {
		_ = c.Close() // it may have ended
	}
	f.wg.Wait()
}

func (p *plugin) foreignGone() { p.notify(foreignGone) }

// standBack leaves the resource to another plugin.
func (p *plugin) standBack(f *foreign, detail string) {
	p.foreign = f
	p.list.mute(true)
	p.ensureAt, p.confirmAt, p.returnAt = time.Time{}, time.Time{}, time.Time{}
	p.opts.Log.Warn("another device plugin offers this resource", "resource", p.resource, "detail", detail)
	p.opts.Foreign(p.resource, detail)
}

// yield stands back if NVIDIA's plugin serves the resource, or one that calls
// its socket the same.
func (p *plugin) yield(ctx context.Context) bool {
	f := lookAt(ctx, p.theirs, p.foreignGone)
	if f != nil {
		p.standBack(f, fmt.Sprintf("another device plugin serves %s at %s. Berth leaves the resource to it: run only one of the two on a node", p.resource, p.theirs))
	}
	return f != nil
}

// forgive ends the standing back.
func (p *plugin) forgive() {
	p.foreign.close()
	p.foreign, p.strikes, p.returnAt = nil, 0, time.Time{}
	p.list.mute(false)
	p.opts.Log.Info("the other device plugin of this resource is gone", "resource", p.resource)
	p.opts.Foreign(p.resource, "")
}

// comeBack takes the resource again, if the other plugin has gone indeed and
// not only begun again.
func (p *plugin) comeBack(ctx context.Context, now time.Time) {
	if p.foreign == nil {
		return
	}
	if p.foreign.path != "" {
		if f := lookAt(ctx, p.foreign.path, p.foreignGone); f != nil {
			p.foreign.close()
			p.foreign = f
			return
		}
	}
	p.forgive()
	p.stop(p.opts.times.drain) // our old stream: the kubelet no longer has its endpoint
	p.ensureAt = now.Add(p.opts.times.gap)
}

// readCheckpoint sees whether the kubelet has our devices for the resource. It
// may have another plugin's, whatever that one's socket is called. Or it has
// none and yet reads our list: then it marked our endpoint as stopped, and our
// devices as unhealthy, while it dropped an older one.
//
// What was there before the kubelet read our list counts for nothing, and
// neither does what one look shows: the file may be from before our last list.
func (p *plugin) readCheckpoint(ctx context.Context, now time.Time) {
	if p.foreign == nil && (p.server == nil || p.server.live() == 0) {
		return
	}
	others, ours, err := p.registered()
	switch {
	case err != nil:
		p.opts.Log.Debug("kubelet's checkpoint not read", "err", err)
	case p.foreign != nil:
		if len(others) == 0 && p.foreign.path == "" {
			p.returnAt = now.Add(p.opts.times.back)
		}
	case len(others) == 0 && (ours > 0 || !p.list.healthy()):
		p.strikes = 0
	case p.strikes == 0:
		p.strikes++
		p.settleAt = now.Add(p.opts.times.settle)
	case len(others) == 0:
		p.strikes = 0
		p.stop(0)
		p.fail(errors.New("the kubelet has dropped the resource but still reads its devices"))
		p.ensureAt = now.Add(max(p.opts.times.gap, p.delay))
	default:
		p.yieldUnseen(ctx, others)
	}
}

// yieldUnseen stands back for a plugin of which only its devices are known.
func (p *plugin) yieldUnseen(ctx context.Context, ids []string) {
	if p.yield(ctx) {
		return
	}
	f := &foreign{}
	for _, path := range p.foreignSockets() {
		if conn := answering(ctx, path); conn != nil {
			f.watch(conn, p.foreignGone)
		}
	}
	p.standBack(f, fmt.Sprintf("the kubelet has devices of another plugin for %s, such as %s. Berth leaves the resource to it: run only one of the two on a node",
		p.resource, ids[0]))
}

// registered returns the healthy devices that the kubelet has for the resource:
// the IDs of those that were never ours, sorted, and the number of the rest.
func (p *plugin) registered() (others []string, ours int, err error) {
	raw, err := input.ReadFile(filepath.Join(p.opts.Dir, checkpointName), input.State)
	if err != nil {
		return nil, 0, err
	}
	var c struct {
		Data struct{ RegisteredDevices map[string][]string }
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, 0, fmt.Errorf("parse %s: %w", checkpointName, err)
	}
	ids := c.Data.RegisteredDevices[p.resource]
	all := len(ids)
	p.mu.Lock()
	defer p.mu.Unlock()
	others = slices.DeleteFunc(ids, func(id string) bool { return p.ours[id] })
	slices.Sort(others)
	return others, all - len(others), nil
}

// foreignSockets returns the sockets of other plugins: those made since we registered,
// as one that takes our place most likely was, and if there are none, all.
// They do not say which resource they are of.
func (p *plugin) foreignSockets() []string {
	entries, err := os.ReadDir(p.opts.Dir)
	if err != nil {
		return nil
	}
	var later, all []string
	for _, e := range entries {
		if e.Type()&fs.ModeSocket == 0 || e.Name() == "kubelet.sock" || strings.HasPrefix(e.Name(), p.opts.Prefix) {
			continue
		}
		path := filepath.Join(p.opts.Dir, e.Name())
		all = append(all, path)
		if info, err := e.Info(); err == nil && info.ModTime().After(p.since) {
			later = append(later, path)
		}
	}
	if len(later) > 0 {
		return later
	}
	return all
}
