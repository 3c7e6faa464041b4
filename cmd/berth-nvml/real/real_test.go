//go:build cgo

package real_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/cmd/berth-nvml/fakelib"
	"berth.dev/berth/cmd/berth-nvml/real"
)

// open loads the stand-in in this process. The C library reads its file's name
// from the environment.
func open(t testing.TB, lib fakelib.Lib) *real.Library {
	t.Helper()
	for _, kv := range lib.Env() {
		name, value, _ := strings.Cut(kv, "=")
		t.Setenv(name, value)
	}
	l := real.New(real.Options{DriverRoot: lib.Root})
	if err := l.Init(); err != nil {
		t.Fatalf("Init: %v", err)
	}
	t.Cleanup(func() { _ = l.Shutdown() })
	return l
}

func first(t *testing.T, l *real.Library) nvml.Device {
	t.Helper()
	d, err := l.Device(0)
	if err != nil {
		t.Fatalf("Device(0): %v", err)
	}
	return d
}

func TestGPU(t *testing.T) {
	lib := fakelib.Build(t)
	lib.Write(t, "driver 570.124.06 12080",
		fakelib.GPU(0, "minor=3 memory=143771 used=2048 reserved=600 major=9 cc=0 display=1 cluster=0102030405060708090a0b0c0d0e0f10 clique=4"), fakelib.GPU(1), "link 0 1 18")
	l := open(t, lib)
	type facts struct {
		Driver, UUID, Name, Fabric string
		CUDA, Count, Minor, NUMA   int
		Memory                     nvml.Memory
		PCI                        nvml.PCI
		Nodes                      []string
		Link                       nvml.NVLink
	}
	var got facts
	var errs []error
	collect := func(err error) { errs = append(errs, err) }
	d := first(t, l)
	var err error
	got.Driver, err = l.DriverVersion()
	collect(err)
	got.CUDA, err = l.CUDAVersion()
	collect(err)
	got.Count, err = l.DeviceCount()
	collect(err)
	got.UUID, err = d.UUID()
	collect(err)
	got.Name, err = d.Name()
	collect(err)
	got.Minor, err = d.Minor()
	collect(err)
	got.NUMA, err = d.NUMANode()
	collect(err)
	got.Memory, err = d.Memory()
	collect(err)
	got.PCI, err = d.PCI()
	collect(err)
	got.Nodes, err = d.Nodes()
	collect(err)
	got.Fabric, err = d.Fabric()
	collect(err)
	got.Link, err = d.NVLink(17)
	collect(err)
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	want := facts{
		Driver: "570.124.06", CUDA: 12080, Count: 2, UUID: "GPU-0", Name: "NVIDIA H200", Minor: 3, NUMA: -1,
		Memory: nvml.Memory{Total: 143771 << 20, Used: 2048 << 20, Reserved: 600 << 20},
		PCI:    nvml.PCI{BusID: "00000000:1A:00.0", Class: 0x300, ID: 0x233510de},
		Nodes:  []string{"/dev/nvidia3"},
		Fabric: "01020304-0506-0708-090a-0b0c0d0e0f10.4",
		Link:   nvml.NVLink{Active: true, Remote: "00000000:1B:00.0"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("GPU 0 (-want +got):\n%s", diff)
	}
	if _, err := d.NVLink(18); !errors.Is(err, nvml.InvalidArgument) {
		t.Errorf("NVLink(18) after the last: %v, want %v", err, nvml.InvalidArgument)
	}
}

// TestLackingFunction calls functions that this driver does not have: an error,
// where a plain call would end the process with code 127.
func TestLackingFunction(t *testing.T) {
	lib := fakelib.Build(t, "nvmlDeviceSetMemoryLimits_v1", "nvmlGpmQueryDeviceSupport", "nvmlDeviceGetMigMode", "nvmlDeviceGetGpuFabricInfoV", "nvmlDeviceGetMemoryInfo_v2")
	lib.Write(t, fakelib.Node(1)...)
	d := first(t, open(t, lib))
	calls := map[string]func() error{
		"SetMemoryLimit": func() error { return d.SetMemoryLimit("/sys/fs/cgroup/x", 1<<30) },
		"GPMSupported":   func() error { _, err := d.GPMSupported(); return err },
		"MIGMode":        func() error { _, _, err := d.MIGMode(); return err },
		"Fabric":         func() error { _, err := d.Fabric(); return err },
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, nvml.FunctionNotFound) {
			t.Errorf("%s: %v, want %v", name, err, nvml.FunctionNotFound)
		}
	}
	// The older call knows no reserve.
	if m, err := d.Memory(); err != nil || m.Total != 143771<<20 || m.Reserved != 0 {
		t.Errorf("Memory() = %+v, %v, want the older call's answer", m, err)
	}
}

