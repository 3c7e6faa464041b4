// Package record keeps, on the node, the pods that held GPUs of it and are gone: in two files of bounded size, in the
// format of kube/record, and serves them beside the metrics.
package record

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	format "berth.dev/berth/kube/record"
)

const (
	file    = "pods.jsonl"
	earlier = "pods.1.jsonl"
	// most is how large a file may grow before it becomes the earlier one: some 5,000 pods.
	most = 4 << 20
)

// Record is that of one node. It is safe for concurrent use.
type Record struct {
	dir string
	log *slog.Logger

	mu sync.Mutex
}

// Open returns the record in a folder, which is made if it is not there. log may be nil.
func Open(dir string, log *slog.Logger) (*Record, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("keep a record of pods that are gone: %w", err)
	}
	return &Record{dir: dir, log: log}, nil
}

// Gone notes that a pod is gone since a time. It is written when Gone returns. Failures are logged: devices do not wait for it.
func (r *Record) Gone(p *v1.Pod, at time.Time) {
	line, err := format.Write(format.Gone{At: at.UTC(), Pod: p})
	if err == nil {
		r.mu.Lock()
		err = r.append(line)
		r.mu.Unlock()
	}
	if err != nil {
		r.log.Warn("the record does not have the end of a pod; a ledger that is not there now will not know when it ended", "pod", p.Namespace+"/"+p.Name, "error", err)
	}
}

// append writes a line at the end of the file. A line that was cut off before it is ended first.
func (r *Record) append(line []byte) error {
	path := filepath.Join(r.dir, file)
	if info, err := os.Stat(path); err == nil && info.Size() >= most {
		if err := os.Rename(path, filepath.Join(r.dir, earlier)); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	if info, err := f.Stat(); err == nil && info.Size() > 0 {
		last := []byte{0}
		if _, err := f.ReadAt(last, info.Size()-1); err == nil && last[0] != '\n' {
			line = append([]byte{'\n'}, line...)
		}
	}
	_, err = f.Write(line)
	return errors.Join(err, f.Sync(), f.Close())
}

// Since returns the lines of pods that are gone since a time, the earliest first.
func (r *Record) Since(since time.Time) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []byte
	for _, name := range []string{earlier, file} {
		raw, err := os.ReadFile(filepath.Join(r.dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for line := range bytes.Lines(raw) {
			if list, _ := format.Read(line); len(list) == 1 && !list[0].At.Before(since) {
				out = append(out, line...)
			}
		}
	}
	return out, nil
}

// ServeHTTP serves what time it is, and the lines since the time of the query "since"; without one, all.
func (r *Record) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var since time.Time
	if text := req.URL.Query().Get("since"); text != "" {
		var err error
		if since, err = time.Parse(time.RFC3339, text); err != nil {
			http.Error(w, fmt.Sprintf("since=%q is no time: write it as 2026-11-28T12:00:00Z", text), http.StatusBadRequest)
			return
		}
	}
	lines, err := r.Since(since)
	if err != nil {
		r.log.Warn("the record cannot be read", "error", err)
		http.Error(w, "the record cannot be read", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	_, _ = w.Write(append(format.WriteNow(time.Now()), lines...)) // an error is the client's
}
