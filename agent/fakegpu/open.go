package fakegpu

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Open makes a Library of the file at path, and follows it: when the file
// changes, the GPUs do. A change that cannot be read is logged and leaves them
// as they are, also where an earlier process with the same Options.State had read
// the file before. The error is Parse's, or one of reading or watching.
func Open(path string, o Options) (*Library, error) {
	l := newLibrary(o)
	data, edited, err := readFile(path)
	var f File
	if err == nil {
		f, err = Parse(path, data)
	}
	l.text = string(data)
	if err != nil {
		kept, text, ok := l.kept(path)
		if !ok {
			return nil, err
		}
		l.o.Log.Warn("the fake GPUs stay as they were", "error", err)
		f, l.text, edited = kept, text, time.Time{}
	}
	// The folder is watched, since editors and the kubelet put a new file in the
	// place of the old one; and through ..data, the kubelet's link.
	w, err := fsnotify.NewWatcher()
	if err == nil {
		err = w.Add(filepath.Dir(path))
	}
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", path, err)
	}
	l.mu.Lock()
	l.edited = edited
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

// readFile reads a file and when it was last changed.
func readFile(path string) ([]byte, time.Time, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read the file of fake GPUs: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read the file of fake GPUs: %w", err)
	}
	return data, info.ModTime(), nil
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
		data, err := os.ReadFile(path)
		if err != nil || len(data) == 0 || bytes.Equal(data, last) {
			continue // between two steps of an editor
		}
		last = data
		f, err := Parse(path, data)
		if err != nil {
			l.o.Log.Warn("the fake GPUs stay as they are", "error", err)
			continue
		}
		l.o.Log.Info("the fake GPUs follow their file", "file", path)
		l.mu.Lock()
		l.text = string(data)
		l.mu.Unlock()
		l.Apply(f)
	}
}