// TestMeasures asks for values that are read on request; the driver lacks the call of
// one, and does not give another.
func TestMeasures(t *testing.T) {
	lib := fakelib.Build(t, "nvmlDeviceGetPerformanceState")
	lib.Write(t, "driver 570.124.06 12080", fakelib.GPU(0, "fan=40", "ecc=3", "heat=5000000", "smactive=62", "pciekb=700"))
	d := nvml.NewDriver(open(t, lib))
	if s := d.Snapshot(); s.Failed != "" {
		t.Fatal(s.Failed)
	}
	measures := []nvml.Measure{
		"FanPercent", "ECCSingleVolatile", "ThermalViolation", "SMActiveRatio", "PCIeTxThroughput", "PCIeRxThroughput", "PerformanceState", "RetiredSingleBit",
	}
	samples, _, err := d.Samples(time.Now().Add(time.Second), measures...)
	if err != nil || len(samples) != 1 {
		t.Fatalf("Samples = %v, %v", samples, err)
	}
	if diff := cmp.Diff([]float64{40, 3, 5e6, 0.62, 700, 1400, 0, 0}, samples[0].More); diff != "" {
		t.Errorf("measures %v (-want +got):\n%s", measures, diff)
	}
	for _, m := range measures {
		lacks := m == "PerformanceState" || m == "RetiredSingleBit"
		if slices.Contains(samples[0].Absent, string(m)) != lacks {
			t.Errorf("%s: absent %v, want that it is %v", m, samples[0].Absent, lacks)
		}
	}
}

func TestInitSaysWhatToDo(t *testing.T) {
	l := real.New(real.Options{DriverRoot: t.TempDir()})
	err := l.Init()
	if !errors.Is(err, nvml.LibraryNotFound) || !strings.Contains(err.Error(), "install the NVIDIA driver") {
		t.Errorf("Init without a library: %v, want %v and the fix", err, nvml.LibraryNotFound)
	}
	if _, err := l.DeviceCount(); !errors.Is(err, nvml.Uninitialized) {
		t.Errorf("DeviceCount before Init: %v, want %v", err, nvml.Uninitialized)
	}
	for code, want := range map[nvml.Error]string{nvml.DriverNotLoaded: "modprobe nvidia", nvml.LibRMVersionMismatch: "restart the node"} {
		lib := fakelib.Build(t)
		lib.Write(t, "fail nvmlInit_v2 "+strconv.Itoa(int(code)))
		for _, kv := range lib.Env() {
			name, value, _ := strings.Cut(kv, "=")
			t.Setenv(name, value)
		}
		if err := real.New(real.Options{DriverRoot: lib.Root}).Init(); !errors.Is(err, code) || !strings.Contains(err.Error(), want) {
			t.Errorf("Init with code %d: %v, want words on %q", code, err, want)
		}
	}
}

