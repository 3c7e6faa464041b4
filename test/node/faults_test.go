//go:build linux

package node_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestFaults breaks what a node agent lives with, one after the other, under a
// pod that runs: its container runs on, and what the node offers is right again.
// A node may take five seconds for that: see stopwatch.
func TestFaults(t *testing.T) {
	if !isolated(t) {
		return
	}
	n := newWholeNode(t, a100, 4)
	n.apply(pod("runs", commit("c", uuid(1)), 1))
	if err := only(n.sees(t, "runs", "c"), 1); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"the kubelet starts again", n.kubeletRestarts},
		{"the kubelet starts again while the agent is away", n.kubeletRestartsAlone},
		{"the plugin's socket is removed", n.socketRemoved},
		{"the owner of NVML is killed", n.childKilled},
		{"the driver is upgraded under our feet", n.upgrade},
		{"the agent is killed", n.agentKilled},
		{"a call of NVML does not return", n.hang},
		{"the driver lacks a function that is called", n.symbol},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.run(t)
			n.offers(t, gpuResource, 4)
			n.ranOn(t, "runs")
		})
	}
}

// ranOn asks that a container runs and was never started again. A kubelet that
// has just started does not list it yet.
func (n *node) ranOn(t *testing.T, name string) {
	t.Helper()
	var restarts int32
	eventually(t, patience, "the container of pod "+name+" runs", func() error {
		have, err := n.pods()
		if err != nil || len(have[name].Status.ContainerStatuses) == 0 || have[name].Status.ContainerStatuses[0].State.Running == nil {
			return errors.Join(err, &notYet{n.state(name)})
		}
		restarts = have[name].Status.ContainerStatuses[0].RestartCount
		return nil
	})
	if restarts != 0 {
		t.Errorf("the container that ran all the time has restarted %d times", restarts)
	}
}

// soon is how long a node may take to be right again after a fault.
const soon = 5 * time.Second

// stopwatch measures what a node may take soon for, and for how long of it tasks of
// this machine waited for a CPU that others had.
type stopwatch struct {
	began   time.Time
	stalled time.Duration // until then, since the machine started
}

func startWatch() stopwatch { return stopwatch{time.Now(), stalled()} }

// within fails the test where something took longer than soon, without the time for
// which there was no CPU: on a machine that others use too, that is theirs.
func (w stopwatch) within(t *testing.T, what string) {
	t.Helper()
	took, theirs := time.Since(w.began), stalled()-w.stalled
	t.Logf("figure: %s after %v, of which tasks waited %v for a CPU", what, took.Round(time.Millisecond), theirs.Round(time.Millisecond))
	if took-theirs > soon {
		t.Errorf("%s after %v; a node may take %v, and tasks waited for a CPU for %v of it", what, took, soon, theirs)
	}
}

