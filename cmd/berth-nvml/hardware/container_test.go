//go:build hardware && cgo && linux

package hardware_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tags.cncf.io/container-device-interface/specs-go"

	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/cmd/berth-nvml/hardware"
)

// hook returns the program of the NVIDIA Container Toolkit that our specification is to name.
func hook(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"nvidia-cdi-hook", "nvidia-ctk"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("not run: neither nvidia-cdi-hook nor nvidia-ctk is on the PATH: install the NVIDIA Container Toolkit")
	return ""
}

// specification is what the agent would write with the hook that is here.
func specification(t *testing.T) *specs.Spec {
	t.Helper()
	args := []string{program(t), "--hook", hook(t)}
	if root := os.Getenv("BERTH_DRIVER_ROOT"); root != "" {
		args = append(args, "--driver-root", root, "--host-driver-root", root)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c := nvml.Start(ctx, nvml.Options{Command: args})
	t.Cleanup(func() { cancel(); c.Wait() })
	snapshot(t, c)
	data, err := c.CDI(t.Context())
	if err != nil {
		t.Fatalf("CDI: %v", err)
	}
	spec := &specs.Spec{}
	if err := json.Unmarshal(data, spec); err != nil {
		t.Fatal(err)
	}
	return spec
}

// TestHooks wants the programs that the specification has run to be there.
func TestHooks(t *testing.T) {
	found := hardware.Hooks(specification(t))
	if len(found) == 0 {
		t.Error("the specification has no hooks: nothing would make the driver's libraries known to the container's loader")
	}
	for path, err := range found {
		t.Logf("%s: %v", path, err)
		if err != nil {
			t.Errorf("the specification has %s run: %v", path, err)
		}
	}
}

// TestContainer starts a container with the last device of our specification, in which NVML
// has to show that GPU and no other.
func TestContainer(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("not run: a container with devices needs root")
	}
	runc, err := exec.LookPath("runc")
	if err != nil {
		t.Skip("not run: there is no runc on the PATH")
	}
	spec := specification(t)
	for _, err := range hardware.Hooks(spec) {
		if err != nil {
			t.Fatalf("the container cannot start: %v", err)
		}
	}
	want := spec.Devices[len(spec.Devices)-1].Name
	dir, id := t.TempDir(), fmt.Sprintf("berth-hardware-%d", os.Getpid())
	var env []string
	if state := os.Getenv("NVML_STATE"); state != "" { // for the test of this test
		env = []string{"NVML_STATE=" + state}
	}
	if err := hardware.Bundle(dir, program(t), "/"+id, spec, want, env); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer // of runc and its hooks
	ctx, cancel := context.WithCancel(t.Context())
	c := nvml.Start(ctx, nvml.Options{
		Command: []string{runc, "--root", filepath.Join(dir, "runc"), "run", "--bundle", dir, id},
		Timeout: 30 * time.Second, Backoff: time.Minute, Log: slog.New(slog.NewTextHandler(&said, nil)),
	})
	t.Cleanup(func() {
		cancel()
		c.Wait()
		if out, err := exec.Command(runc, "--root", filepath.Join(dir, "runc"), "delete", "--force", id).CombinedOutput(); err != nil {
			t.Errorf("delete the container: %v: %s", err, out)
		}
	})
	s, err := c.Snapshot(t.Context())
	if err != nil || s.Failed != "" {
		cancel()
		c.Wait()
		t.Fatalf("NVML in the container: %v %s\n%s", err, s.Failed, said.String())
	}
	var seen []string
	for _, g := range s.GPUs {
		if len(g.MIG) == 0 {
			seen = append(seen, g.UUID)
		}
		for _, m := range g.MIG {
			seen = append(seen, m.UUID)
		}
	}
	t.Logf("a container with %s sees %v, driver %s", want, seen, s.Driver)
	if strings.Join(seen, " ") != want {
		t.Errorf("a container with %s sees %v", want, seen)
	}
	inside(t, runc, dir, id, spec)
}

// inside looks at what the hooks have made in the container, while it runs.
func inside(t *testing.T, runc, dir, id string, spec *specs.Spec) {
	t.Helper()
	out, err := exec.Command(runc, "--root", filepath.Join(dir, "runc"), "state", id).Output()
	var state struct{ PID int }
	if err == nil {
		err = json.Unmarshal(out, &state)
	}
	if err != nil || state.PID == 0 {
		t.Fatalf("runc state: %v: %s", err, out)
	}
	root := fmt.Sprintf("/proc/%d/root", state.PID)
	links := hardware.Links(spec)
	for path, target := range links {
		if got, err := os.Readlink(filepath.Join(root, path)); err != nil || got != target {
			t.Errorf("in the container %s points to %q, %v; a hook has to point it to %s", path, got, err, target)
		}
	}
	cache, err := os.ReadFile(filepath.Join(root, "etc/ld.so.cache"))
	if err != nil || !bytes.Contains(cache, []byte("libnvidia-ml.so.1")) {
		t.Errorf("in the container the loader's cache, of %d bytes (%v), does not name libnvidia-ml.so.1; a hook has to run ldconfig", len(cache), err)
	}
	t.Logf("%d links are as the hooks have to make them, and the loader's cache has %d bytes", len(links), len(cache))
}
