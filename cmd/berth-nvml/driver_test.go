package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/cmd/berth-nvml/fakelib"
)

const patience = 20 * time.Second // longer than any call takes here

func TestInventory(t *testing.T) {
	t.Parallel()
	lib := fakelib.Build(t)
	lines := []string{"driver 570.124.06 12080"}
	for i := range 8 {
		lines = append(lines, fakelib.GPU(i, "memory=143771", fmt.Sprintf("mig=%d", i/7)))
		for k := range i {
			lines = append(lines, fmt.Sprintf("link %d %d 2", i, k))
		}
	}
	lines = append(lines, "mig gpu=7 uuid=MIG-a gi=1 profile=9 start=0", "mig gpu=7 uuid=MIG-b gi=9 profile=19 start=4")
	lib.Write(t, lines...)
	s := snapshot(t, start(t, lib, patience))
	if s.Driver != "570.124.06" || s.CUDA != "12.8" || len(s.GPUs) != 8 || s.Fake {
		t.Fatalf("Snapshot() = %s, CUDA %s, %d GPUs, fake %v, want 570.124.06, 12.8, 8 and not fake", s.Driver, s.CUDA, len(s.GPUs), s.Fake)
	}
	g := s.GPUs[7]
	if g.UUID != "GPU-7" || g.Product != "NVIDIA H200" || g.BusID != "00000000:21:00.0" || g.MemoryBytes != 143771<<20 || g.ComputeMajor != 9 || g.Display || !g.MIGEnabled {
		t.Errorf("GPU 7: %+v", g)
	}
	if len(g.Links) != 7 || g.Links["GPU-0"] != 2 {
		t.Errorf("GPU 7 has links %v, want 2 to each of 7 others", g.Links)
	}
	var names []string
	for _, p := range g.Profiles {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	if want := []string{"1g.18gb", "1g.18gb+me", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb"}; !slices.Equal(names, want) {
		t.Errorf("profiles %v, want %v", names, want)
	}
	type device struct {
		UUID, Profile string
		Start, GI     int
	}
	var got []device
	for _, m := range g.MIG {
		got = append(got, device{m.UUID, m.Profile, m.Start, m.GI})
	}
	if diff := cmp.Diff([]device{{"MIG-a", "3g.71gb", 0, 1}, {"MIG-b", "1g.18gb", 4, 9}}, got); diff != "" {
		t.Errorf("MIG devices of GPU 7 (-want +got):\n%s", diff)
	}
}

func TestReadings(t *testing.T) {
	t.Parallel()
	lib := fakelib.Build(t)
	lib.Write(t, "driver 570.124.06 12080",
		fakelib.GPU(0, "temp=71 memtemp=82 power=345678 limit=700000 util=40 memutil=7 tensor=30 dram=20 tx=3 rx=5 used=4096 reserved=600 energy=99 replays=2 sm=1500 mem=3201 enc=4 dec=9 corrected=1 uncorrected=2 reasons=64 pid=4711 pidmem=4000"),
		fakelib.GPU(1, "mig=1 util=40 tensor=30"), "mig gpu=1 uuid=MIG-a gi=1 profile=9 start=0")
	c := start(t, lib, patience)
	snapshot(t, c)
	got := aged(t, c, "GPU-0", "MIG-a")
	r := got["GPU-0"].Reading
	want := r // NVLink's values and the last Xid are not of this test
	want.TemperatureCelsius, want.MemoryTempCelsius, want.PowerWatts, want.PowerLimitWatts = 71, 82, 345.678, 700
	want.UtilizationRatio, want.MemoryUtilization, want.TensorActiveRatio, want.DRAMActiveRatio = 0.4, 0.07, 0.3, 0.2
	want.PCIeTxBytesPerSecond, want.PCIeRxBytesPerSecond = 3<<20, 5<<20
	want.MemoryUsedBytes, want.MemoryReservedBytes, want.EnergyMillijoules, want.PCIeReplays = 4096<<20, 600<<20, 99, 2
	want.SMClockMHz, want.MemoryClockMHz, want.EncoderRatio, want.DecoderRatio = 1500, 3201, 0.04, 0.09
	want.CorrectableRemappedRows, want.RemappedRows, want.ThermalThrottled = 1, 2, true
	if diff := cmp.Diff(want, r); diff != "" {
		t.Errorf("GPU 0 (-want +got):\n%s", diff)
	}
	if p := got["GPU-0"].Processes; !slices.Equal(p, []nvml.Process{{PID: 4711, MemoryBytes: 4000 << 20}}) {
		t.Errorf("processes of GPU 0: %v, want 4711 with 4000 MiB", p)
	}
	// The stand-in gives a MIG device half of what its GPU shows by GPM.
	if v := got["MIG-a"].Reading.TensorActiveRatio; v != 0.15 {
		t.Errorf("tensor cores of MIG-a %v, want 0.15", v)
	}
}

func TestXid(t *testing.T) {
	t.Parallel()
	lib := fakelib.Build(t)
	lines := append(fakelib.Node(1), fakelib.GPU(1, "mig=1"), "mig gpu=1 uuid=MIG-a gi=3 profile=19 start=0")
	lib.Write(t, lines...)
	c := start(t, lib, patience)
	snapshot(t, c)
	lib.Write(t, append(lines, "event gpu=0 xid=31", "event gpu=1 xid=13 gi=3 ci=0")...)
	for _, want := range []nvml.Event{{UUID: "GPU-0", Xid: 31, GI: -1, CI: -1}, {UUID: "GPU-1", Xid: 13, GI: 3, CI: 0}} {
		if got := event(c); got != want {
			t.Errorf("event %+v, want %+v", got, want)
		}
	}
}

// TestLostGPU loses one of eight: the others stay as they are.
func TestLostGPU(t *testing.T) {
	t.Parallel()
	lib := fakelib.Build(t)
	lines := fakelib.Node(8)
	lib.Write(t, lines...)
	c := start(t, lib, patience)
	snapshot(t, c)
	lines[4] = fakelib.GPU(3, "lost=1")
	lib.Write(t, append(lines, "event gpu=3 xid=79")...)
	if got, want := event(c), (nvml.Event{UUID: "GPU-3", Xid: 79, GI: -1, CI: -1}); got.UUID != want.UUID || got.Xid != want.Xid && !got.Lost {
		t.Errorf("event %+v, want %+v", got, want)
	}
	s := snapshot(t, c)
	for i, g := range s.GPUs {
		if g.Lost != (i == 3) || g.Healthy == (i == 3) || g.UUID != fmt.Sprintf("GPU-%d", i) {
			t.Errorf("GPU %d: %s, lost %v, healthy %v", i, g.UUID, g.Lost, g.Healthy)
		}
	}
	got := samples(t, c)
	if _, there := got["GPU-3"]; there || len(got) != 7 {
		t.Errorf("samples of %d GPUs, GPU-3 among them %v, want 7 without it", len(got), there)
	}
	if c.Restarts() != 0 {
		t.Errorf("the child was restarted %d times, want 0", c.Restarts())
	}
}

// TestHang lets a call hang in the driver: the child is killed and started
// again, and the parent goes on.
func TestHang(t *testing.T) {
	t.Parallel()
	lib := fakelib.Build(t)
	lines := fakelib.Node(2)
	lib.Write(t, lines...)
	c := start(t, lib, 500*time.Millisecond)
	snapshot(t, c)
	lib.Write(t, append(lines, "hang nvmlDeviceGetPowerUsage")...)
	if got, err := c.Samples(t.Context()); err == nil {
		t.Errorf("Samples of a driver that hangs = %v, want an error", got)
	}
	lib.Write(t, lines...)
	comesBack(t, c, 2)
}

// TestCrash lets the driver's library end the process.
func TestCrash(t *testing.T) {
	t.Parallel()
	lib := fakelib.Build(t)
	lines := fakelib.Node(2)
	lib.Write(t, lines...)
	c := start(t, lib, patience)
	snapshot(t, c)
	lib.Write(t, append(lines, "crash nvmlDeviceGetPowerUsage")...)
	if got, err := c.Samples(t.Context()); err == nil {
		t.Errorf("Samples of a library that crashes = %v, want an error", got)
	}
	lib.Write(t, lines...)
	comesBack(t, c, 2)
}

// comesBack wants a new child that gives samples of n GPUs.
func comesBack(t *testing.T, c *nvml.Client, n int) {
	t.Helper()
	for end := time.Now().Add(3 * patience); ; {
		if got, err := c.Samples(t.Context()); err == nil && len(got) == n {
			break
		} else if time.Now().After(end) {
			t.Fatalf("no samples after a restart: %d, %v", len(got), err)
		}
	}
	if c.Restarts() == 0 {
		t.Error("the child was not restarted")
	}
}

// TestOldDriver runs with libraries that lack functions: none but the few that
// find GPUs, and then every second one of the rest, and the others. Each call
// gives an error or a value; none ends the process, as a call of a function
// that is not there does.
func TestOldDriver(t *testing.T) {
	t.Parallel()
	core := []string{"nvmlInit_v2", "nvmlShutdown", "nvmlSystemGetDriverVersion", "nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetUUID", "nvmlDeviceGetName", "nvmlDeviceGetMemoryInfo"}
	var rest []string
	for _, s := range fakelib.Symbols(t) {
		if !slices.Contains(core, s) {
			rest = append(rest, s)
		}
	}
	if len(rest) < 60 {
		t.Fatalf("only %d functions found in the sources", len(rest))
	}
	half := func(odd int) []string {
		var out []string
		for i, s := range rest {
			if i%2 == odd {
				out = append(out, s)
			}
		}
		return out
	}
	for name, without := range map[string][]string{
		"only what finds GPUs": rest, "without one half": half(0), "without the other half": half(1),
		"a driver before MIG and GPM": slices.DeleteFunc(slices.Clone(rest), func(s string) bool {
			return !strings.Contains(s, "Mig") && !strings.Contains(s, "Gpm") && !strings.Contains(s, "GpuInstance") && !strings.Contains(s, "ComputeInstance")
		}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lib := fakelib.Build(t, without...)
			lib.Write(t, append(fakelib.Node(1), fakelib.GPU(1, "mig=1"), "mig gpu=1 uuid=MIG-a gi=1 profile=19 start=0")...)
			c := start(t, lib, patience)
			s := snapshot(t, c)
			if len(s.GPUs) != 2 {
				t.Fatalf("%d GPUs, want 2", len(s.GPUs))
			}
			for range 3 {
				samples(t, c)
			}
			// Each may fail, and has to answer.
			_ = c.Probe(t.Context(), "GPU-0")
			_, _ = c.SetMIGMode(t.Context(), "GPU-0", true)
			_ = c.PartitionMIG(t.Context(), "GPU-0", []string{"3g.71gb"})
			_ = c.PartitionMIG(t.Context(), "GPU-0", nil)
			_ = c.PartitionMIG(t.Context(), "GPU-1", []string{"1g.18gb"})
			_ = c.SetExclusive(t.Context(), "GPU-0", true)
			_ = c.SetMemoryLimit(t.Context(), "GPU-0", "/sys/fs/cgroup/x", 1<<30)
			_, _ = c.CDI(t.Context())
			snapshot(t, c)
			if c.Restarts() != 0 {
				t.Errorf("the child ended %d times", c.Restarts())
			}
		})
	}
}

