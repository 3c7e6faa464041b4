package main_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/cmd/berth-nvml/fakelib"
)

// program is the program as it ships, built by the script that builds it for
// users; "" where there is no C compiler.
var program string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "berth-nvml")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		if _, err := exec.LookPath("cc"); err != nil || runtime.GOOS != "linux" {
			fmt.Println("skipped: berth-nvml with NVML needs Linux and a C compiler (cc)")
			return 0
		}
		program = filepath.Join(dir, "berth-nvml")
		build := exec.Command("sh", "../../tools/nvml.sh", "-s -w", program)
		build.Stdout, build.Stderr = os.Stderr, os.Stderr
		if err := build.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "tools/nvml.sh:", err)
			return 1
		}
		return m.Run()
	}())
}

// start runs the program with the stand-in for the driver's library, as the
// agent does. A call that takes longer than timeout ends it. It can write no temporary
// files, as in the agent's container.
func start(t *testing.T, lib fakelib.Lib, timeout time.Duration, args ...string) *nvml.Client {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := nvml.Start(ctx, nvml.Options{
		Command: append([]string{program}, args...), Env: append(append(os.Environ(), lib.Env()...), "TMPDIR=/dev/null"),
		Timeout: timeout, Backoff: 10 * time.Millisecond,
	})
	t.Cleanup(func() { cancel(); c.Wait() })
	return c
}

// snapshot asks what there is, and fails the test where nothing is.
func snapshot(t *testing.T, c *nvml.Client) nvml.Snapshot {
	t.Helper()
	s, err := c.Snapshot(t.Context())
	if err != nil || s.Failed != "" {
		t.Fatalf("Snapshot() = %q, %v, want GPUs", s.Failed, err)
	}
	return s
}

// samples returns what each device shows, by its UUID.
func samples(t *testing.T, c *nvml.Client) map[string]nvml.Sample {
	t.Helper()
	list, err := c.Samples(t.Context())
	if err != nil {
		t.Fatalf("Samples: %v", err)
	}
	out := map[string]nvml.Sample{}
	for _, s := range list {
		out[s.UUID] = s
	}
	return out
}

// event waits for the next event, and answers the zero one when none comes.
func event(c *nvml.Client) nvml.Event {
	select {
	case e := <-c.Events():
		e.At = time.Time{}
		return e
	case <-time.After(3 * patience):
		return nvml.Event{}
	}
}

// aged lets GPM's samples of some devices grow older than the 100 ms that two have to
// be apart, by asking until they are. Each device's have an age of their own.
func aged(t *testing.T, c *nvml.Client, uuids ...string) map[string]nvml.Sample {
	t.Helper()
	for end := time.Now().Add(3 * patience); ; {
		s := samples(t, c)
		young := slices.DeleteFunc(slices.Clone(uuids), func(uuid string) bool { return !slices.Contains(s[uuid].Absent, "TensorActiveRatio") })
		if len(young) == 0 {
			return s
		}
		if time.Now().After(end) {
			t.Fatalf("no GPM values of %v", young)
		}
	}
}
