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
	"time"

	cdi "tags.cncf.io/container-device-interface/specs-go"

	"berth.dev/berth/internal/input"
)

// What our files are called in the folder of CDI specs. Runtimes read only
// files that end in .json and .yaml, so that they never see half of one.
const (
	specPrefix = "berth-alloc-"
	specSuffix = ".json"
	halfPrefix = ".berth-alloc-"
	halfSuffix = ".tmp"
)

// recordAnnotation, in a spec file, holds the record of the pod as JSON.
const recordAnnotation = "berth.dev/record"

// files is the folder of spec files. It is not safe for concurrent use.
type files struct {
	dir string
	// step is called before each change of the folder. An error of it ends the
	// work at that point as if the process had been killed; tests set it.
	step func(what string) error
}

func (f *files) path(nonce string) string {
	return filepath.Join(f.dir, specPrefix+nonce+specSuffix)
}

// write puts a spec in its place whole, or leaves what was there and says why.
func (f *files) write(nonce string, spec *cdi.Spec) error {
	raw, err := json.MarshalIndent(spec, "", " ")
	if err != nil {
		return err
	}
	if err := f.step("create"); err != nil {
		return err
	}
	half := filepath.Join(f.dir, halfPrefix+nonce+halfSuffix)
	if err := os.WriteFile(half, raw, 0o644); err != nil {
		_ = os.Remove(half) // it may be there and cut short
		return fmt.Errorf("write CDI spec: %w; make room on the disk of %s or make it writable, and the container starts by itself", err, f.dir)
	}
	if err := f.step("rename"); err != nil {
		return err
	}
	if err := os.Rename(half, f.path(nonce)); err != nil {
		_ = os.Remove(half)
		return fmt.Errorf("write CDI spec: %w", err)
	}
	return nil
}

// remove takes a spec away. One that is not there is no error.
func (f *files) remove(nonce string) error {
	if err := f.step("remove"); err != nil {
		return err
	}
	if err := os.Remove(f.path(nonce)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove CDI spec: %w", err)
	}
	return nil
}

// loaded is one spec file and what it says.
type loaded struct {
	nonce  string
	at     time.Time
	record *record // nil: it is not to be understood
}

// load reads all spec files, the oldest first, and takes away what writing has
// left half done.
func (f *files) load() ([]loaded, error) {
	list, err := os.ReadDir(f.dir)
	if err != nil {
		return nil, fmt.Errorf("read the folder of CDI specs: %w", err)
	}
	var out []loaded
	for _, e := range list {
		name := e.Name()
		if strings.HasPrefix(name, halfPrefix) && strings.HasSuffix(name, halfSuffix) {
			_ = os.Remove(filepath.Join(f.dir, name)) // of no use, and no harm
			continue
		}
		nonce, ok := strings.CutPrefix(name, specPrefix)
		if nonce, is := strings.CutSuffix(nonce, specSuffix); ok && is {
			l := loaded{nonce: nonce}
			if info, err := e.Info(); err == nil {
				l.at = info.ModTime()
			}
			l.record = readRecord(f.path(nonce))
			out = append(out, l)
		}
	}
	slices.SortStableFunc(out, func(a, b loaded) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.nonce, b.nonce)) })
	return out, nil
}

// readRecord gives the record of a spec file, or nil.
func readRecord(path string) *record {
	raw, err := input.ReadFile(path, input.State)
	if err != nil {
		return nil
	}
	var spec struct {
		Annotations map[string]string `json:"annotations"`
	}
	r := &record{}
	if json.Unmarshal(raw, &spec) != nil || json.Unmarshal([]byte(spec.Annotations[recordAnnotation]), r) != nil || r.PodUID == "" {
		return nil
	}
	for i := range r.Containers {
		c := &r.Containers[i]
		for j := range c.Entries {
			c.Entries[j].PodUID, c.Entries[j].Container = r.PodUID, c.Name
		}
	}
	return r
}
