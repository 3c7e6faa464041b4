package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"berth.dev/berth/cli/term"
)

const (
	watchCalm    = 500 * time.Millisecond // changes this close together are shown as one
	watchRefresh = 5 * time.Second        // readings change without an object changing
)

// Watch shows something, and again whenever nodes or pods change what it says,
// until the user interrupts it. On a terminal it takes the place of what was
// shown before; elsewhere an empty line stands between.
func (c *Cluster) Watch(ctx context.Context, o Options, show func(io.Writer) error) error {
	return c.WatchOn(ctx, o, c.openings, show)
}

// WatchFleet is Watch for what Read returns for nodes with a selector: the cluster is listed once, and then followed.
func (c *Cluster) WatchFleet(ctx context.Context, o Options, selector string, show func(io.Writer) error) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	changed, err := c.mirrored(ctx, selector)
	if err != nil {
		return Interrupted(ctx, err)
	}
	return c.showOn(ctx, o, changed, show)
}

// Follow calls see, and again whenever nodes or pods change, and at least every so often, until ctx ends or see returns an error. Read, for nodes
// with a selector, does not list them again.
func (c *Cluster) Follow(ctx context.Context, selector string, every time.Duration, see func() error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	changed, err := c.mirrored(ctx, selector)
	if err != nil {
		return err
	}
	for {
		if err := see(); err != nil {
			return err
		}
		if err := waitChange(ctx, changed, every); err != nil {
			return err
		}
	}
}

// changes has one entry while something has changed that was not seen. stop ends the watches.
func (c *Cluster) changes(ctx context.Context, openings Openings) (changed <-chan struct{}, stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	news := make(chan struct{}, 1)
	var watches sync.WaitGroup
	stop = func() {
		cancel()
		watches.Wait()
	}
	for what, open := range openings(ctx) {
		w, err := open()
		if err != nil {
			stop()
			return nil, nil, c.Failed(what, err)
		}
		watches.Go(func() {
			forward(ctx, w, open, func(watch.Event) {
				select {
				case news <- struct{}{}:
				default: // one is waiting to be seen already
				}
			})
		})
	}
	return news, stop, nil
}

// Openings are watches, by what they do, for as long as a context lasts.
type Openings func(ctx context.Context) map[string]func() (watch.Interface, error)

// WatchOn is watch for the events of other watches.
func (c *Cluster) WatchOn(ctx context.Context, o Options, openings Openings, show func(io.Writer) error) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	changed, end, err := c.changes(ctx, openings)
	if err != nil {
		return Interrupted(ctx, err)
	}
	defer end()
	return c.showOn(ctx, o, changed, show)
}

// showOn shows something, and again after each change.
func (c *Cluster) showOn(ctx context.Context, o Options, changed <-chan struct{}, show func(io.Writer) error) error {
	var last []byte
	for {
		var b bytes.Buffer
		if err := show(&b); err != nil {
			return Interrupted(ctx, err)
		}
		if !bytes.Equal(b.Bytes(), last) {
			head := term.Block("")
			switch {
			case term.ScreenOf(o.Out).Color:
				head = term.ClearScreen
			case last != nil:
				head = term.Block("\n")
			}
			last = b.Bytes()
			if _, err := term.Printf(o.Out, "%s%s", head, term.Block(last)); err != nil {
				return err
			}
		}
		if err := waitChange(ctx, changed, watchRefresh); err != nil {
			return Interrupted(ctx, err)
		}
	}
}

// Interrupted is nil where the user ended the command, and err otherwise.
func Interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // what err says is that ctx has ended
	}
	return err
}

// waitChange returns a moment after a change, or when it is time to look again.
func waitChange(ctx context.Context, changed <-chan struct{}, refresh time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(refresh):
		return nil
	case <-changed:
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(watchCalm):
	}
	select {
	case <-changed:
	default:
	}
	return nil
}

// openings are the watches on what a table is made of, by what they do.
func (c *Cluster) openings(ctx context.Context) map[string]func() (watch.Interface, error) {
	return map[string]func() (watch.Interface, error){
		"watch nodes": func() (watch.Interface, error) { return c.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{}) },
		"watch pods": func() (watch.Interface, error) {
			return c.CoreV1().Pods(metav1.NamespaceAll).Watch(ctx, metav1.ListOptions{FieldSelector: livePods})
		},
	}
}

// Events passes on the events of a watch, until ctx ends; tasks counts the goroutine that does it. The API server
// ends a watch now and then; it is begun again, and then has an event for each object that exists.
func Events(ctx context.Context, tasks *sync.WaitGroup, open func() (watch.Interface, error)) (<-chan watch.Event, error) {
	w, err := open()
	if err != nil {
		return nil, err
	}
	out := make(chan watch.Event)
	tasks.Go(func() {
		forward(ctx, w, open, func(e watch.Event) {
			select {
			case out <- e:
			case <-ctx.Done():
			}
		})
	})
	return out, nil
}

// forward passes on each event of a watch to take, until ctx ends. The API server
// ends a watch now and then; it is begun again.
func forward(ctx context.Context, w watch.Interface, open func() (watch.Interface, error), take func(watch.Event)) {
	for {
		drain(ctx, w, take)
		for err := errors.New("closed"); err != nil; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Second):
			}
			w, err = open()
		}
	}
}

// drain passes on each event of one watch, until it or ctx ends.
func drain(ctx context.Context, w watch.Interface, take func(watch.Event)) {
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-w.ResultChan():
			if !ok {
				return
			}
			take(e)
		}
	}
}