// TestBoundAtTheStart starts the program where all functions are to be looked
// up at the start, as hardened systems have it: no driver has all of them.
func TestBoundAtTheStart(t *testing.T) {
	lib := fakelib.Build(t)
	lib.Write(t, fakelib.Node(1)...)
	t.Setenv("LD_BIND_NOW", "1")
	c := start(t, lib, patience)
	if s := snapshot(t, c); len(s.GPUs) != 1 || c.Restarts() != 0 {
		t.Errorf("%d GPUs after %d restarts, want 1 after none", len(s.GPUs), c.Restarts())
	}
}

// TestNoDriver wants a sentence, not an end.
func TestNoDriver(t *testing.T) {
	t.Parallel()
	lib := fakelib.Build(t)
	c := start(t, lib, patience, "--driver-root", t.TempDir())
	s, err := c.Snapshot(t.Context())
	if err != nil || !strings.Contains(s.Failed, "NVML library not found") || !strings.Contains(s.Failed, "install the NVIDIA driver") {
		t.Errorf("Snapshot() = %q, %v, want what is missing and what to do", s.Failed, err)
	}
	lib.Write(t, "fail nvmlInit_v2 18")
	s, err = start(t, lib, patience).Snapshot(t.Context())
	if err != nil || !strings.Contains(s.Failed, "restart the node") {
		t.Errorf("Snapshot() after an update of the driver = %q, %v, want what to do", s.Failed, err)
	}
}

