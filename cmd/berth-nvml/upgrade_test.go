package main_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/cmd/berth-nvml/fakelib"
)

// newer are the lines of a node of two GPUs after an update of its driver. A
// process that has the library of fakelib.Node cannot read them.
func newer() []string {
	return append([]string{"driver 575.57.08 12090"}, fakelib.Node(2)[1:]...)
}

// until asks for snapshots until one is as wanted.
func until(t *testing.T, c *nvml.Client, what string, as func(nvml.Snapshot) bool) nvml.Snapshot {
	t.Helper()
	for end := time.Now().Add(3 * patience); ; {
		s, err := c.Snapshot(t.Context())
		if err == nil && as(s) {
			return s
		}
		if time.Now().After(end) {
			t.Fatalf("no snapshot with %s: the last has driver %s, %d GPUs, %q; %v", what, s.Driver, len(s.GPUs), s.Failed, err)
		}
	}
}

func isNewer(s nvml.Snapshot) bool {
	return s.Failed == "" && s.Driver == "575.57.08" && s.CUDA == "12.9" && len(s.GPUs) == 2
}

// TestUpgrade replaces the driver under a child that reads it: the child ends by
// itself and says why, and the next has the new version, the GPUs and their Xids.
// Its status is not asked for: who writes to it meanwhile has it killed.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	lib := fakelib.Build(t)
	lib.Write(t, fakelib.Node(2)...)
	var said bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	c := nvml.Start(ctx, nvml.Options{
		Command: []string{program}, Env: append(os.Environ(), lib.Env()...), Timeout: patience,
		Backoff: 10 * time.Millisecond, Log: slog.New(slog.NewTextHandler(&said, nil)),
	})
	t.Cleanup(func() { cancel(); c.Wait() })
	if s := snapshot(t, c); s.Driver != "570.124.06" {
		t.Fatalf("driver %s before the update", s.Driver)
	}
	lib.Write(t, newer()...)
	comesBack(t, c, 2)
	until(t, c, "the new driver", isNewer)
	lib.Write(t, append(newer(), "event gpu=1 xid=48")...)
	if got, want := event(c), (nvml.Event{UUID: "GPU-1", Xid: 48, GI: -1, CI: -1}); got != want {
		t.Errorf("event %+v, want %+v", got, want)
	}
	cancel()
	c.Wait() // the log is written no more
	if !strings.Contains(said.String(), nvml.ErrReload.Error()) {
		t.Errorf("the child did not say why it ended:\n%s", said.String())
	}
}

// TestUpgradeOfAnIdleDriver takes the driver away and brings another while the
// child waits: its attempts have the first one's library in memory by then.
func TestUpgradeOfAnIdleDriver(t *testing.T) {
	t.Parallel()
	lib := fakelib.Build(t)
	lib.Write(t, append(fakelib.Node(2), "fail nvmlInit_v2 9")...)
	c := start(t, lib, patience)
	until(t, c, "a driver that is not loaded", func(s nvml.Snapshot) bool { return strings.Contains(s.Failed, "not loaded") })
	lib.Write(t, newer()...)
	until(t, c, "the new driver", isNewer)
	if c.Restarts() == 0 {
		t.Error("the child was not restarted")
	}
}

// TestADriverThatIsInstalledLater brings the library where other systems have
// it, after the child has looked in vain.
func TestADriverThatIsInstalledLater(t *testing.T) {
	t.Parallel()
	lib := fakelib.Build(t)
	lib.Write(t, newer()...)
	root := t.TempDir()
	c := start(t, lib, patience, "--driver-root", root)
	until(t, c, "no library", func(s nvml.Snapshot) bool { return strings.Contains(s.Failed, "NVML library not found") })
	dir := filepath.Join(root, "usr/lib/x86_64-linux-gnu")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(lib.Dir, "libnvidia-ml.so.1"), filepath.Join(dir, "libnvidia-ml.so.1")); err != nil {
		t.Fatal(err)
	}
	until(t, c, "the driver", isNewer)
	if c.Restarts() != 0 {
		t.Errorf("the child was restarted %d times, want 0", c.Restarts())
	}
}
