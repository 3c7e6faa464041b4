package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
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
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	changed, err := c.changes(ctx)
	if err != nil {
		return interrupted(ctx, err)
	}
	var last []byte
	for {
		var b bytes.Buffer
		if err := show(&b); err != nil {
			return interrupted(ctx, err)
		}
		if !bytes.Equal(b.Bytes(), last) {
			head := ""
			switch {
			case screenOf(o.Out).colour:
				head = "\x1b[H\x1b[2J"
			case last != nil:
				head = "\n"
			}
			last = b.Bytes()
			if _, err := fmt.Fprintf(o.Out, "%s%s", head, last); err != nil {
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
		return nil
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

// changes tells that nodes or live pods changed. The API server ends a watch
// now and then; it is begun again until ctx ends.
func (c *cluster) changes(ctx context.Context) (<-chan struct{}, error) {
	out := make(chan struct{}, 1)
	begin := map[string]func() (watch.Interface, error){
		"watch nodes": func() (watch.Interface, error) { return c.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{}) },
		"watch pods": func() (watch.Interface, error) {
			return c.CoreV1().Pods(metav1.NamespaceAll).Watch(ctx, metav1.ListOptions{FieldSelector: livePods})
		},
	}
	for what, open := range begin {
		w, err := open()
		if err != nil {
			return nil, c.failed(what, err)
		}
		go forward(ctx, w, open, out)
	}
	return out, nil
}

// forward passes on that something happened, until ctx ends.
func forward(ctx context.Context, w watch.Interface, open func() (watch.Interface, error), out chan<- struct{}) {
	for {
		for range w.ResultChan() {
			select {
			case out <- struct{}{}:
			default:
			}
		}
		w.Stop()
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
