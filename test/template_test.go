package test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// templates are data folders of control planes that were started, came to rest, and were stopped, by the
// fleet and the scheduler that they have. `up` of a script begins with a copy of one: the first 20 seconds of a
// control plane that has all its objects take 2.6 s of CPU, those of a new one 5.0 (2026-11-28). The first script that
// asks for a fleet has a new one, as have those that say so (`up -new`), and those with other flags.
type templates struct {
	dir  string
	mu   sync.Mutex
	made map[string]*template
}

type template struct {
	uses int
	once sync.Once
	dir  string // "" is that it could not be made
}

// newTemplates makes the place of the templates of a test.
func newTemplates(t *testing.T) *templates {
	m := &templates{dir: t.TempDir(), made: map[string]*template{}}
	end := func() {
		folders, _ := filepath.Glob(filepath.Join(m.dir, "*", "state.json"))
		for _, state := range folders {
			_ = exec.Command(program("berth"), "down", "--purge", "--dir", filepath.Dir(state)).Run()
		}
	}
	t.Cleanup(onInterrupt(end))
	t.Cleanup(end)
	return m
}

// lay lays a copy of a template into dir, if there is one for the flags of `berth up`.
func (m *templates) lay(ts *testscript.TestScript, dir, fleet string, flags []string) {
	shared := fleet == "lab" || fleet == "default" || strings.HasPrefix(fleet, ts.Getenv("FLEETS"))
	if !shared || len(flags) != 2 || flags[0] != "--scheduler" {
		return
	}
	name := strings.TrimSuffix(filepath.Base(fleet), ".yaml") + "-" + flags[1]
	m.mu.Lock()
	t := m.made[name]
	if t == nil {
		t = &template{}
		m.made[name] = t
	}
	t.uses++
	first := t.uses == 1
	m.mu.Unlock()
	if first {
		return
	}
	t.once.Do(func() { t.dir = m.make(ts, name, fleet, flags) })
	if t.dir != "" {
		ts.Check(copyFolder(t.dir, dir))
	}
}

// make makes a template. One that cannot be made is none: then scripts have new control planes.
func (m *templates) make(ts *testscript.TestScript, name, fleet string, flags []string) string {
	const rest, most = 2 * time.Second, 20 * time.Second // without a write
	dir := filepath.Join(m.dir, name)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	line := append([]string{"berth", "up", "--detach", "--dir", dir, "--fleet", fleet}, flags...)
	if out, err := command(ctx, ts, line).CombinedOutput(); err != nil {
		ts.Logf("no template: %v\n%s", err, out)
		return ""
	}
	defer forgetWrites(dir)
	if w := writesIn(filepath.Join(dir, "etcd.sock")); w != nil {
		for end := time.Now().Add(most); time.Now().Before(end) && w.after(w.number(), rest); {
		}
	}
	if out, err := command(ctx, ts, []string{"berth", "down", "--dir", dir}).CombinedOutput(); err != nil {
		ts.Logf("no template: %v\n%s", err, out)
		return ""
	}
	for _, own := range []string{"ledger", "metrics", "log"} { // a script's begin with it
		ts.Check(os.RemoveAll(filepath.Join(dir, own)))
	}
	return dir
}

// copyFolder copies the folders and plain files of a folder. Blocks of zeros, of which the log of etcd has tens of MB, stay holes.
func copyFolder(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		case d.Type().IsRegular():
			return copySparse(path, filepath.Join(to, rel))
		}
		return nil
	})
}

func copySparse(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	block, zero := make([]byte, 64<<10), make([]byte, 64<<10)
	for at := int64(0); ; {
		n, end := io.ReadFull(in, block)
		if n > 0 && !bytes.Equal(block[:n], zero[:n]) {
			if _, err := out.WriteAt(block[:n], at); err != nil {
				return err
			}
		}
		at += int64(n)
		if errors.Is(end, io.EOF) || errors.Is(end, io.ErrUnexpectedEOF) {
			return out.Truncate(at)
		} else if end != nil {
			return end
		}
	}
}
