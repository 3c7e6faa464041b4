package test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// stranger is the number of an account that has nothing to do with the one that runs
// `berth up`: nobody's on most systems.
const stranger = 65534

// strangerVariable has this test binary try, as the account that runs it, to reach
// the paths on its standard input, one a line, and say which it could.
const strangerVariable = "BERTH_TEST_STRANGER"

// TestMain is that other account's program where strangerVariable is set.
func TestMain(m *testing.M) {
	if os.Getenv(strangerVariable) == "" {
		followSignals()
		os.Exit(m.Run())
	}
	var in bytes.Buffer
	if _, err := in.ReadFrom(os.Stdin); err != nil {
		os.Exit(1)
	}
	for path := range strings.Lines(in.String()) {
		path = strings.TrimSpace(path)
		if c, err := net.Dial("unix", path); err == nil {
			c.Close()
			fmt.Println(path, "takes connections")
		}
		if f, err := os.Open(path); err == nil {
			_ = f.Close()
			fmt.Println(path, "can be read")
		}
	}
	os.Exit(0)
}

// as runs a command as another account, and returns what it prints.
func as(t *testing.T, uid uint32, in string, env []string, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // it takes moments, unless it waits for what it may not see
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdin = "/", strings.NewReader(in)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent"}, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestAnotherAccountGetsNothing starts `berth up` in folders that others can enter,
// under masks that keep nothing from them, and lets another account try.
func TestAnotherAccountGetsNothing(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can run a program as another account")
	}
	t.Parallel()
	takeTurn(t)
	work, err := os.MkdirTemp("", "berth-accounts") //nolint:usetesting // the other account must be able to enter it
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	dir := filepath.Join(work, "data")
	programs := filepath.Join(work, "bin") // where the other account may read them
	self := filepath.Join(programs, "test")
	berth := filepath.Join(programs, "berth")
	if err := errors.Join(os.Chmod(work, 0o755), os.Mkdir(programs, 0o755), os.Mkdir(dir, 0o700), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	for path, from := range map[string]string{self: os.Args[0], berth: program("berth")} {
		raw, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(path, raw, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	defer down(t, dir)
	defer onInterrupt(func() { down(t, dir) })()
	for _, umask := range []string{"000", "002"} {
		up := exec.CommandContext(t.Context(), "sh", "-c", "umask "+umask+"; exec "+program("berth")+" up --detach -o json --fleet lab --dir "+dir)
		if out, err := up.CombinedOutput(); err != nil {
			t.Fatalf("berth up: %v\n%s", err, out)
		}
		paths, sockets := everything(t, dir)
		if len(sockets) < 3 {
			t.Errorf("umask %s: it has the sockets %q; want those of the store and of the network", umask, sockets)
		}
		for _, name := range nameless(t, dir) {
			t.Errorf("umask %s: it listens on %q, which has no file: every account can connect", umask, name)
		}
		if got, err := as(t, stranger, strings.Join(paths, "\n"), []string{strangerVariable + "=yes"}, self); err != nil || got != "" {
			t.Errorf("umask %s: another account: %v\n%s", umask, err, got)
		}
		if got, err := as(t, stranger, "", nil, berth, "up", "--dir", dir); err == nil || !strings.Contains(got, "is not this account's alone: it belongs to root (account 0), and this is ") {
			t.Errorf("umask %s: berth up in another account's folder: %v\n%s", umask, err, got)
		}
		down(t, dir)
		// The next one starts in a folder that others may use, with files that they may.
		for _, path := range append(paths, dir) {
			if err := os.Chmod(path, 0o777); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
		}
	}
}

// everything is all files in a folder, and those that are sockets. Each has the modes
// of a file that its owner alone uses.
func everything(t *testing.T, dir string) (paths, sockets []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the running one has removed it
		}
		if err != nil {
			return err
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		if info.Mode()&fs.ModeSocket != 0 {
			sockets = append(sockets, path)
		}
		paths = append(paths, path)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths, sockets
}

// nameless is the unix sockets without a file on which the process that holds a folder
// listens, by their names in /proc/net/unix (see unix(7), abstract): modes of files
// say nothing about them.
func nameless(t *testing.T, dir string) []string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	fds := "/proc/" + strings.TrimSpace(string(raw)) + "/fd"
	entries, err := os.ReadDir(fds)
	if err != nil {
		t.Fatal(err)
	}
	mine := map[string]bool{}
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(fds, e.Name())); err == nil {
			mine[to] = true
		}
	}
	table, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	const listening = "00010000" // __SO_ACCEPTCON
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line)
		if len(f) < 7 || f[3] != listening || !mine["socket:["+f[6]+"]"] {
			continue
		}
		if len(f) < 8 || !strings.HasPrefix(f[7], "/") {
			out = append(out, strings.Join(f[7:], " "))
		}
	}
	return out
}

// down ends a berth up.
func down(t *testing.T, dir string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), program("berth"), "down", "--dir", dir).CombinedOutput(); err != nil {
		t.Errorf("berth down: %v\n%s", err, out)
	}
}
