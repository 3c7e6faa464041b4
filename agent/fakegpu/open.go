package fakegpu

import (
	"bytes"
	"fmt"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"berth.dev/berth/internal/input"
)

// Open makes a Library of the file at path, and follows it: when the file
// changes, the GPUs do. A change that cannot be read is logged and leaves them
// as they are, also where an earlier process with the same Options.State had read
// the file before. The error is Parse's, or one of reading or watching.
func Open(path string, o Options) (*Library, error) {
	l := newLibrary(o)
	// The folder is watched, since editors and the kubelet put a new file in the
	// place of the old one; and through ..data, the kubelet's link. It is watched
	// before the file is read: so no edit is missed.
	w, unwatched := fsnotify.NewWatcher()
	if unwatched == nil {
		unwatched = w.Add(filepath.Dir(path))
	}
	f, data, err := l.first(path)
	if err == nil && unwatched != nil {
		err = fmt.Errorf("watch %s: %w", path, unwatched)
	}
	if err != nil {
		if w != nil {
			_ = w.Close() // the first error says more
		}
		return nil, err
	}
	l.mu.Lock()
	l.apply(f, time.Now())
	l.save()
	ended := make(chan struct{})
	l.stop = func() error {
		err := w.Close()
		<-ended
		return err
	}
	l.mu.Unlock()
	go func() {
		defer close(ended)
		l.follow(w, path, data)
	}()
	return l, nil
}

// first reads the file, or what an earlier process had read there, if the file is
// wrong now. data is what there is, right or wrong.
func (l *Library) first(path string) (f File, data []byte, err error) {
	if data, err = input.ReadFile(path, input.Config); err != nil {
		err = fmt.Errorf("read the file of fake GPUs: %w", err)
	} else {
		f, err = Parse(path, data, l.o.Devices...)
	}
	l.text = string(data)
	if err == nil {
		return f, data, nil
	}
	kept, text, ok := l.kept(path)
	if !ok {
		return File{}, nil, err
	}
	l.o.Log.Warn("the fake GPUs are unchanged", "error", err)
	l.text = text
	return kept, data, nil
}

// follow applies the file whenever its text is another.
func (l *Library) follow(w *fsnotify.Watcher, path string, last []byte) {
	for {
		select {
		case _, ok := <-w.Events:
			if !ok {
				return
			}
		case err, ok := <-w.Errors:
			if !ok {
				return
			}
			l.o.Log.Warn("watching the file of fake GPUs", "file", path, "error", err)
		}
		data, err := input.ReadFile(path, input.Config)
		if err != nil || len(data) == 0 || bytes.Equal(data, last) {
			continue // between two steps of an editor
		}
		last = data
		f, err := Parse(path, data, l.o.Devices...)
		if err != nil {
			l.o.Log.Warn("the fake GPUs are unchanged", "error", err)
			continue
		}
		l.o.Log.Info("reloaded the file of fake GPUs", "file", path)
		l.mu.Lock()
		l.text = string(data)
		l.mu.Unlock()
		l.Apply(f)
	}
}
