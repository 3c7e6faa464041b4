// Package datadir knows the layout of the folder that `berth up` keeps its
// data in: who holds it, what it says about itself, and how to remove it. It
// does not know what etcd or Kubernetes put inside.
package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Format is the layout version this program writes. A folder with a higher one
// was written by a newer program and is refused.
const Format = 1

// Dir is the absolute path of a data folder.
type Dir string

// State is the content of state.json: the marker that says a folder is Berth's,
// and where the control plane in it listens. It is written before anything else
// is put in the folder.
type State struct {
	Kind    string `json:"kind"`    // always "berth data folder"
	Format  int    `json:"format"`  // layout version
	Version string `json:"version"` // of the program that wrote it
	PID     int    `json:"pid"`     // last holder; it may be gone
	Port    int    `json:"port"`    // API server, on 127.0.0.1
	Server  string `json:"server"`  // URL of the API server
	Fleet   string `json:"fleet"`   // name of the fleet the folder was made with
	// Scheduler is "stock", "berth" or "none"; "" is stock, in a folder made before there was a choice.
	Scheduler string `json:"scheduler,omitempty"`
	// Kubernetes is the version whose API is served, such as "1.33"; "" is that of the
	// program.
	Kubernetes string `json:"kubernetes,omitempty"`
	// Notebooks is "own", "govern", "off" or "auto"; "" is auto.
	Notebooks string    `json:"notebooks,omitempty"`
	Training  string    `json:"training,omitempty"` // the same for training jobs
	Serving   string    `json:"serving,omitempty"`  // the same for InferenceServices
	Ready     bool      `json:"ready"`              // false while the holder starts
	Started   time.Time `json:"started"`            // of the last holder
	Seconds   float64   `json:"seconds"`            // from start to ready, of the last holder
	Nodes     int       `json:"nodes"`              // simulated nodes at ready
	GPUs      int       `json:"gpus"`               // physical GPUs at ready
	// HostProcesses are the rules by which the last holder runs processes of this
	// machine in place of containers, as they were given.
	HostProcesses []string `json:"hostProcesses,omitempty"`
}

const kind = "berth data folder"

// Default is the data folder used when none is named:
// $XDG_DATA_HOME/berth/default, or ~/.local/share/berth/default.
func Default() (Dir, error) {
	if base := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(base) {
		return Dir(filepath.Join(base, "berth", "default")), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find the data folder: %w; set $XDG_DATA_HOME or give --dir", err)
	}
	return Dir(filepath.Join(home, ".local", "share", "berth", "default")), nil
}

// At is the data folder at path, or the default one when path is empty. It is
// refused as by Check.
func At(path string) (Dir, error) {
	if path == "" {
		d, err := Default()
		if err != nil {
			return "", err
		}
		return d, d.Check()
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("data folder %s: %w", path, err)
	}
	return Dir(abs), Dir(abs).Check()
}

// Join is the path of a file inside the folder.
func (d Dir) Join(name ...string) string {
	return filepath.Join(append([]string{string(d)}, name...)...)
}

// Kubeconfig is the path of the kubeconfig of the control plane's owner.
func (d Dir) Kubeconfig() string { return d.Join("kubeconfig") }

// Logs is the path of the log folder.
func (d Dir) Logs() string { return d.Join("log") }

// Short is the path for people: with ~ for the home folder.
func (d Dir) Short() string {
	if home, err := os.UserHomeDir(); err == nil {
		if rest, ok := strings.CutPrefix(string(d), home+string(filepath.Separator)); ok {
			return "~/" + rest
		}
	}
	return string(d)
}

// ErrNotOurs is returned for a folder that holds something, but no state.json
// of Berth. Nothing in it may be touched.
var ErrNotOurs = errors.New("is not a Berth data folder")

// State reads state.json. It returns fs.ErrNotExist for a folder that does not
// exist or is empty, ErrNotOurs for one that is someone else's.
func (d Dir) State() (State, error) {
	raw, err := os.ReadFile(d.Join("state.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, d.emptyOrForeign()
	}
	if err != nil {
		return State{}, fmt.Errorf("data folder %s: %w", d, err)
	}
	var s State
	if err := json.Unmarshal(raw, &s); err != nil || s.Kind != kind {
		return State{}, fmt.Errorf("%s %w: its state.json is not Berth's; choose another --dir", d, ErrNotOurs)
	}
	if s.Format > Format {
		return s, fmt.Errorf("data folder %s was written by berth %s (format %d), newer than this program (format %d): "+
			"use that version, or choose another --dir", d, s.Version, s.Format, Format)
	}
	return s, nil
}

// emptyOrForeign tells a folder without state.json that may be used from one
// that may not. A lock file alone is what an interrupted first start leaves.
func (d Dir) emptyOrForeign() error {
	entries, err := os.ReadDir(string(d))
	if errors.Is(err, fs.ErrNotExist) {
		return fs.ErrNotExist
	}
	if err != nil {
		return fmt.Errorf("data folder %s: %w", d, err)
	}
	for _, e := range entries {
		if e.Name() != "lock" && !strings.HasPrefix(e.Name(), "state.json.") {
			return fmt.Errorf("%s %w: it holds %q and no state.json; choose an empty or new folder with --dir", d, ErrNotOurs, e.Name())
		}
	}
	return fs.ErrNotExist
}

// WriteState replaces state.json in one step. Kind and Format are filled in.
func (d Dir) WriteState(s State) error {
	s.Kind, s.Format = kind, Format
	raw, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("write state of %s: %w", d, err)
	}
	return WriteFile(d.Join("state.json"), append(raw, '\n'), 0o600)
}

// WriteFile replaces a file in one step: a temporary file beside it is written,
// synced and renamed, so a reader or a crash sees the old or the new
// content and nothing between.
func WriteFile(path string, data []byte, mode fs.FileMode) error {
	return Replace(path, mode, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// Replace is WriteFile of what write writes.
func Replace(path string, mode fs.FileMode, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	err = write(f)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, errors.Join(err, ignoreMissing(os.Remove(f.Name()))))
	}
	return nil
}

// Purge removes a stopped data folder. It refuses a folder without Berth's
// state.json and one that is held. A folder that does not exist is not an error.
func (d Dir) Purge() error {
	if _, err := d.State(); errors.Is(err, fs.ErrNotExist) {
		return d.removeEmpty()
	} else if errors.Is(err, ErrNotOurs) {
		return fmt.Errorf("purge: %w", err)
	}
	release, err := d.Lock()
	if err != nil {
		return fmt.Errorf("purge: %w", err)
	}
	defer release()
	if err := os.RemoveAll(string(d)); err != nil {
		return fmt.Errorf("purge %s: %w", d, err)
	}
	return nil
}

// Discard removes a folder that its holder has locked but not marked: one that
// a refused start has made. Anything else stays.
func (d Dir) Discard() {
	if _, err := d.State(); errors.Is(err, fs.ErrNotExist) {
		_ = d.removeEmpty() // what stays is empty, and the next start takes it
	}
}

// removeEmpty removes what an interrupted first start left: the lock file.
func (d Dir) removeEmpty() error {
	if _, err := os.Stat(string(d)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := errors.Join(ignoreMissing(os.Remove(d.Join("lock"))), os.Remove(string(d))); err != nil {
		return fmt.Errorf("purge %s: %w", d, err)
	}
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