// TestMIG cuts an H200 into 3g and 1g, and removes it all again.
func TestMIG(t *testing.T) {
	lib := fakelib.Build(t)
	lib.Write(t, "driver 570.124.06 12080", fakelib.GPU(0, "mig=1"))
	l := open(t, lib)
	d := first(t, l)
	ids := map[int]int{} // by shape
	for shape := range nvml.GPUInstanceShapes {
		if p, err := d.GPUInstanceProfile(shape); err == nil {
			ids[shape] = p.ID
		} else if !errors.Is(err, nvml.NotSupported) {
			t.Fatalf("GPUInstanceProfile(%d): %v", shape, err)
		}
	}
	if want := map[int]int{0: 19, 1: 14, 2: 9, 3: 5, 4: 0, 7: 20, 9: 15}; !cmp.Equal(ids, want) {
		t.Errorf("profiles by shape %v, want %v", ids, want)
	}
	if p, err := d.Placements(9); err != nil || !slices.Equal(p, []nvml.Placement{{Start: 0, Size: 4}, {Start: 4, Size: 4}}) {
		t.Errorf("Placements(9) = %v, %v, want 0 and 4 of size 4", p, err)
	}
	for _, w := range []struct{ profile, start, size, ciShape int }{{9, 0, 4, 2}, {19, 4, 1, 0}} {
		gi, err := d.CreateGPUInstance(w.profile, nvml.Placement{Start: w.start, Size: w.size})
		if err != nil {
			t.Fatalf("CreateGPUInstance(%d at %d): %v", w.profile, w.start, err)
		}
		p, err := d.ComputeInstanceProfile(gi.ID, w.ciShape)
		if err != nil {
			t.Fatalf("ComputeInstanceProfile(%d, %d): %v", gi.ID, w.ciShape, err)
		}
		if _, err := d.CreateComputeInstance(gi.ID, p.ID); err != nil {
			t.Fatalf("CreateComputeInstance(%d): %v", gi.ID, err)
		}
	}
	if _, err := d.CreateGPUInstance(0, nvml.Placement{Size: 8}); !errors.Is(err, nvml.InsufficientResources) {
		t.Errorf("a 7g beside others: %v, want %v", err, nvml.InsufficientResources)
	}
	m, err := d.MIGDevice(0)
	if err != nil {
		t.Fatalf("MIGDevice(0): %v", err)
	}
	a, err := m.Attributes()
	if err != nil || a.GPUInstanceSlices != 3 || a.MemoryMiB != 71168 {
		t.Errorf("Attributes() = %+v, %v, want 3 slices and 71168 MiB", a, err)
	}
	for _, profile := range []int{9, 19} {
		list, err := d.GPUInstances(profile)
		if err != nil || len(list) != 1 {
			t.Fatalf("GPUInstances(%d) = %v, %v, want one", profile, list, err)
		}
		gi := list[0].ID
		if err := d.DestroyGPUInstance(gi); !errors.Is(err, nvml.InUse) {
			t.Errorf("DestroyGPUInstance(%d) with a compute instance: %v, want %v", gi, err, nvml.InUse)
		}
		if err := d.DestroyComputeInstance(gi, 0); err != nil {
			t.Errorf("DestroyComputeInstance(%d, 0): %v", gi, err)
		}
		if err := d.DestroyGPUInstance(gi); err != nil {
			t.Errorf("DestroyGPUInstance(%d): %v", gi, err)
		}
	}
	if _, err := d.MIGDevice(0); !errors.Is(err, nvml.NotFound) {
		t.Errorf("MIGDevice(0) after all: %v, want %v", err, nvml.NotFound)
	}
}

func TestMIGModeThatNeedsAReset(t *testing.T) {
	lib := fakelib.Build(t)
	lib.Write(t, "driver 570.124.06 12080", fakelib.GPU(0, "reset=1"))
	d := first(t, open(t, lib))
	activation, err := d.SetMIGMode(true)
	if err != nil || !errors.Is(activation, nvml.ResetRequired) {
		t.Errorf("SetMIGMode(true) = %v, %v, want %v pending", activation, err, nvml.ResetRequired)
	}
	if now, pending, err := d.MIGMode(); now || !pending || err != nil {
		t.Errorf("MIGMode() = %v, %v, %v, want off and pending", now, pending, err)
	}
}

// TestEventOfALostGPU gives the UUID from memory: the GPU does not answer.
func TestEventOfALostGPU(t *testing.T) {
	lib := fakelib.Build(t)
	node := fakelib.Node(2)
	lib.Write(t, node...)
	l := open(t, lib)
	d, err := l.Device(1)
	if err != nil {
		t.Fatal(err)
	}
	set, err := l.NewEventSet()
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	if err := set.Register(d, nvml.EventXid); err != nil {
		t.Fatal(err)
	}
	if _, err := d.UUID(); err != nil {
		t.Fatal(err)
	}
	if _, err := set.Wait(time.Millisecond); !errors.Is(err, nvml.Timeout) {
		t.Errorf("Wait without an event: %v, want %v", err, nvml.Timeout)
	}
	lib.Write(t, append(node[:2:2], fakelib.GPU(1, "lost=1"), "event gpu=1 xid=79")...)
	got, err := set.Wait(10 * time.Second)
	if want := (nvml.EventData{UUID: "GPU-1", Type: nvml.EventXid, Data: 79, GI: -1, CI: -1}); err != nil || got != want {
		t.Errorf("Wait() = %+v, %v, want %+v", got, err, want)
	}
	if _, err := d.Temperature(); !errors.Is(err, nvml.GPUIsLost) {
		t.Errorf("Temperature of a lost GPU: %v, want %v", err, nvml.GPUIsLost)
	}
}

func TestMemoryLimit(t *testing.T) {
	lib := fakelib.Build(t)
	lib.Write(t, fakelib.Node(1)...)
	d := first(t, open(t, lib))
	for _, bytes := range []int64{1 << 30, 0} {
		if err := d.SetMemoryLimit("/sys/fs/cgroup/pod", bytes); err != nil {
			t.Errorf("SetMemoryLimit(%d): %v", bytes, err)
		}
	}
	want := []string{"memory limit GPU-0 /sys/fs/cgroup/pod 1073741824 1073741824", "memory limit GPU-0 /sys/fs/cgroup/pod 0 18446744073709551615"}
	if diff := cmp.Diff(want, lib.Calls(t)); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}
