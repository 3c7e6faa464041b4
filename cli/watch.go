package cli

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
)

const (
	watchCalm    = 500 * time.Millisecond // changes this close together are shown as one
	watchRefresh = 5 * time.Second        // readings change without an object changing
)

// watch shows something, and again whenever nodes or pods change what it says,
// until the user interrupts it. On a terminal it takes the place of what was
// shown before; elsewhere an empty line stands between.
func (c *cluster) watch(ctx context.Context, o Options, show func(io.Writer) error) error {
	return c.watchOn(ctx, o, c.openings, show)
}

// openings are watches, by what they do, for as long as a context lasts.
type openings func(ctx context.Context) map[string]func() (watch.Interface, error)

// watchOn is watch for the events of other watches.
func (c *cluster) watchOn(ctx context.Context, o Options, openings openings, show func(io.Writer) error) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	changed := make(chan struct{}, 1)
	var watches sync.WaitGroup
	defer watches.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for what, open := range openings(ctx) {
		w, err := open()
		if err != nil {
			return interrupted(ctx, c.failed(what, err))
		}
		watches.Go(func() { forward(ctx, w, open, changed) })
	}
	var last []byte
	for {
		var b bytes.Buffer
		if err := show(&b); err != nil {
			return interrupted(ctx, err)
		}
		if !bytes.Equal(b.Bytes(), last) {
			head := block("")
			switch {
			case screenOf(o.Out).color:
				head = clearScreen
			case last != nil:
				head = block("\n")
			}
			last = b.Bytes()
			if _, err := printf(o.Out, "%s%s", head, block(last)); err != nil {
				return err
			}
		}
		if err := waitChange(ctx, changed); err != nil {
			return interrupted(ctx, err)
		}
	}
}

// interrupted is nil where the user ended the command, and err otherwise.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // what err says is that ctx has ended
	}
	return err
}

// waitChange returns a moment after a change, or when it is time to look again.
func waitChange(ctx context.Context, changed <-chan struct{}) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(watchRefresh):
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
func (c *cluster) openings(ctx context.Context) map[string]func() (watch.Interface, error) {
	return map[string]func() (watch.Interface, error){
		"watch nodes": func() (watch.Interface, error) { return c.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{}) },
		"watch pods": func() (watch.Interface, error) {
			return c.CoreV1().Pods(metav1.NamespaceAll).Watch(ctx, metav1.ListOptions{FieldSelector: livePods})
		},
	}
}

// forward passes on that something happened, until ctx ends. The API server
// ends a watch now and then; it is begun again.
func forward(ctx context.Context, w watch.Interface, open func() (watch.Interface, error), out chan<- struct{}) {
	for {
		drain(ctx, w, out)
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
func drain(ctx context.Context, w watch.Interface, out chan<- struct{}) {
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case _, ok := <-w.ResultChan():
			if !ok {
				return
			}
			select {
			case out <- struct{}{}:
			default: // one is waiting to be seen already
			}
		}
	}
}
