package main_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"tags.cncf.io/container-device-interface/specs-go"

	"berth.dev/berth/cmd/berth-nvml/fakelib"
)

// driverFiles makes the library's folder a driver root: libraries of the
// driver's version, a program, and device nodes, which need root.
func driverFiles(t *testing.T, lib fakelib.Lib, nodes ...string) {
	t.Helper()
	for _, name := range []string{"usr/lib64/libcuda.so.570.124.06", "usr/lib64/libnvidia-ptxjitcompiler.so.570.124.06", "usr/bin/nvidia-smi"} {
		path := filepath.Join(lib.Root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, link := range []string{"libcuda.so.1", "libcuda.so"} {
		if err := os.Symlink("libcuda.so.570.124.06", filepath.Join(lib.Dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for i, name := range nodes {
		path := filepath.Join(lib.Root, "dev", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mknod(path, syscall.S_IFCHR|0o666, 195<<8|i); err != nil {
			t.Skipf("skipped: device nodes need root: %v", err)
		}
	}
}

// TestCDI wants common edits and one device for each GPU, named by UUID, with
// the paths that the host has.
func TestCDI(t *testing.T) {
	t.Parallel()
	lib := fakelib.Build(t)
	// The generator takes no other form of UUID.
	const first, second = "GPU-11111111-0000-0000-0000-000000000000", "GPU-22222222-0000-0000-0000-000000000000"
	lib.Write(t, "driver 570.124.06 12080", "gpu uuid="+first+" name=NVIDIA_H200 bus=00000000:1A:00.0", "gpu uuid="+second+" name=NVIDIA_H200 bus=00000000:1B:00.0")
	driverFiles(t, lib, "nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm")
	c := start(t, lib, patience, "--driver-root", lib.Root, "--host-driver-root", "/run/nvidia/driver", "--hook", "/usr/bin/nvidia-ctk")
	snapshot(t, c)
	data, err := c.CDI(t.Context())
	if err != nil {
		t.Fatalf("CDI: %v", err)
	}
	var spec specs.Spec
	if err := json.Unmarshal(data, &spec); err != nil {
		t.Fatalf("CDI gives no specification: %v\n%s", err, data)
	}
	var names []string
	for _, d := range spec.Devices {
		names = append(names, d.Name)
	}
	if want := []string{first, second}; !slices.Equal(names, want) {
		t.Errorf("devices %v, want %v", names, want)
	}
	if n := spec.Devices[1].ContainerEdits.DeviceNodes; len(n) != 1 || n[0].Path != "/dev/nvidia1" || n[0].HostPath != "/run/nvidia/driver/dev/nvidia1" && n[0].HostPath != "/dev/nvidia1" {
		t.Errorf("device nodes of the second GPU: %+v, want /dev/nvidia1 alone", n)
	}
	common := spec.ContainerEdits
	has := func(what, path string, in func() []string) {
		t.Helper()
		if got := in(); !slices.Contains(got, path) {
			t.Errorf("%s: %v, want %s among them", what, got, path)
		}
	}
	has("mounts", "/run/nvidia/driver/usr/lib64/libcuda.so.570.124.06", func() (out []string) {
		for _, m := range common.Mounts {
			out = append(out, m.HostPath)
		}
		return out
	})
	has("hooks", "/usr/bin/nvidia-ctk", func() (out []string) {
		for _, h := range common.Hooks {
			out = append(out, h.Path)
		}
		return out
	})
	has("variables", "NVIDIA_VISIBLE_DEVICES=void", func() []string { return common.Env })
	if strings.Contains(string(data), lib.Root) {
		t.Errorf("the specification names paths of this process, under %s:\n%s", lib.Root, data)
	}
}

// TestCDIWithoutDriverFiles says what is missing.
func TestCDIWithoutDriverFiles(t *testing.T) {
	t.Parallel()
	lib := fakelib.Build(t)
	lib.Write(t, fakelib.Node(1)...)
	c := start(t, lib, patience, "--driver-root", lib.Root)
	snapshot(t, c)
	if data, err := c.CDI(t.Context()); err == nil || !strings.Contains(err.Error(), lib.Root) {
		t.Errorf("CDI without the driver's files = %s, %v, want an error that names %s", data, err, lib.Root)
	}
	if c.Restarts() != 0 {
		t.Error("the child ended")
	}
}

// TestCDIOfOldDrivers asks for CDI of drivers that lack every second function:
// the generator does not look functions up itself.
func TestCDIOfOldDrivers(t *testing.T) {
	t.Parallel()
	needed := []string{"nvmlInit_v2", "nvmlShutdown", "nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetName", "nvmlDeviceGetMemoryInfo_v2"}
	generator := []string{"nvmlDeviceGetHandleByUUID", "nvmlDeviceGetIndex", "nvmlDeviceGetUUID", "nvmlDeviceGetMinorNumber", "nvmlDeviceIsMigDeviceHandle", "nvmlDeviceGetPciInfo_v3", "nvmlSystemGetDriverVersion"}
	mig := []string{"nvmlDeviceGetMigMode", "nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex"}
	for name, keep := range map[string][]string{
		"nothing but what the generator needs of GPUs": slices.Concat(needed, generator),
		"and what finds MIG devices":                   slices.Concat(needed, generator, mig),
		"less than the generator needs":                slices.Concat(needed, generator[1:]),
	} {
		var without []string
		for _, s := range fakelib.Symbols(t) {
			if !slices.Contains(keep, s) {
				without = append(without, s)
			}
		}
		lib := fakelib.Build(t, without...)
		const uuid = "GPU-11111111-0000-0000-0000-000000000000"
		lib.Write(t, "driver 570.124.06 12080", "gpu mig=1 uuid="+uuid+" name=NVIDIA_H200 bus=00000000:1A:00.0", "mig gpu=0 uuid=MIG-22222222-0000-0000-0000-000000000000 gi=1 profile=9 start=0")
		driverFiles(t, lib, "nvidia0", "nvidiactl", "nvidia-uvm")
		c := start(t, lib, patience, "--driver-root", lib.Root)
		snapshot(t, c)
		data, err := c.CDI(t.Context())
		if given := strings.Contains(string(data), uuid); given != slices.Contains(keep, generator[0]) {
			t.Errorf("a driver with %s: CDI = %s, %v", name, data, err)
		}
		if c.Restarts() != 0 {
			t.Errorf("a driver with %s: the child ended", name)
		}
	}
}