// stalled is for how long some task has waited for a CPU since the machine started; 0
// where the kernel does not say. Source: Linux, Documentation/accounting/psi.rst.
func stalled() time.Duration {
	text, err := os.ReadFile("/proc/pressure/cpu")
	if err != nil {
		return 0
	}
	_, total, _ := strings.Cut(string(text), "total=")
	total, _, _ = strings.Cut(total, "\n")
	us, err := strconv.ParseInt(total, 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(us) * time.Microsecond
}

// kubeletRestarts is k8s-device-plugin issues 1228, 58, 240, 389 and 426: after
// a restart of the kubelet the node has capacity 0, or what it had before.
//
// NVIDIA/k8s-device-plugin#1228 NVIDIA/k8s-device-plugin#58 NVIDIA/k8s-device-plugin#240
func (n *node) kubeletRestarts(t *testing.T) {
	n.restartKubelet()
	watch := startWatch()
	n.offers(t, gpuResource, 4)
	watch.within(t, "capacity is there when the kubelet answers")
	delay := n.registrationDelay(t)
	t.Logf("figure: the plugin registered %v after the kubelet's new socket", delay.Round(100*time.Microsecond))
}

// registrationDelay is the time from the kubelet's socket to the first
// registration at it, by the file and the kubelet's log.
func (n *node) registrationDelay(t *testing.T) time.Duration {
	t.Helper()
	info, err := os.Stat(filepath.Join(kubeletDir, "device-plugins", "kubelet.sock"))
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(n.kubelet.log)
	if err != nil {
		t.Fatal(err)
	}
	born := info.ModTime()
	for line := range strings.Lines(string(data)) {
		if !strings.Contains(line, "Got registration request from device plugin with resource") {
			continue
		}
		at, err := logged(line, born)
		if err != nil {
			t.Fatalf("the time in %q: %v", line, err)
		}
		if delay := at.Sub(born); delay >= -time.Millisecond {
			return max(delay, 0)
		}
	}
	t.Fatalf("the kubelet's log tells of no registration since %v", born)
	return 0
}

// logged is the time of a line of klog, which has no year: it is the one that brings it closest to another time.
func logged(line string, near time.Time) (at time.Time, err error) {
	for _, year := range []int{near.Year() - 1, near.Year(), near.Year() + 1} {
		one, bad := time.ParseInLocation("2006 I0102 15:04:05.000000", fmt.Sprint(year, " ", line[:len("I1121 20:00:00.000000")]), near.Location())
		if bad != nil { // or it is the 29th of February of another year
			err = bad
		} else if at.IsZero() || one.Sub(near).Abs() < at.Sub(near).Abs() {
			at = one
		}
	}
	if !at.IsZero() {
		err = nil
	}
	return at, err
}

func TestLinesOfTheLogHaveAYear(t *testing.T) {
	for line, near := range map[string]string{ // the seconds between are 2
		"I1121 20:00:02.000000": "2026-11-21T20:00:00Z",
		"I0101 00:00:01.000000": "2026-12-31T23:59:59Z",
		"I1231 23:59:59.000000": "2027-01-01T00:00:01Z",
		"I0229 12:00:02.000000": "2028-02-29T12:00:00Z",
	} {
		from, err := time.Parse(time.RFC3339, near)
		if err != nil {
			t.Fatal(err)
		}
		at, err := logged(line+" 1 main.go:1] it runs", from)
		if err != nil || at.Sub(from).Abs() != 2*time.Second {
			t.Errorf("%s near %s is %v, %v", line, near, at, err)
		}
	}
	if at, err := logged("I1321 20:00:00.000000 1 main.go:1]", time.Now()); err == nil {
		t.Errorf("a month 13 is %v", at)
	}
}

func (n *node) kubeletRestartsAlone(t *testing.T) {
	n.killAgent(t)
	n.restartKubelet()
	watch := startWatch()
	n.runAgent(t)
	n.offers(t, gpuResource, 4)
	watch.within(t, "capacity is back after the agent's start")
}

// socketRemoved removes what the kubelet itself removes when it starts.
func (n *node) socketRemoved(t *testing.T) {
	sockets, err := filepath.Glob(filepath.Join(kubeletDir, "device-plugins", "*.sock"))
	if err != nil {
		t.Fatal(err)
	}
	sockets = slices.DeleteFunc(sockets, func(s string) bool { return filepath.Base(s) == "kubelet.sock" })
	if len(sockets) == 0 {
		t.Fatal("the plugin has no socket")
	}
	for _, s := range sockets {
		if err := os.Remove(s); err != nil {
			t.Fatal(err)
		}
	}
	watch := startWatch()
	eventually(t, patience, "the socket is there again", func() error {
		for _, s := range sockets {
			if _, err := os.Stat(s); err != nil {
				return err
			}
		}
		return nil
	})
	watch.within(t, "a removed socket is there again")
	n.offers(t, gpuResource, 4)
	n.apply(pod("after", commit("c", uuid(0)), 1))
	if err := only(n.sees(t, "after", "c"), 0); err != nil {
		t.Error(err)
	}
	n.remove(t, "after")
}

// childKilled kills the process that has the driver loaded.
func (n *node) childKilled(t *testing.T) {
	old := children(n.agent.cmd.Process.Pid)
	if len(old) == 0 {
		t.Fatal("the agent has no child")
	}
	for _, pid := range old {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	n.apply(pod("meanwhile", commit("c", uuid(3)), 1))
	if err := only(n.sees(t, "meanwhile", "c"), 3); err != nil {
		t.Error(err)
	}
	if got := n.answered(t, gpuResource); got != 4 {
		t.Errorf("without its child the agent offers %d GPUs", got)
	}
	watch := startWatch()
	eventually(t, patience, "the child is started again", func() error {
		if now := children(n.agent.cmd.Process.Pid); len(now) == 0 || slices.Equal(now, old) {
			return fmt.Errorf("the agent's children are %v", now)
		}
		return nil
	})
	watch.within(t, "the owner of NVML is there again")
	eventually(t, patience, "the restart is counted", func() error {
		families, _ := scrape(t)
		if value, _ := sum(families, "berth_nvml_restarts_total"); value < 1 {
			return fmt.Errorf("it is %v", value)
		}
		return nil
	})
	n.remove(t, "meanwhile")
}

// while changes the GPUs' file for as long as a container is started and the
// metrics are read: the driver gives no reading before and after, so neither has
// waited for it.
func (n *node) while(t *testing.T, name, trouble string, gpu int) {
	t.Helper()
	n.setGPUs(t, wholeGPUs(4)+trouble)
	defer n.setGPUs(t, wholeGPUs(4))
	n.shows(t, "berth_nvml_up", 0)
	began := time.Now()
	n.apply(pod(name, commit("c", uuid(gpu)), 1))
	if err := only(n.sees(t, name, "c"), gpu); err != nil {
		t.Error(err)
	}
	t.Logf("figure: meanwhile a container has started after %v", time.Since(began).Round(time.Millisecond))
	began = time.Now()
	families, _ := scrape(t)
	t.Logf("figure: meanwhile the metrics have answered after %v", time.Since(began).Round(time.Millisecond))
	if up, series := sum(families, "berth_nvml_up"); up != 0 || series != 1 {
		t.Errorf("berth_nvml_up is %v: the driver was to give no readings all the time", up)
	}
	n.held(t, 2)
	if got := n.answered(t, gpuResource); got != 4 {
		t.Errorf("meanwhile the kubelet has %d GPUs", got)
	}
	n.remove(t, name)
}

func (n *node) hang(t *testing.T) {
	n.while(t, "hangs", "hang: [{call: nvmlDeviceGetTemperature}]\n", 0)
}

// symbol is how a process ends that calls what the loaded library lacks: the
// dynamic linker ends it.
func (n *node) symbol(t *testing.T) {
	n.while(t, "lacks", "crash: [{call: nvmlDeviceGetTemperature, symbol: true}]\n", 2)
}

// upgrade loads another driver: every call of the process that has the old
// library fails until there is a new process.
func (n *node) upgrade(t *testing.T) {
	n.setGPUs(t, wholeGPUs(4)+"driver: {version: 580.95.05}\n")
	defer n.setGPUs(t, wholeGPUs(4))
	took := eventually(t, patience, "the agent tells of the new driver", func() error {
		families, text := scrape(t)
		if _, series := sum(families, "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DRIVER_VERSION", "580.95.05"); series != 4 {
			return &notYet{lines(text, "DCGM_FI_DEV_GPU_TEMP")}
		}
		return nil
	})
	t.Logf("figure: a new driver is told of after %v", took.Round(time.Millisecond))
	n.offers(t, gpuResource, 4)
}

func (n *node) agentKilled(t *testing.T) {
	n.killAgent(t)
	n.offersWithoutAgent(t, 0)
	watch := startWatch()
	n.runAgent(t)
	n.offers(t, gpuResource, 4)
	watch.within(t, "capacity is back after the agent's start")
	n.apply(pod("forged", commit("c", uuid(1)), 1))
	n.waits(t, "forged", "CreateContainerConfigError", "runs")
	n.remove(t, "forged")
}
