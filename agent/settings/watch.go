package settings

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
)

// Watch returns what holds, at first and whenever it changes: when the label
// does, when a file comes, goes, or has other content under the same name (a
// ConfigMap that is edited), and when a link is turned. Where the new file is
// refused, the choice keeps the settings in force and says why in Err; so it does
// where a ConfigMap is deleted, since pods hold what it had shared.
//
// A choice that was not read yet is replaced by the next. The channel is
// closed once ctx has ended and nothing runs any longer.
func Watch(ctx context.Context, o Options) <-chan Choice {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	out := make(chan Choice)
	go func() {
		defer close(out)
		w := &watcher{o: o, known: o.Dir == "" || o.Label == nil}
		w.run(ctx, out)
	}()
	return out
}

type watcher struct {
	o       Options
	label   string
	known   bool // label is: before that, nothing is chosen
	now     Choice
	chosen  bool    // now is something
	pending *Choice // not read yet
}

func (w *watcher) run(ctx context.Context, out chan<- Choice) {
	var changes <-chan struct{}
	labels := w.o.Label
	switch {
	case w.o.Dir != "":
		changes = Changes(ctx, w.o.Log, w.o.Dir)
	case w.o.File != "":
		changes, labels = Changes(ctx, w.o.Log, w.o.File), nil
	default:
		w.choose()
		labels = nil
	}
	if changes != nil {
		defer func() {
			for range changes { // until it has ended too
			}
		}()
	}
	for {
		send, next := out, Choice{}
		if w.pending == nil {
			send = nil
		} else {
			next = *w.pending
		}
		select {
		case <-ctx.Done():
			return
		case send <- next:
			w.pending = nil
		case label, ok := <-labels:
			if !ok {
				labels = nil
				continue
			}
			w.label, w.known = label, true
			w.choose()
		case _, ok := <-changes:
			if ok {
				w.choose()
			}
		}
	}
}

// choose reads, and lets go of what is the same.
func (w *watcher) choose() {
	if !w.known {
		return
	}
	c := Read(w.o, w.label)
	if c.InForce && c.Source == noFile && w.now.InForce && w.now.Source != noFile && !slices.Contains(w.o.Fallbacks, FallbackEmpty) {
		c = Choice{Err: fmt.Errorf("%s has no files any longer; restore the ConfigMap, or restart the agent to run without it", w.o.Dir)}
	}
	if c.Err != nil && w.now.InForce {
		err := c.Err
		c = w.now
		c.Err = fmt.Errorf("%w; %s stays active", err, c.Source)
	}
	if w.chosen && same(c, w.now) {
		return
	}
	w.now, w.chosen, w.pending = c, true, &c
}
