package fetch

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// own is the folder, below that of the model, with the files that are not complete and the record of those that are.
const own = ".berth-fetch"

const recordFile = own + "/done"

// folder is where a model is downloaded to. Nothing is written outside of it, whatever the names of files and the links in it are.
type folder struct {
	root *os.Root
	src  string

	mu   sync.Mutex
	done map[string]record // guarded by mu; by path at the source
}

// record is one file of a source that is complete.
type record struct {
	Source string  `json:"source"`
	Path   string  `json:"path"`
	Tag    string  `json:"tag"`
	Files  []entry `json:"files"` // what was made of it: itself, or what was in the archive
}

// entry is a file of the model.
type entry struct {
	Path string `json:"path"`
	Size int64  `json:"size"`
}

// openFolder makes dir and reads what an earlier download has left there.
func openFolder(dir, src string) (*folder, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // the server, under another user, reads the model
		return nil, fmt.Errorf("make the folder of the model: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the folder of the model: %w", err)
	}
	f := &folder{root: root, src: src, done: map[string]record{}}
	if err := root.MkdirAll(own, 0o700); err != nil {
		f.close()
		return nil, fmt.Errorf("make the folder of the download: %w", err)
	}
	raw, err := root.ReadFile(recordFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.close()
		return nil, fmt.Errorf("read what was downloaded before: %w", err)
	}
	scan := bufio.NewScanner(bytes.NewReader(raw))
	scan.Buffer(nil, len(raw)+1)
	for scan.Scan() {
		var r record
		if json.Unmarshal(scan.Bytes(), &r) == nil && r.Source == bare(src) { // the last line may be torn
			f.done[r.Path] = r
		}
	}
	return f, nil
}

func (f *folder) close() { _ = f.root.Close() }

// part names the file in which a download is until it is complete.
func (f *folder) part(of string) string {
	sum := sha256.Sum256([]byte(bare(f.src) + "\n" + of))
	return own + "/" + hex.EncodeToString(sum[:12]) + ".part"
}

// version is what is known of the file that a part is of.
type version struct {
	Tag  string `json:"tag"`
	Size int64  `json:"size"`
	Sum  string `json:"sum,omitempty"` // as sum.String writes it
}

// had returns how many bytes of a file are there, and of which version.
func (f *folder) had(of string) (int64, version) {
	var v version
	raw, err := f.root.ReadFile(f.part(of) + ".of")
	if err != nil || json.Unmarshal(raw, &v) != nil {
		return 0, version{}
	}
	info, err := f.root.Stat(f.part(of))
	if err != nil || !info.Mode().IsRegular() {
		return 0, version{}
	}
	return info.Size(), v
}

// begin opens the part of a file, to go on after from bytes of this version.
func (f *folder) begin(of string, from int64, v version) (*os.File, error) {
	name := f.part(of)
	if from == 0 { // what is there is of another version until the new one is noted
		if err := f.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		raw, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		if err := f.root.WriteFile(name+".of", raw, 0o600); err != nil {
			return nil, err
		}
	}
	part, err := f.root.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := part.Truncate(from); err != nil {
		_ = part.Close()
		return nil, err
	}
	if _, err := part.Seek(from, 0); err != nil {
		_ = part.Close()
		return nil, err
	}
	return part, nil
}

// drop forgets what is there of a file.
func (f *folder) drop(of string) {
	_ = f.root.Remove(f.part(of))
	_ = f.root.Remove(f.part(of) + ".of")
}

// place moves a file from below own to its name in the model.
func (f *folder) place(from, to string, mode fs.FileMode) error {
	if dir := path.Dir(to); dir != "." {
		if err := f.root.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make folder %s of the model: %w", dir, err)
		}
	}
	if err := f.root.Chmod(from, mode); err != nil {
		return fmt.Errorf("let others read %s: %w", to, err)
	}
	if err := f.root.Rename(from, to); err != nil {
		return fmt.Errorf("give file %s of the model its name: %w", to, err)
	}
	return nil
}

// complete records a file that is complete.
func (f *folder) complete(r record) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	r.Source = bare(f.src)
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	out, err := f.root.OpenFile(recordFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("record %s: %w", r.Path, err)
	}
	// A line that a kill has torn ends here.
	if _, err := out.Write(append(append([]byte("\n"), raw...), '\n')); err != nil {
		_ = out.Close()
		return fmt.Errorf("record %s: %w", r.Path, err)
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("record %s: %w", r.Path, err)
	}
	f.done[r.Path] = r
	return nil
}

// whole returns the record of a file that is there as it was recorded; ok is false if it is not.
func (f *folder) whole(of string) (r record, ok bool) {
	f.mu.Lock()
	r, ok = f.done[of]
	f.mu.Unlock()
	for _, e := range r.Files {
		info, err := f.root.Lstat(e.Path)
		ok = ok && err == nil && info.Mode().IsRegular() && info.Size() == e.Size
	}
	return r, ok && len(r.Files) > 0
}

// finish removes what an earlier version of the source had and this one does not, and returns what there is.
func (f *folder) finish(files []file) (*Result, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out, now := &Result{}, map[string]bool{}
	for i := range files {
		for _, e := range f.done[files[i].path].Files {
			now[e.Path] = true
			out.Files, out.Bytes = append(out.Files, e.Path), out.Bytes+e.Size
		}
	}
	for _, r := range f.done {
		for _, e := range r.Files {
			if !now[e.Path] {
				_ = f.root.Remove(e.Path) // it was Fetch that wrote it
			}
		}
	}
	slices.Sort(out.Files)
	list, err := fs.ReadDir(f.root.FS(), own)
	if err != nil {
		return nil, fmt.Errorf("read the folder of the download: %w", err)
	}
	for _, e := range list {
		if name := own + "/" + e.Name(); name != recordFile {
			_ = f.root.RemoveAll(name)
		}
	}
	return out, nil
}

// checkPath refuses names of files that would be outside of the folder, or in the way of a download.
func checkPath(p string) error {
	first, _, _ := strings.Cut(p, "/")
	switch {
	case p == "" || strings.HasSuffix(p, "/"):
		return fmt.Errorf("a file has no name")
	case !filepath.IsLocal(filepath.FromSlash(p)) || path.Clean(p) != p || strings.ContainsAny(p, "\x00\\"):
		return fmt.Errorf("file %q would be outside of the model's folder, or has a name that not all systems have; rename it", short(p))
	case first == own:
		return fmt.Errorf("file %q has the name of the folder that downloads use; rename it", short(p))
	case len(p) > 1024:
		return fmt.Errorf("file %q has a name that is too long; rename it", short(p))
	}
	return nil
}

// written says what to do about an error of the disk.
func written(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w; give the volume or the node more room", err)
	}
	return err
}
