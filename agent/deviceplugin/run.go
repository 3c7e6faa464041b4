package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/fsnotify/fsnotify"
)

// Run offers the node's devices to the kubelet until ctx ends, and returns nil
// then. A kubelet that is away, comes again or refuses is waited for. Run ends
// with an error only where waiting would not help: the folder of the sockets
// is not there, is removed, or cannot be watched.
//
// Run starts one goroutine for each resource, waits for all of them, and
// removes its sockets.
func Run(ctx context.Context, o Options, n Node) error {
	o = o.withDefaults()
	if o.Observe {
		<-ctx.Done()
		return nil
	}
	w, err := watch(o.Dir)
	if err != nil {
		return err
	}
	defer w.Close()
	if err := removeStale(o.Dir, o.Prefix); err != nil {
		o.Log.Warn("cannot remove old sockets", "err", err) // listen will say more
	}
	outer := ctx
	ctx, end := context.WithCancelCause(ctx)
	r := &runner{opts: o, node: n, end: end, plugins: make(map[string]*plugin)}
	defer r.wg.Wait()
	defer end(nil)
	for r.offer(ctx); ; {
		select {
		case <-ctx.Done():
			if outer.Err() != nil {
				return nil
			}
			return context.Cause(ctx)
		case <-n.Changed():
			r.offer(ctx)
		case e, ok := <-w.Events:
			if !ok {
				return fmt.Errorf("watch %s: the watch ended", o.Dir)
			}
			if e.Name == o.Dir && e.Has(fsnotify.Remove|fsnotify.Rename) {
				return fmt.Errorf("%s %w", o.Dir, errNoFolder)
			}
			r.file(e)
		case err := <-w.Errors: // events were lost, so all may have happened
			o.Log.Warn("watching the kubelet's directory", "err", err)
			r.tell(kubeletCame | socketGone | strangerCame | checkpointNoted)
		}
	}
}

// watch begins to watch the kubelet's folder.
func watch(dir string) (*fsnotify.Watcher, error) {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("directory %s does not exist: does this node run a kubelet, and is its directory mounted here at the same path?", dir)
	case err != nil:
		return nil, fmt.Errorf("read the kubelet's directory: %w", err)
	case !info.IsDir():
		return nil, fmt.Errorf("%s is not a directory: use the one that contains kubelet.sock", dir)
	}
	w, err := fsnotify.NewWatcher()
	if err == nil {
		if err = w.Add(dir); err == nil {
			return w, nil
		}
		_ = w.Close() // the first error says more
	}
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENOSPC) {
		return nil, fmt.Errorf("watch %s: the node has no watches left, raise fs.inotify.max_user_instances and fs.inotify.max_user_watches: %w", dir, err)
	}
	return nil, fmt.Errorf("watch %s: %w", dir, err)
}

// runner has the plugins of all resources that were ever offered: one that is
// no longer offered sleeps.
type runner struct {
	opts    Options
	node    Node
	end     func(error)
	plugins map[string]*plugin
	wg      sync.WaitGroup
}

// offer gives each plugin its devices.
func (r *runner) offer(ctx context.Context) {
	offers := r.node.Offers()
	for resource, p := range r.plugins {
		if _, ok := offers[resource]; !ok {
			p.offer(nil, false)
		}
	}
	for resource, devices := range offers {
		p := r.plugins[resource]
		if p == nil {
			p = newPlugin(resource, r.opts, r.node, r.end)
			r.plugins[resource] = p
			r.wg.Go(func() { p.run(ctx) })
		}
		p.offer(devices, true)
	}
}

// tell passes an event to all plugins.
func (r *runner) tell(e event) {
	for _, p := range r.plugins {
		p.notify(e)
	}
}

// file acts on a change in the folder.
func (r *runner) file(e fsnotify.Event) {
	made, gone := e.Has(fsnotify.Create), e.Has(fsnotify.Remove|fsnotify.Rename)
	switch filepath.Base(e.Name) {
	case "kubelet.sock":
		if made {
			r.opts.Log.Info("the kubelet has started")
			r.tell(kubeletCame)
		}
		return
	case checkpointName:
		if made || e.Has(fsnotify.Write) {
			r.tell(checkpointNoted)
		}
		return
	}
	for _, p := range r.plugins {
		switch {
		case gone && e.Name == p.path:
			p.notify(socketGone)
		case made && e.Name == p.theirs:
			p.notify(strangerCame)
		case gone && e.Name == p.theirs:
			p.notify(strangerLeft)
		}
	}
}