func TestControl(t *testing.T) {
	t.Parallel()
	lib := fakelib.Build(t)
	lib.Write(t, fakelib.Node(1)...)
	c := start(t, lib, patience)
	snapshot(t, c)
	if reset, err := c.SetMIGMode(t.Context(), "GPU-0", true); reset || err != nil {
		t.Fatalf("SetMIGMode(on) = %v, %v, want in force", reset, err)
	}
	profiles := func() []string {
		var out []string
		for _, m := range snapshot(t, c).GPUs[0].MIG {
			out = append(out, m.Profile)
		}
		slices.Sort(out)
		return out
	}
	for _, want := range [][]string{{"3g.71gb", "3g.71gb"}, {"1g.18gb", "1g.18gb", "2g.35gb", "3g.71gb"}, nil} {
		if err := c.PartitionMIG(t.Context(), "GPU-0", want); err != nil {
			t.Fatalf("PartitionMIG(%v): %v", want, err)
		}
		if got := profiles(); !slices.Equal(got, want) {
			t.Errorf("MIG devices after PartitionMIG(%v): %v", want, got)
		}
	}
	if err := c.PartitionMIG(t.Context(), "GPU-0", []string{"7g.141gb", "1g.18gb"}); err == nil {
		t.Error("PartitionMIG of more than a GPU holds gives no error")
	}
	if err := c.SetExclusive(t.Context(), "GPU-0", true); err != nil {
		t.Errorf("SetExclusive: %v", err)
	}
	if err := c.SetMemoryLimit(t.Context(), "GPU-0", "/sys/fs/cgroup/pod", 1<<30); err != nil {
		t.Errorf("SetMemoryLimit: %v", err)
	}
	calls := lib.Calls(t)
	for _, want := range []string{"mig mode GPU-0 1", "compute mode GPU-0 3", "memory limit GPU-0 /sys/fs/cgroup/pod 1073741824 1073741824"} {
		if !slices.Contains(calls, want) {
			t.Errorf("the driver was not told %q, but %q", want, calls)
		}
	}
}

// TestMemory watches what the child weighs with eight GPUs cut in 56.
func TestMemory(t *testing.T) {
	t.Parallel()
	lib := fakelib.Build(t)
	lines := []string{"driver 570.124.06 12080"}
	for i := range 8 {
		lines = append(lines, fakelib.GPU(i, "mig=1"))
		for k := range 7 {
			lines = append(lines, fmt.Sprintf("mig gpu=%d uuid=MIG-%d-%d gi=%d profile=19 start=%d", i, i, k, k+1, k))
		}
	}
	lib.Write(t, lines...)
	c := start(t, lib, patience)
	snapshot(t, c)
	for range 20 {
		if got := samples(t, c); len(got) != 64 {
			t.Fatalf("%d samples, want 64", len(got))
		}
	}
	status, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(c.PID()), "status"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		var kib int
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kib); n == 1 {
			t.Logf("resident memory of the child with 8 GPUs and 56 MIG devices: %d KiB", kib)
			if kib > 40<<10 {
				t.Errorf("the child holds %d KiB, want at most 40 MiB", kib)
			}
		}
	}
}
