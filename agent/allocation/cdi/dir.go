package cdi

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

	specs "tags.cncf.io/container-device-interface/specs-go"

	"berth.dev/berth/agent/allocation/ledger"
	"berth.dev/berth/internal/input"
)

// Names of our files in the directory of CDI specs. Runtimes read only files that
// end in .json or .yaml, so they never see an unfinished one.
const (
	specPrefix = "berth-alloc-"
	specSuffix = ".json"
	tempPrefix = ".berth-alloc-"
	tempSuffix = ".tmp"
)

// recordAnnotation, in a spec file, has the record of the pod as JSON.
const recordAnnotation = "berth.dev/record"

// Dir is the directory of spec files, one for each nonce. It is not safe for
// concurrent use: allocation.Node guards it by its mutex.
type Dir struct {
	Path string
	// BeforeChange is called before each change of the directory. If it returns an
	// error, the change does not happen, as if the process had been killed. Tests
	// set it; nil allows every change.
	BeforeChange func(what string) error
}

// File returns the path of the spec file of a nonce.
func (d *Dir) File(nonce string) string {
	return filepath.Join(d.Path, specPrefix+nonce+specSuffix)
}

func (d *Dir) before(what string) error {
	if d.BeforeChange == nil {
		return nil
	}
	return d.BeforeChange(what)
}

// Write writes a spec whole, or leaves the one before and returns why.
func (d *Dir) Write(nonce string, spec *specs.Spec) error {
	raw, err := json.MarshalIndent(spec, "", " ")
	if err != nil {
		return err
	}
	if err := d.before("create"); err != nil {
		return err
	}
	temp := filepath.Join(d.Path, tempPrefix+nonce+tempSuffix)
	if err := os.WriteFile(temp, raw, 0o644); err != nil {
		_ = os.Remove(temp) // it may exist, cut short
		return fmt.Errorf("write CDI spec: %w; free space on the disk of %s or make it writable, and the container starts automatically", err, d.Path)
	}
	if err := d.before("rename"); err != nil {
		return err
	}
	if err := os.Rename(temp, d.File(nonce)); err != nil {
		_ = os.Remove(temp)
		return fmt.Errorf("write CDI spec: %w", err)
	}
	return nil
}

// Remove removes a spec. One that does not exist is no error.
func (d *Dir) Remove(nonce string) error {
	if err := d.before("remove"); err != nil {
		return err
	}
	if err := os.Remove(d.File(nonce)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove CDI spec: %w", err)
	}
	return nil
}

// Loaded is one spec file.
type Loaded struct {
	Nonce  string
	Record *ledger.Record // nil: the file cannot be parsed
	at     time.Time
}

// Load reads all spec files, oldest first, and removes unfinished ones.
func (d *Dir) Load() ([]Loaded, error) {
	list, err := os.ReadDir(d.Path)
	if err != nil {
		return nil, fmt.Errorf("read the CDI spec directory: %w", err)
	}
	var out []Loaded
	for _, e := range list {
		name := e.Name()
		if strings.HasPrefix(name, tempPrefix) && strings.HasSuffix(name, tempSuffix) {
			_ = os.Remove(filepath.Join(d.Path, name)) // of no use, and harmless
			continue
		}
		nonce, ok := strings.CutPrefix(name, specPrefix)
		if nonce, is := strings.CutSuffix(nonce, specSuffix); ok && is {
			l := Loaded{Nonce: nonce, Record: readRecord(d.File(nonce))}
			if info, err := e.Info(); err == nil {
				l.at = info.ModTime()
			}
			out = append(out, l)
		}
	}
	slices.SortStableFunc(out, func(a, b Loaded) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.Nonce, b.Nonce)) })
	return out, nil
}

// readRecord returns the record in a spec file, or nil.
func readRecord(path string) *ledger.Record {
	raw, err := input.ReadFile(path, input.State)
	if err != nil {
		return nil
	}
	var spec struct {
		Annotations map[string]string `json:"annotations"`
	}
	r := &ledger.Record{}
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

// replaceFile writes a file whole.
func replaceFile(path string, raw []byte) error {
	temp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+tempSuffix)
	if err := os.WriteFile(temp, raw, 0o644); err != nil {
		_ = os.Remove(temp)
		return err
	}
	return os.Rename(temp, path)
}
