//go:build hardware && cgo && linux

package hardware_test

import (
	"context"
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/cmd/berth-nvml/hardware"
)

// program is the child as it ships; run.sh names it.
func program(t *testing.T) string {
	t.Helper()
	path := os.Getenv("BERTH_NVML")
	if path == "" {
		t.Fatal("BERTH_NVML is empty: run these checks by test/hardware/run.sh")
	}
	return path
}

// loaded says that the run may put a load on the GPUs.
func loaded(t *testing.T) {
	t.Helper()
	if os.Getenv("BERTH_LOAD") == "0" {
		t.Skip("skipped: BERTH_LOAD=0 forbids a load")
	}
}

func start(t *testing.T) *nvml.Client {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := nvml.Start(ctx, nvml.Options{Command: []string{program(t)}})
	t.Cleanup(func() { cancel(); c.Wait() })
	return c
}

func snapshot(t *testing.T, c *nvml.Client) nvml.Snapshot {
	t.Helper()
	s, err := c.Snapshot(t.Context())
	if err != nil || s.Failed != "" || len(s.GPUs) == 0 {
		t.Fatalf("Snapshot() = %q, %v, %d GPUs", s.Failed, err, len(s.GPUs))
	}
	return s
}

// smi asks nvidia-smi for fields of every GPU; a value that it does not have is
// "[N/A]".
func smi(t *testing.T, fields string) [][]string {
	t.Helper()
	out, err := exec.Command("nvidia-smi", "--query-gpu="+fields, "--format=csv,noheader,nounits").Output()
	if err != nil {
		t.Fatalf("nvidia-smi --query-gpu=%s: %v", fields, err)
	}
	r := csv.NewReader(strings.NewReader(string(out)))
	r.TrimLeadingSpace = true
	rows, err := r.ReadAll()
	if err != nil {
		t.Fatalf("read what nvidia-smi printed: %v", err)
	}
	return rows
}

// TestWhatGPUsAre compares the snapshot with nvidia-smi, line by line.
func TestWhatGPUsAre(t *testing.T) {
	c := start(t)
	began := time.Now()
	s := snapshot(t, c)
	t.Logf("snapshot in %s: driver %s, CUDA %s", time.Since(began).Round(time.Millisecond), s.Driver, s.CUDA)
	rows := smi(t, "uuid,name,pci.bus_id,driver_version,compute_cap")
	if len(rows) != len(s.GPUs) {
		t.Fatalf("%d GPUs, nvidia-smi has %d", len(s.GPUs), len(rows))
	}
	for i, g := range s.GPUs {
		got := []string{g.UUID, g.Product, strings.ToUpper(g.BusID), s.Driver, fmt.Sprintf("%d.%d", g.ComputeMajor, g.ComputeMinor)}
		if want := rows[i]; strings.Join(got, ",") != strings.Join(want, ",") {
			t.Errorf("GPU %d: %q, nvidia-smi says %q", i, got, want)
		}
		t.Logf("GPU %d: %s, %d MiB, minor %d, NUMA %d, %d multiprocessors, fabric %q, MIG capable %v on %v, nodes %v, links %v",
			i, g.Product, g.MemoryBytes>>20, g.Minor, g.NUMANode, g.Multiprocessors, g.Fabric, g.MIGCapable, g.MIGEnabled, g.Nodes, g.Links)
	}
}

