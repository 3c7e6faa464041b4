package datadir_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"berth.dev/berth/internal/datadir"
)

// TestMain lets the test binary stand for another process that holds a folder.
func TestMain(m *testing.M) {
	if dir := os.Getenv("HOLD"); dir != "" {
		if _, err := datadir.Dir(dir).Lock(); err != nil {
			os.Exit(1)
		}
		fmt.Println("held")
		_, _ = os.Stdin.Read(make([]byte, 1)) // until the parent ends it
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// hold holds dir in another process until the test ends, and returns its pid.
func hold(t *testing.T, dir datadir.Dir) int {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "HOLD="+string(dir))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(in.Close(), cmd.Wait()) })
	if n, err := out.Read(make([]byte, 5)); n == 0 {
		t.Fatalf("the other process did not take the folder: %v", err)
	}
	return cmd.Process.Pid
}

func TestAFolderIsHeldByOneProcess(t *testing.T) {
	dir := datadir.Dir(filepath.Join(t.TempDir(), "new", "folder"))
	if _, held, err := dir.Holder(); held || err != nil {
		t.Fatalf("Holder() of a folder that does not exist = %v, %v; want not held", held, err)
	}
	pid := hold(t, dir)
	var h *datadir.HeldError
	if _, err := dir.Lock(); !errors.As(err, &h) || h.PID != pid {
		t.Errorf("Lock() of a held folder = %v; want a HeldError with pid %d", err, pid)
	}
	if got, held, err := dir.Holder(); got != pid || !held || err != nil {
		t.Errorf("Holder() = %d, %v, %v; want %d, held", got, held, err, pid)
	}
	if err := dir.WriteState(datadir.State{}); err != nil {
		t.Fatal(err)
	}
	if err := dir.Purge(); !errors.As(err, &h) {
		t.Errorf("Purge() of a held folder = %v; want it refused", err)
	}
}

func TestTheLockEndsWithItsRelease(t *testing.T) {
	dir := datadir.Dir(t.TempDir())
	release, err := dir.Lock()
	if err != nil {
		t.Fatal(err)
	}
	release()
	if _, held, err := dir.Holder(); held || err != nil {
		t.Errorf("Holder() after release = %v, %v; want not held", held, err)
	}
}

func TestStateSaysWhoseAFolderIs(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		is    error  // nil is not checked
		says  string // part of the message
	}{
		{name: "a folder that is not there is new", is: fs.ErrNotExist},
		{name: "a folder with a lock alone is what an interrupted start left", files: map[string]string{"lock": "1"}, is: fs.ErrNotExist},
		{name: "a folder with something else is somebody's", files: map[string]string{"thesis.tex": "x"}, is: datadir.ErrNotOurs, says: `holds "thesis.tex"`},
		{name: "a state.json of another program is somebody's", files: map[string]string{"state.json": `{"kind":"x"}`}, is: datadir.ErrNotOurs},
		{name: "a state.json that is no JSON is somebody's", files: map[string]string{"state.json": "{"}, is: datadir.ErrNotOurs},
		{
			name: "a newer format is refused by version", files: map[string]string{"state.json": `{"kind":"berth data folder","format":99,"version":"9.1.0"}`},
			says: "written by berth 9.1.0 (format 99), newer than this program",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := datadir.Dir(filepath.Join(t.TempDir(), "d"))
			for name, text := range c.files {
				if err := os.MkdirAll(string(dir), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(dir.Join(name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			_, err := dir.State()
			if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("State() = %v; want %v with %q", err, c.is, c.says)
			}
			if !errors.Is(err, datadir.ErrNotOurs) {
				return
			}
			if err := dir.Purge(); !errors.Is(err, datadir.ErrNotOurs) {
				t.Errorf("Purge() = %v; want it refused", err)
			}
			for name := range c.files {
				if _, err := os.Stat(dir.Join(name)); err != nil {
					t.Errorf("Purge() touched %s: %v", name, err)
				}
			}
		})
	}
}

func TestStateIsReadAsItWasWritten(t *testing.T) {
	dir := datadir.Dir(t.TempDir())
	if err := dir.WriteState(datadir.State{Port: 1234, Fleet: "lab"}); err != nil {
		t.Fatal(err)
	}
	if s, err := dir.State(); err != nil || s.Port != 1234 || s.Fleet != "lab" || s.Format != datadir.Format {
		t.Errorf("State() = %+v, %v; want port 1234, fleet lab, format %d", s, err, datadir.Format)
	}
	left, _ := filepath.Glob(dir.Join("state.json.*"))
	if len(left) > 0 {
		t.Errorf("WriteState left %v behind", left)
	}
	if err := dir.Purge(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(string(dir)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Purge() the folder is still there: %v", err)
	}
}

func TestDiscardRemovesOnlyAnUnmarkedFolder(t *testing.T) {
	dir := datadir.Dir(filepath.Join(t.TempDir(), "d"))
	release, err := dir.Lock()
	if err != nil {
		t.Fatal(err)
	}
	release()
	dir.Discard()
	if _, err := os.Stat(string(dir)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an unmarked folder is still there: %v", err)
	}
	if err := os.MkdirAll(string(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := dir.WriteState(datadir.State{}); err != nil {
		t.Fatal(err)
	}
	dir.Discard()
	if _, err := dir.State(); err != nil {
		t.Errorf("a marked folder is gone: %v", err)
	}
}
