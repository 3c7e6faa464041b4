//go:build linux

package node_test

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
)

// defaultMetrics are those that dcgm-exporter serves when nobody configures it.
// Source: its file default-counters.csv.
var defaultMetrics = []string{
	"DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_MEM_CLOCK", "DCGM_FI_DEV_MEMORY_TEMP", "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE",
	"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_MEM_COPY_UTIL",
	"DCGM_FI_DEV_ENC_UTIL", "DCGM_FI_DEV_DEC_UTIL", "DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_RESERVED",
	"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "DCGM_FI_DEV_VGPU_LICENSE_STATUS", "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
	"DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "DCGM_FI_DEV_ROW_REMAP_FAILURE", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
	"DCGM_FI_PROF_DRAM_ACTIVE", "DCGM_FI_PROF_PCIE_TX_BYTES", "DCGM_FI_PROF_PCIE_RX_BYTES",
}

// TestMetrics reads the exporter of a node of eight GPUs, as Prometheus does,
// while pods of three kinds hold some, and weighs the agent.
func TestMetrics(t *testing.T) {
	if !isolated(t) {
		return
	}
	n := newWholeNode(t, "NVIDIA H200", 8, "--interval", "15s")
	n.apply(pod("committed", commitOf(h200Bytes, "c", uuid(6)), 1), uncommitted("other", gpuResource, 2))
	n.sees(t, "committed", "c")
	other := visible(n.sees(t, "other", "c"))
	t.Run("every default name is there, for every GPU, with the pods that hold them", func(t *testing.T) { n.names(t, other) })
	t.Run("Prometheus finds nothing to complain about", n.lint)
	t.Run("the agent and its child take at most 40 MB of their own and less than half a core", n.weight)
}

// names waits for a scrape that has everything: one for which the driver or the
// kubelet was late has not. other is what the kubelet has given to pod other.
func (n *node) names(t *testing.T, other []string) {
	eventually(t, patience, "a scrape has every name", func() error {
		families, text := scrape(t)
		for _, name := range defaultMetrics {
			if err := complete(families, name, other); err != nil {
				return fmt.Errorf("%w:\n%s", err, lines(text, name))
			}
		}
		if held, _ := sum(families, "berth_gpu_held"); held != 3 {
			return fmt.Errorf("%v GPUs are held, and pods have 3:\n%s", held, lines(text, "berth_gpu_held"))
		}
		if _, series := sum(families, "berth_gpu_holder_info"); series != 3 {
			return fmt.Errorf("holders are\n%s", lines(text, "berth_gpu_holder_info"))
		}
		if healthy, _ := sum(families, "berth_gpu_healthy"); healthy != 8 {
			return fmt.Errorf("%v GPUs are healthy", healthy)
		}
		return nil
	})
}

// complete says what a default metric of the eight GPUs lacks.
func complete(families map[string]*dto.MetricFamily, name string, other []string) error {
	if got := len(families[name].GetMetric()); got != 8 {
		return fmt.Errorf("%s has %d series, and there are 8 GPUs", name, got)
	}
	for _, m := range families[name].GetMetric() {
		for _, l := range []string{"gpu", "UUID", "pci_bus_id", "device", "modelName"} {
			if label(m, l) == "" {
				return fmt.Errorf("%s has a series without label %s: %v", name, l, m)
			}
		}
	}
	if _, series := sum(families, name, "UUID", uuid(6), "pod", "committed-"+nodeName, "namespace", "default", "container", "c"); series != 1 {
		return fmt.Errorf("%s has %d series of GPU 6 and pod committed", name, series)
	}
	if _, series := sum(families, name, "pod", "other-"+nodeName); series != 2 || len(other) != 2 {
		return fmt.Errorf("%s has %d series of pod other, which asked for 2 GPUs and has %v", name, series, other)
	}
	for _, u := range other {
		if _, series := sum(families, name, "UUID", u, "pod", "other-"+nodeName, "namespace", "default", "container", "c"); series != 1 {
			return fmt.Errorf("%s has %d series of %s and pod other, which has it", name, series, u)
		}
	}
	return nil
}

// lint is promtool check metrics. What it says of names that begin with DCGM_ is
// said of dcgm-exporter's own: those must stay as they are.
func (n *node) lint(t *testing.T) {
	_, text := scrape(t)
	problems, err := promlint.New(bytes.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if !strings.HasPrefix(p.Metric, "DCGM_") || strings.Contains(p.Text, "help") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

// weight is the agent's memory and processor time (NVIDIA/dcgm-exporter#702, #536,
// #292, #609: 400 MiB and more for the exporter alone), on a real node at rest that
// is scraped once a second. The bound of the time is wide, so that it holds on any
// machine: what fails is an agent that does not rest. docs/benchmarks.md has figures.
func (n *node) weight(t *testing.T) {
	pids := append(children(n.agent.cmd.Process.Pid), n.agent.cmd.Process.Pid)
	before, began := ticks(t, pids), time.Now()
	const scrapes = 5
	for range scrapes {
		scrape(t)
		time.Sleep(time.Second) // what is measured is a time
	}
	used, took := ticks(t, pids)-before, time.Since(began)
	if used > took/2 {
		t.Errorf("agent and child took %v of processor time in %v with %d scrapes", used, took, scrapes)
	}
	eventually(t, patience, "agent and child take little memory", func() error {
		var all, own int64
		for _, pid := range pids {
			a, o := residentBytes(t, pid)
			all, own = all+a, own+o
		}
		t.Logf("figure: agent and child have %.1f MB resident, %.1f MB of it their own, and took %v of processor time in %v with %d scrapes",
			float64(all)/1e6, float64(own)/1e6, used, took.Round(time.Second), scrapes)
		if own > 40e6 {
			return fmt.Errorf("they have %d bytes of their own", own)
		}
		return nil
	})
}

// ticks is the processor time of processes.
func ticks(t *testing.T, pids []int) time.Duration {
	t.Helper()
	var total time.Duration
	for _, pid := range pids {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		fields := strings.Fields(string(data[slices.Index(data, ')')+1:]))
		var user, system int64
		if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
			t.Fatal(err)
		}
		total += time.Duration(user+system) * time.Second / 100 // USER_HZ
	}
	return total
}