// TestReadings compares what changes slowly with nvidia-smi.
func TestReadings(t *testing.T) {
	c := start(t)
	s := snapshot(t, c)
	list, err := c.Samples(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]nvml.Sample{}
	for _, x := range list {
		by[x.UUID] = x
		t.Logf("%s: %+v; absent %v; %d processes", x.UUID, x.Reading, x.Absent, len(x.Processes))
	}
	rows := smi(t, "temperature.gpu,power.draw,enforced.power.limit,clocks.sm,clocks.mem,memory.used,temperature.memory")
	for i, g := range s.GPUs {
		r := by[g.UUID].Reading
		for k, x := range []struct {
			name          string
			got, may, per float64 // may be off by may, or by per of it
		}{
			{"temperature", float64(r.TemperatureCelsius), 5, 0}, {"power", r.PowerWatts, 30, 0.2}, {"power limit", r.PowerLimitWatts, 1, 0},
			{"SM clock", float64(r.SMClockMHz), 100, 0.5}, {"memory clock", float64(r.MemoryClockMHz), 10, 0.5},
			{"memory used, MiB", float64(r.MemoryUsedBytes >> 20), 700, 0.1}, {"memory temperature", float64(r.MemoryTempCelsius), 5, 0},
		} {
			want, err := strconv.ParseFloat(rows[i][k], 64)
			if err != nil {
				continue // nvidia-smi does not have it
			}
			if math.Abs(x.got-want) > math.Max(x.may, x.per*want) {
				t.Errorf("GPU %d: %s %v, nvidia-smi says %v", i, x.name, x.got, want)
			}
		}
	}
}

// TestLoad puts every GPU's tensor cores to work, and wants to see it, with the
// process that does it.
func TestLoad(t *testing.T) {
	loaded(t)
	c := start(t)
	s := snapshot(t, c)
	done := make(chan error, 1)
	const memory = 512 << 20
	go func() { done <- hardware.Busy(0, 12*time.Second, memory) }()
	time.Sleep(4 * time.Second) // utilization is a mean over up to a second
	if _, err := c.Samples(t.Context()); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * time.Second)
	list, err := c.Samples(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	x := list[0]
	t.Logf("under load: %+v; absent %v; processes %v", x.Reading, x.Absent, x.Processes)
	if err := <-done; err != nil {
		t.Fatalf("the load itself: %v", err)
	}
	if x.Reading.UtilizationRatio < 0.9 && !s.GPUs[0].MIGEnabled {
		t.Errorf("utilization %v, want 0.9 or more", x.Reading.UtilizationRatio)
	}
	if s.GPUs[0].ComputeMajor >= 9 && x.Reading.TensorActiveRatio < 0.05 {
		t.Errorf("tensor cores busy %v, want 0.05 or more", x.Reading.TensorActiveRatio)
	}
	if x.Reading.MemoryUsedBytes < memory {
		t.Errorf("memory used %d, want %d or more", x.Reading.MemoryUsedBytes, int64(memory))
	}
	found := false
	for _, p := range x.Processes {
		found = found || p.PID == os.Getpid() && (p.MemoryBytes < 0 || p.MemoryBytes >= memory)
	}
	if !found {
		t.Errorf("processes %v, want %d among them with %d bytes or more", x.Processes, os.Getpid(), int64(memory))
	}
}

// TestXid makes the driver report an Xid 31 of this process, and wants the
// event.
func TestXid(t *testing.T) {
	loaded(t)
	c := start(t)
	s := snapshot(t, c)
	t.Logf("a write to nowhere: %v", hardware.Fault(0))
	select {
	case e := <-c.Events():
		t.Logf("event %+v", e)
		if e.Xid != 31 || e.UUID != s.GPUs[0].UUID {
			t.Errorf("event %+v, want Xid 31 of %s", e, s.GPUs[0].UUID)
		}
	case <-time.After(10 * time.Second):
		t.Error("no event within 10 s; is the driver allowed to tell Xids here (dmesg)?")
	}
}

// TestCost measures the child: time and CPU of a scrape, memory.
func TestCost(t *testing.T) {
	c := start(t)
	snapshot(t, c)
	const n = 20
	before, began := cpu(t, c.PID()), time.Now()
	for range n {
		if _, err := c.Samples(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(150 * time.Millisecond) // GPM's samples have to be 100 ms apart
	}
	t.Logf("samples: %s each with the pause of 150 ms, %s CPU of the child each", (time.Since(began) / n).Round(time.Millisecond), (cpu(t, c.PID())-before)/n)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.PID()))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "VmRSS") || strings.HasPrefix(line, "RssAnon") {
			t.Log(strings.Join(strings.Fields(line), " "))
		}
	}
}

// cpu returns user and system time of a process, in ticks of 10 ms.
func cpu(t *testing.T, pid int) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(string(stat)[strings.LastIndex(string(stat), ")")+1:])
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}
