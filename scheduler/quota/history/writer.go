// Package history writes which workloads of Queues were evicted to return quota:
// a scheduler that starts later reads it.
package history

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"berth.dev/berth/core/quota"
)

const (
	writeAfter = 100 * time.Millisecond // a change, with those that come together
	writeAgain = 10 * time.Second       // after a write that failed
)

// Writer writes the evictions of queues soon after some were added, and again where that fails. It is
// safe for concurrent use.
type Writer struct {
	read func(queues []string) map[string][]quota.Evicted

	mu      sync.Mutex
	write   func(queue string, list []quota.Evicted) error
	changed map[string]bool // queues
	waiting bool            // for the next write
}

// NewWriter returns a Writer of what read returns of queues, by name; one that is missing there is not
// written. read is called without any lock of the Writer.
func NewWriter(read func(queues []string) map[string][]quota.Evicted) *Writer {
	return &Writer{read: read, write: func(string, []quota.Evicted) error { return nil }, changed: map[string]bool{}}
}

// To has what is written handed to a function, one queue at a time.
func (w *Writer) To(write func(queue string, list []quota.Evicted) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.write = write
}

// Changed has a queue written soon.
func (w *Writer) Changed(queue string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changed[queue] = true
	w.after(writeAfter)
}

// after has what has changed written after a time, with mu held.
func (w *Writer) after(wait time.Duration) {
	if !w.waiting && len(w.changed) > 0 {
		w.waiting = true
		time.AfterFunc(wait, w.all)
	}
}

// all writes what has changed.
func (w *Writer) all() {
	w.mu.Lock()
	names, write := slices.Sorted(maps.Keys(w.changed)), w.write
	clear(w.changed)
	w.mu.Unlock()
	lists := w.read(names)
	wait, failed := writeAfter, []string(nil)
	for _, name := range names {
		list, known := lists[name]
		if !known {
			continue
		}
		if err := write(name, list); err != nil {
			klog.Background().Error(err, "The evictions of a queue are not saved yet", "queue", name)
			wait, failed = writeAgain, append(failed, name)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range failed {
		w.changed[name] = true
	}
	w.waiting = false
	w.after(wait)
}
