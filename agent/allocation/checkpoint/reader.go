package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"berth.dev/berth/internal/input"
)

// fileName is the checkpoint of the kubelet's device manager, in the kubelet's own
// format. The kubelet replaces the file, by a rename, before it starts any
// container of a pod.
//
// Source: pkg/kubelet/cm/devicemanager/checkpoint, Kubernetes 1.20 to 1.36.
const fileName = "kubelet_internal_checkpoint"

// ErrFormat says that the checkpoint has a format that is not known, perhaps that
// of a newer kubelet. The caller can ask the pod-resources API.
var ErrFormat = errors.New("the kubelet's checkpoint has an unknown format")

// Reader reads the kubelet's checkpoint, and parses the file only after it has
// been replaced. It is safe for concurrent use.
type Reader struct {
	path string

	mu      sync.Mutex  // guards the fields below, and is held while reading
	info    fs.FileInfo // of the file that was parsed; nil: none
	file    *os.File    // that file, kept open: until it is closed, no other file gets its inode number
	entries []Entry
}

// NewReader returns a reader of the checkpoint in the kubelet's device-plugins
// directory.
func NewReader(dir string) *Reader {
	return &Reader{path: filepath.Join(dir, fileName)}
}

// Read returns all entries, unordered and without their nonces (see ReadNonces).
// The caller must not change them. A file that does not exist has no entries.
// An error wraps ErrFormat, or says why the file cannot be read.
func (r *Reader) Read() ([]Entry, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, err := os.Open(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		r.keep(nil, nil, nil)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the kubelet's checkpoint: %w", err)
	}
	defer func() {
		if f != r.file {
			_ = f.Close() // read only
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read the kubelet's checkpoint: %w", err)
	}
	if r.info != nil && os.SameFile(r.info, info) && r.info.ModTime().Equal(info.ModTime()) && r.info.Size() == info.Size() {
		return r.entries, nil
	}
	if info.Size() > input.State {
		return nil, fmt.Errorf("read the kubelet's checkpoint: it has %d bytes, and %d is the most", info.Size(), input.State)
	}
	raw := make([]byte, info.Size())
	if _, err := f.ReadAt(raw, 0); err != nil {
		return nil, fmt.Errorf("read the kubelet's checkpoint: %w", err)
	}
	entries, err := parse(raw)
	if err != nil {
		return nil, err
	}
	r.keep(f, info, entries)
	return entries, nil
}

// keep replaces the file that was parsed and its entries. r.mu is held.
func (r *Reader) keep(f *os.File, info fs.FileInfo, entries []Entry) {
	_ = r.file.Close() // read only, and nil at first
	r.file, r.info, r.entries = f, info, entries
}

// Close closes the file that was read last. Read opens it again.
func (r *Reader) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keep(nil, nil, nil)
}

// parse reads the fields that are needed, strictly, and ignores the others.
func parse(raw []byte) ([]Entry, error) {
	var file struct {
		Data *struct {
			PodDeviceEntries *[]struct {
				PodUID, ContainerName, ResourceName string
				DeviceIDs                           map[string][]string // by NUMA node
				AllocResp                           []byte
			}
		}
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if file.Data == nil {
		return nil, fmt.Errorf("%w: no Data", ErrFormat)
	}
	if file.Data.PodDeviceEntries == nil {
		return nil, nil // a kubelet that has allocated nothing writes null
	}
	list := *file.Data.PodDeviceEntries
	out := make([]Entry, 0, len(list))
	for i := range list {
		e := &list[i]
		if e.PodUID == "" || e.ContainerName == "" || e.ResourceName == "" {
			return nil, fmt.Errorf("%w: entry %d does not name pod, container and resource", ErrFormat, i)
		}
		var ids []string
		for _, of := range e.DeviceIDs {
			ids = append(ids, of...)
		}
		slices.Sort(ids)
		out = append(out, Entry{PodUID: e.PodUID, Container: e.ContainerName, Resource: e.ResourceName, DeviceIDs: slices.Compact(ids), answer: e.AllocResp})
	}
	return out, nil
}
