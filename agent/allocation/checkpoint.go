package allocation

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"berth.dev/berth/api"
	"berth.dev/berth/internal/input"
)

// checkpointFile is the kubelet's record of which container has which devices.
// The format is the kubelet's own. It writes the file anew, by a rename, before
// any container of a pod is started.
//
// Source: pkg/kubelet/cm/devicemanager/checkpoint, Kubernetes 1.20 to 1.36.
const checkpointFile = "kubelet_internal_checkpoint"

// entry is what one container has been allocated of one resource.
type entry struct {
	PodUID    string   `json:"-"`
	Container string   `json:"-"`
	Resource  string   `json:"resource"`
	Tokens    []string `json:"tokens"`          // sorted
	Nonce     string   `json:"nonce,omitempty"` // of our answer; "" is another plugin's answer

	answer []byte // that the kubelet has kept, unread; Nonce comes of it
}

// readNonces finds the nonces of entries that checkpoint.read has given.
func readNonces(entries []entry) error {
	for i := range entries {
		nonce, err := nonceOf(entries[i].answer)
		if err != nil {
			return fmt.Errorf("%w: the answer to container %s of pod %s: %w", errCheckpoint, entries[i].Container, entries[i].PodUID, err)
		}
		entries[i].Nonce, entries[i].answer = nonce, nil
	}
	return nil
}

// has tells whether an entry is for these tokens, which are sorted.
func (e *entry) has(resource string, tokens []string) bool {
	return e.Resource == resource && slices.Equal(e.Tokens, tokens)
}

// errCheckpoint says that the checkpoint is not to be understood: the kubelet
// may have become another.
var errCheckpoint = errors.New("the kubelet's checkpoint has an unknown format")

// checkpoint reads the kubelet's record, and keeps what it has read until the
// file is another. It is safe for concurrent use.
type checkpoint struct {
	path string

	mu      sync.Mutex
	info    fs.FileInfo // of what was read; nil is nothing
	file    *os.File    // it: while it is open, no file that follows it can have its number
	entries []entry
}

func newCheckpoint(dir string) *checkpoint {
	return &checkpoint{path: filepath.Join(dir, checkpointFile)}
}

// read gives all entries, in no order and without their nonces; they are not to
// be changed. A file that is not there has none. Errors are errCheckpoint, or say why it cannot be read.
func (c *checkpoint) read() ([]entry, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, err := os.Open(c.path)
	if errors.Is(err, fs.ErrNotExist) {
		c.keep(nil, nil, nil)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the kubelet's checkpoint: %w", err)
	}
	defer func() {
		if f != c.file {
			_ = f.Close() // read only
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read the kubelet's checkpoint: %w", err)
	}
	if c.info != nil && os.SameFile(c.info, info) && c.info.ModTime().Equal(info.ModTime()) && c.info.Size() == info.Size() {
		return c.entries, nil
	}
	if info.Size() > input.State {
		return nil, fmt.Errorf("read the kubelet's checkpoint: it has %d bytes, and %d is the most", info.Size(), input.State)
	}
	raw := make([]byte, info.Size())
	if _, err := f.ReadAt(raw, 0); err != nil {
		return nil, fmt.Errorf("read the kubelet's checkpoint: %w", err)
	}
	entries, err := parseCheckpoint(raw)
	if err != nil {
		return nil, err
	}
	c.keep(f, info, entries)
	return entries, nil
}

// keep remembers a file and what is in it, instead of the one before. c.mu is held.
func (c *checkpoint) keep(f *os.File, info fs.FileInfo, entries []entry) {
	_ = c.file.Close() // read only, and nil at first
	c.file, c.info, c.entries = f, info, entries
}

// close forgets what was read.
func (c *checkpoint) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keep(nil, nil, nil)
}

// parseCheckpoint reads the fields that are needed and is strict about those.
func parseCheckpoint(raw []byte) ([]entry, error) {
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
		return nil, fmt.Errorf("%w: %w", errCheckpoint, err)
	}
	if file.Data == nil {
		return nil, fmt.Errorf("%w: no Data", errCheckpoint)
	}
	if file.Data.PodDeviceEntries == nil {
		return nil, nil // as a kubelet writes it that has given out nothing
	}
	list := *file.Data.PodDeviceEntries
	out := make([]entry, 0, len(list))
	for i := range list {
		e := &list[i]
		if e.PodUID == "" || e.ContainerName == "" || e.ResourceName == "" {
			return nil, fmt.Errorf("%w: entry %d does not name pod, container and resource", errCheckpoint, i)
		}
		var tokens []string
		for _, ids := range e.DeviceIDs {
			tokens = append(tokens, ids...)
		}
		slices.Sort(tokens)
		out = append(out, entry{PodUID: e.PodUID, Container: e.ContainerName, Resource: e.ResourceName, Tokens: slices.Compact(tokens), answer: e.AllocResp})
	}
	return out, nil
}

// nonceOf finds our name in the answer that the kubelet has kept.
func nonceOf(raw []byte) (string, error) {
	var answer v1beta1.ContainerAllocateResponse
	if err := proto.Unmarshal(raw, &answer); err != nil {
		return "", err
	}
	for _, d := range answer.CdiDevices {
		if nonce, ok := strings.CutPrefix(d.GetName(), cdiName("")); ok {
			return nonce, nil
		}
	}
	return "", nil
}

// cdiName is the CDI device of a nonce. Names begin with a letter, whatever the
// nonce begins with.
func cdiName(nonce string) string { return api.CDIKind + "=" + deviceName(nonce) }

func deviceName(nonce string) string { return "n" + nonce }

// compareEntries orders the entries of one pod.
func compareEntries(a, b *entry) int {
	return cmp.Or(strings.Compare(a.Container, b.Container), strings.Compare(a.Resource, b.Resource))
}

// names lists things for a sentence, not too many of them.
func names(list []string) string {
	const most = 4
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return strings.Join(list[:most], ", ") + fmt.Sprintf(" and %d more", len(list)-most)
}
