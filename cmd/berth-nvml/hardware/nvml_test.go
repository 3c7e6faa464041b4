//go:build hardware && cgo && linux

package hardware_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/cmd/berth-nvml/hardware"
	"berth.dev/berth/cmd/berth-nvml/real"
	"berth.dev/berth/core/gpu"
)

// library loads NVML in this process, beside the child.
func library(t *testing.T) *real.Library {
	t.Helper()
	l := real.New(real.Options{Log: os.Stderr})
	if err := l.Init(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Shutdown() })
	return l
}

func first(t *testing.T, l *real.Library) nvml.Device {
	t.Helper()
	d, err := l.Device(0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.UUID(); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestFunctions lists which functions that not every driver has this one has.
func TestFunctions(t *testing.T) {
	lib := gonvml.New()
	if ret := lib.Init(); ret != gonvml.SUCCESS {
		t.Fatalf("Init: %d", ret)
	}
	defer lib.Shutdown()
	for _, s := range []string{
		"nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetPciInfoExt", "nvmlDeviceGetGpuFabricInfoV", "nvmlDeviceGetCurrentClocksEventReasons",
		"nvmlGpmQueryDeviceSupport", "nvmlGpmMigSampleGet", "nvmlDeviceSetMemoryLimits_v1", "nvmlDeviceGetMemoryLimits_v1",
		"nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetTemperatureV", "nvmlDeviceGetGpuInstanceProfileInfoV", "nvmlEventSetWait_v3",
	} {
		t.Logf("%-45s %v", s, lib.Extensions().LookupSymbol(s) == nil)
	}
}

// TestGPMUnits asks the driver for name and unit of the GPM metrics that the
// agent uses: percent and MiB a second, by the numbers of nvml.h.
func TestGPMUnits(t *testing.T) {
	lib := gonvml.New()
	if ret := lib.Init(); ret != gonvml.SUCCESS {
		t.Fatalf("Init: %d", ret)
	}
	defer lib.Shutdown()
	d, ret := lib.DeviceGetHandleByIndex(0)
	if ret != gonvml.SUCCESS {
		t.Fatalf("GPU 0: %d", ret)
	}
	if s, ret := d.GpmQueryDeviceSupport(); ret != gonvml.SUCCESS || s.IsSupportedDevice == 0 {
		t.Skip("skipped: this GPU has no GPM (Hopper and newer have)")
	}
	var samples [2]gonvml.GpmSample
	for i := range samples {
		if samples[i], ret = lib.GpmSampleAlloc(); ret != gonvml.SUCCESS {
			t.Fatalf("GpmSampleAlloc: %d", ret)
		}
		defer samples[i].Free()
		if ret := d.GpmSampleGet(samples[i]); ret != gonvml.SUCCESS {
			t.Fatalf("GpmSampleGet: %d", ret)
		}
		time.Sleep(200 * time.Millisecond)
	}
	want := map[int]string{nvml.GPMGraphics: "%", nvml.GPMTensor: "%", nvml.GPMDRAM: "%", nvml.GPMPCIeTx: "MiB", nvml.GPMPCIeRx: "MiB", nvml.GPMNVLinkRx: "MiB", nvml.GPMNVLinkTx: "MiB"}
	q := gonvml.GpmMetricsGetType{Sample1: samples[0], Sample2: samples[1]}
	var ids []int
	for id := range want {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		q.Metrics[q.NumMetrics].MetricId = uint32(id)
		q.NumMetrics++
	}
	if ret := lib.GpmMetricsGet(&q); ret != gonvml.SUCCESS {
		t.Fatalf("GpmMetricsGet: %d", ret)
	}
	for i, id := range ids {
		m := q.Metrics[i]
		unit := text(m.MetricInfo.Unit)
		t.Logf("GPM %d: %q %q %q = %v (code %d)", id, text(m.MetricInfo.ShortName), text(m.MetricInfo.LongName), unit, m.Value, m.NvmlReturn)
		if unit != "" && !strings.Contains(unit, want[id]) {
			t.Errorf("GPM %d is in %q, want %s", id, unit, want[id])
		}
	}
}

// text reads a C string; nil is "".
func text(p *int8) string {
	var out []byte
	for at := unsafe.Pointer(p); p != nil && *(*byte)(at) != 0; at = unsafe.Add(at, 1) {
		out = append(out, *(*byte)(at))
	}
	return string(out)
}

// TestMIGTables compares the driver's profiles and placements with the catalog
// that fake GPUs are made of.
func TestMIGTables(t *testing.T) {
	s := snapshot(t, start(t))
	g := s.GPUs[0]
	if !g.MIGCapable {
		t.Skip("skipped: this GPU has no MIG")
	}
	for _, p := range g.Profiles {
		t.Logf("%+v", p)
	}
	product, known := gpu.Find(g.Product)
	if !known {
		t.Skipf("%s is not in the catalogue: add the lines above", g.Product)
	}
	for _, want := range product.Profiles {
		i := slices.IndexFunc(g.Profiles, func(p gpu.Profile) bool { return p.ID == want.ID })
		if i < 0 {
			t.Errorf("the driver has no profile %d (%s)", want.ID, want.Name)
			continue
		}
		got := g.Profiles[i]
		if got.Name != want.Name || got.Slices != want.Slices || got.Size != want.Size || got.Max != want.Max || !slices.Equal(got.Placements, want.Placements) {
			t.Errorf("profile %d: %+v, the catalogue has %+v", want.ID, got, want)
		}
		if d := got.MemoryMiB - want.MemoryMiB; d < -512 || d > 512 || got.Multiprocessors != want.Multiprocessors {
			t.Errorf("profile %s: %d MiB and %d multiprocessors, the catalogue has %d and %d", want.Name, got.MemoryMiB, got.Multiprocessors, want.MemoryMiB, want.Multiprocessors)
		}
	}
}

// TestNVLink shows the links and their counters, whose units differ between
// generations.
func TestNVLink(t *testing.T) {
	d := first(t, library(t))
	active := 0
	for i := 0; ; i++ {
		l, err := d.NVLink(i)
		if errors.Is(err, nvml.NotSupported) || errors.Is(err, nvml.InvalidArgument) {
			break
		}
		if err != nil {
			t.Errorf("NVLink(%d): %v", i, err)
			break
		}
		if l.Active {
			active++
			tx, err := d.Field(nvml.FieldNVLinkTx, uint32(i))
			t.Logf("link %d: %+v, sent %d KiB (%v)", i, l, tx, err)
		}
	}
	tx, err1 := d.Field(nvml.FieldNVLinkTx, nvml.AllLinks)
	rx, err2 := d.Field(nvml.FieldNVLinkRx, nvml.AllLinks)
	t.Logf("%d links are active; all: sent %d KiB (%v), received %d KiB (%v)", active, tx, err1, rx, err2)
}

// TestEvents wants Xids among the events that can be had, and a wait that ends.
func TestEvents(t *testing.T) {
	l := library(t)
	d := first(t, l)
	mask, err := d.SupportedEvents()
	if err != nil || mask&nvml.EventXid == 0 {
		t.Errorf("SupportedEvents() = %#x, %v, want Xids", mask, err)
	}
	set, err := l.NewEventSet()
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	if err := set.Register(d, mask&(nvml.EventXid|nvml.EventDoubleBitECC)); err != nil {
		t.Fatal(err)
	}
	if e, err := set.Wait(100 * time.Millisecond); !errors.Is(err, nvml.Timeout) {
		t.Logf("an event came during the wait: %+v, %v", e, err)
	}
}

// TestMemoryLimit bounds a process's GPU memory by its cgroup, where the driver
// offers it.
func TestMemoryLimit(t *testing.T) {
	if part := os.Getenv("BERTH_ALLOCATE"); part != "" { // the bounded process
		bytes, _ := strconv.ParseInt(part, 10, 64)
		if err := hardware.Allocate(0, bytes); err != nil {
			t.Fatal(err)
		}
		return
	}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil {
		t.Skip("skipped: GPU memory limits need cgroup v2")
	}
	d := first(t, library(t))
	group := "/sys/fs/cgroup/berth-hardware"
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Skipf("skipped: no cgroup of our own can be made: %v", err)
	}
	defer os.Remove(group)
	err := d.SetMemoryLimit(group, 2<<30)
	if errors.Is(err, nvml.FunctionNotFound) || errors.Is(err, nvml.NotSupported) {
		t.Skipf("skipped: this driver or GPU has no memory limits: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for bytes, fits := range map[int64]bool{256 << 20: true, 4 << 30: false} {
		in := exec.Command("sh", "-c", `echo $$ >"$1/cgroup.procs" && shift && exec "$@"`, "sh", group, os.Args[0], "-test.run", "TestMemoryLimit")
		in.Env = append(os.Environ(), fmt.Sprintf("BERTH_ALLOCATE=%d", bytes))
		out, err := in.CombinedOutput()
		t.Logf("%d MiB with a limit of 2048 MiB: %v", bytes>>20, err)
		if (err == nil) != fits {
			t.Errorf("%d MiB with a limit of 2048 MiB: %v, want it to fit: %v\n%s", bytes>>20, err, fits, out)
		}
	}
}

// TestCDI wants a device for each GPU, and every file that is mounted to exist.
func TestCDI(t *testing.T) {
	c := start(t)
	s := snapshot(t, c)
	data, err := c.CDI(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	type edits struct {
		DeviceNodes []struct{ Path, HostPath string }
		Mounts      []struct{ HostPath string }
	}
	var spec struct {
		CDIVersion     string
		ContainerEdits edits
		Devices        []struct {
			Name           string
			ContainerEdits edits
		}
	}
	if err := json.Unmarshal(data, &spec); err != nil {
		t.Fatal(err)
	}
	var names, paths []string
	for _, m := range spec.ContainerEdits.Mounts {
		paths = append(paths, m.HostPath)
	}
	for _, d := range spec.Devices {
		names = append(names, d.Name)
		for _, n := range d.ContainerEdits.DeviceNodes {
			paths = append(paths, n.Path)
		}
	}
	t.Logf("CDI %s, %d bytes, %d mounts, devices %v", spec.CDIVersion, len(data), len(spec.ContainerEdits.Mounts), names)
	for _, g := range s.GPUs {
		if !slices.Contains(names, g.UUID) {
			t.Errorf("no device %s", g.UUID)
		}
	}
	for _, path := range paths {
		if _, err := os.Stat(filepath.Clean(path)); err != nil {
			t.Errorf("the specification names %s: %v", path, err)
		}
	}
}
