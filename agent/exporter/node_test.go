package exporter_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"berth.dev/berth/agent/exporter"
	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
)

const h100 = "NVIDIA H100 80GB HBM3"

// rig is a node with a Collector's sources: GPUs, what they show, and who holds
// them.
type rig struct {
	snapshot nvml.Snapshot
	samples  []nvml.Sample
	sources  exporter.Sources
	options  exporter.CollectorOptions
	own      []exporter.Holder
}

// newRig makes n GPUs of H100, those of the indexes in cut into seven MIG devices.
func newRig(tb testing.TB, n int, cut ...int) *rig {
	tb.Helper()
	p, ok := gpu.Find(h100)
	if !ok {
		tb.Fatal("no H100 in the catalog")
	}
	r := &rig{snapshot: nvml.Snapshot{Driver: "570.124.06", CUDA: "12.8"}}
	gpus := gpu.New("gpu-node-1", p, n)
	for _, i := range cut {
		profiles := []string{}
		for range 7 {
			profiles = append(profiles, "1g.10gb")
		}
		if err := gpu.Cut(&gpus[i], p, profiles); err != nil {
			tb.Fatal(err)
		}
	}
	for i, g := range gpus {
		r.snapshot.GPUs = append(r.snapshot.GPUs, nvml.GPU{GPU: g, Minor: i, ComputeSlices: 7})
		whole := nvml.Sample{UUID: g.UUID, Reading: busy(int64(i+1) * gib)}
		if g.MIGEnabled {
			whole.Absent = []string{"DecoderRatio", "EncoderRatio", "MemoryUtilization"}
		}
		r.samples = append(r.samples, whole)
		for j, m := range g.MIG {
			x := nvml.Sample{UUID: m.UUID, Reading: busy(int64(j) * gib), Absent: []string{"DecoderRatio", "EncoderRatio", "MemoryUtilization"}}
			x.Reading.MemoryReservedBytes = 0
			r.samples = append(r.samples, x)
		}
	}
	r.sources = exporter.Sources{
		Snapshot: func() nvml.Snapshot { return r.snapshot },
		Samples:  func(context.Context) ([]nvml.Sample, error) { return r.samples, nil },
		Holders:  func() []exporter.Holder { return r.own },
		Counters: func() exporter.Counters {
			return exporter.Counters{Differences: 3, Restarts: 1, Refusals: map[string]int64{"Unhealthy": 2, "NoCommitment": 1}}
		},
	}
	r.options.Options = exporter.Options{Hostname: "gpu-node-1", Divide: true}
	r.options.Proc = tb.TempDir()
	r.options.MinAge, r.options.Patience = time.Nanosecond, time.Minute
	return r
}

// holds lets a pod, which has one container and a UID made of its name, hold a
// device: a share of it when replica is not negative.
func (r *rig) holds(pod, uuid string, replica int, milliGPU int64) {
	d := sharing.Device{ID: uuid, UUID: uuid, MilliGPU: milliGPU}
	if replica >= 0 {
		d.ID = sharing.ShareID(uuid, replica)
	}
	r.own = append(r.own, exporter.Holder{PodUID: uid(pod), Namespace: "team-a", Pod: pod, Container: "main", Devices: []sharing.Device{d}, Committed: true})
}

// uid is a pod's UID.
func uid(pod string) string { return gpu.UUID("x", pod)[2:] }

// runs starts a process of a pod on a device, with its cgroup as cgroup v2 and
// systemd name it.
func (r *rig) runs(tb testing.TB, pid int, podUID, uuid string, bytes int64) {
	tb.Helper()
	for i := range r.samples {
		if r.samples[i].UUID == uuid {
			r.samples[i].Processes = append(r.samples[i].Processes, nvml.Process{PID: pid, MemoryBytes: bytes})
		}
	}
	if podUID == "" {
		return // its cgroup cannot be read
	}
	dir := filepath.Join(r.options.Proc, strconv.Itoa(pid))
	text := fmt.Sprintf("0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod%s.slice/cri-containerd-%064x.scope\n", podUID, pid)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup"), []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
}

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func (r *rig) uuid(index int) string { return r.snapshot.GPUs[index].UUID }

func (r *rig) scrape(tb testing.TB) string {
	tb.Helper()
	text, err := exporter.NewCollector(r.sources, r.options).Scrape(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}

func value(m *dto.Metric) float64 { return m.GetGauge().GetValue() + m.GetCounter().GetValue() }

// sum adds up the series of a field that have all these labels.
func sum(families map[string]*dto.MetricFamily, field string, with map[string]string) (total float64, n int) {
	for _, m := range families[field].GetMetric() {
		have, ok := labels(m), true
		for k, v := range with {
			ok = ok && have[k] == v
		}
		if ok {
			total += value(m)
			n++
		}
	}
	return total, n
}
