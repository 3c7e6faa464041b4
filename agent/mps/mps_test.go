package mps_test

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/agent/config"
	"berth.dev/berth/agent/mps"
	"berth.dev/berth/core/gpu"
)

const gib = 1 << 30

var (
	one = []mps.GPU{{UUID: "GPU-a", MemoryBytes: 16 * gib}}
	two = []mps.GPU{{UUID: "GPU-a", MemoryBytes: 16 * gib}, {UUID: "GPU-b", Index: 1, MemoryBytes: 80 * gib}}
)

// NVIDIA/k8s-device-plugin#1946: shares were offered before the limits were in
// force. NVIDIA/k8s-device-plugin#467: limits that were set had no effect.
func TestSharesAreHealthyOnceLimitsAreInForce(t *testing.T) {
	b := newBench(t)
	b.gate = make(chan struct{})
	m, stop := b.run(mps.Options{})
	m.Set(mps.Want{GPUs: two, Replicas: 4, OneEach: true})
	if why := m.Unhealthy()["GPU-a"]; why != "the MPS control daemon is not ready yet" {
		t.Errorf("before the daemon runs: %q", why)
	}
	close(b.gate)
	b.until("GPU-b", "not ready yet")
	b.until("GPU-b", "")
	want := []string{
		"start GPU-a,GPU-b",
		"set_default_device_pinned_mem_limit 0 4096M",
		"set_default_device_pinned_mem_limit 1 20480M",
		"set_default_active_thread_percentage 25",
	}
	if diff := cmp.Diff(want, b.commands()); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
	if info, err := os.Stat(b.root + "/shm"); err != nil || info.Mode().Perm() != 0o777 || info.Mode()&os.ModeSticky == 0 {
		t.Errorf("the folder for shared memory: %v, %v", info, err)
	}
	if !b.isExclusive("GPU-a") || !b.isExclusive("GPU-b") {
		t.Error("the compute mode is not EXCLUSIVE_PROCESS")
	}

	stop()
	if b.isExclusive("GPU-a") || b.pid() != 0 {
		t.Errorf("after the end: exclusive %v, process %d", b.isExclusive("GPU-a"), b.pid())
	}
}

// NVIDIA/k8s-device-plugin#929, #1695: requests for more than one share are
// refused by default, and failRequestsGreaterThanOne: false was ignored.
func TestLimitsOfSeveralShares(t *testing.T) {
	b := newBench(t)
	m, _ := b.run(mps.Options{})
	m.Set(mps.Want{GPUs: one, Replicas: 4, OneEach: true})
	b.until("GPU-a", "")
	pid, before := b.pid(), len(b.commands())
	m.Set(mps.Want{GPUs: one, Replicas: 4})
	b.await("other limits", func() bool { return len(b.commands()) >= before+2 })
	want := []string{"set_default_device_pinned_mem_limit 0 16384M", "set_default_active_thread_percentage 100"}
	if diff := cmp.Diff(want, b.commands()[before:]); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
	if b.pid() != pid {
		t.Error("the daemon was started again for other limits")
	}
	got := m.Edits([]mps.Share{{MemoryBytes: 16 * gib, Replicas: 4, Held: 3}})
	edits := mps.Edits{
		Env: map[string]string{
			"CUDA_MPS_PIPE_DIRECTORY":           "/mps/nvidia.com/gpu/pipe",
			"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "75",
			"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT":  "0=12288M",
		},
		Mounts: []mps.Mount{{Host: b.path("pipe"), Container: "/mps/nvidia.com/gpu/pipe"}, {Host: b.root + "/shm", Container: "/dev/shm"}},
	}
	if diff := cmp.Diff(edits, got); diff != "" {
		t.Errorf("Edits (-want +got):\n%s", diff)
	}
}

func TestEditsNeverGoBeyondTheGPUs(t *testing.T) {
	m := mps.New(mps.Options{Root: "/run/mps", SetExclusive: func(context.Context, string, bool) error { return nil }})
	for n := 1; n <= 200; n++ {
		for held := 0; held <= n+1; held++ {
			e := m.Edits([]mps.Share{{MemoryBytes: 80 * gib, Replicas: n, Held: held}, {MemoryBytes: gib, Replicas: 1, Held: 1}})
			percent, err := strconv.Atoi(e.Env["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"])
			limits := strings.Split(e.Env["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"], ",")
			if err != nil || percent < 1 || percent > 100 || n <= 100 && percent*n > 100*max(held, 1) || len(limits) != 2 || limits[1] != "1=1024M" {
				t.Fatalf("Edits of %d of %d: %v", held, n, e.Env)
			}
		}
	}
}

// NVIDIA/k8s-device-plugin#762, #1105: the daemon died again and again, and
// nothing but a person started it.
func TestADaemonThatDiesIsStartedAgain(t *testing.T) {
	b := newBench(t)
	m, _ := b.run(mps.Options{})
	m.Set(mps.Want{GPUs: one, Replicas: 2, OneEach: true})
	b.until("GPU-a", "")
	for range 3 {
		pid := b.pid()
		if pid <= 1 {
			t.Fatalf("the daemon's process is %d", pid)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		b.await("another daemon", func() bool { now := b.pid(); return now != pid && now != 0 })
		b.await("its limits", func() bool {
			told := b.commands()
			return strings.HasPrefix(told[len(told)-1], "set_default_active")
		})
	}
}

func TestADaemonThatHangsMakesSharesUnhealthyAndIsEnded(t *testing.T) {
	b := newBench(t)
	m, _ := b.run(mps.Options{Timeout: 3 * time.Second})
	m.Set(mps.Want{GPUs: one, Replicas: 2, OneEach: true})
	b.until("GPU-a", "")
	pid := b.pid()
	b.behave("hang once")
	b.until("GPU-a", "does not answer (1 of 3 times); its pods can continue")
	b.until("GPU-a", "") // it was only slow
	if b.pid() != pid {
		t.Error("a daemon that was slow once was ended")
	}
	b.behave("hang")
	b.until("GPU-a", "does not start") // the next one hangs too
	b.behave("")
	b.until("GPU-a", "")
	if b.pid() == pid {
		t.Error("the daemon that hung still runs")
	}
}

// NVIDIA/k8s-device-plugin#647, #1595: the daemon was not there or could not
// work, the plugin said nothing of why, and pods failed at their first call.
func TestADaemonThatCannotWorkSaysWhy(t *testing.T) {
	for _, tt := range []struct{ name, behave, want string }{
		{"it does not start", "no start", "exit status 1; its log ends with: No CUDA devices found"},
		{"it refuses a limit of memory", "refuse memory", "set_default_device_pinned_mem_limit 0 8192M: Failed to set memory limit: invalid device"},
		{"it ignores a limit of threads", "refuse threads", "set_default_active_thread_percentage 50: it is still 100"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			b.behave(tt.behave)
			m, _ := b.run(mps.Options{})
			m.Set(mps.Want{GPUs: one, Replicas: 2, OneEach: true})
			if why := b.until("GPU-a", "the MPS control daemon does not start"); !strings.HasSuffix(why, tt.want) {
				t.Errorf("reason %q\nwant   %q", why, tt.want)
			}
			b.behave("")
			b.until("GPU-a", "") // it is tried again by itself
		})
	}
	t.Run("there is no such program", func(t *testing.T) {
		b := newBench(t)
		m, _ := b.run(mps.Options{Program: "berth-test-no-such-program", Backoff: time.Hour})
		m.Set(mps.Want{GPUs: one, Replicas: 2})
		b.until("GPU-a", "executable file not found in $PATH; install the driver's compute programs, or name the program by mps-program")
		if b.isExclusive("GPU-a") {
			t.Error("the compute mode is left EXCLUSIVE_PROCESS")
		}
	})
	t.Run("the compute mode cannot be set", func(t *testing.T) {
		b := newBench(t)
		b.refuse = errors.New("insufficient permissions")
		m, _ := b.run(mps.Options{})
		m.Set(mps.Want{GPUs: one, Replicas: 2})
		b.until("GPU-a", "set compute mode EXCLUSIVE_PROCESS of GPU 0: insufficient permissions")
		m.Set(mps.Want{}) // never mind: nothing is left to be told of
		for h := map[string]string{"": ""}; len(h) > 0; {
			var ok bool
			if h, ok = b.next(); !ok {
				t.Fatal("that nothing is left is not told")
			}
		}
	})
}

func TestADaemonThatDoesNotQuitIsKilled(t *testing.T) {
	b := newBench(t)
	m, stop := b.run(mps.Options{Timeout: 3 * time.Second})
	m.Set(mps.Want{GPUs: one, Replicas: 2, OneEach: true})
	b.until("GPU-a", "")
	pid := b.pid()
	b.behave("deaf")
	stop()
	for end := time.Now().Add(patience); syscall.Kill(pid, 0) == nil && !zombie(pid); time.Sleep(time.Millisecond) { // it is being killed
		if time.Now().After(end) {
			t.Fatal("the daemon still runs")
		}
	}
}

func zombie(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(stat), ") Z ")
}

// The agent is restarted under running pods: their daemon stays, and the next
// agent takes it over. Other GPUs wait until nobody holds a share.
func TestADaemonOutlivesItsAgentUnderHolders(t *testing.T) {
	b := newBench(t)
	m, stop := b.run(mps.Options{})
	m.Set(mps.Want{GPUs: one, Replicas: 2, OneEach: true})
	b.until("GPU-a", "")
	pid := b.pid()
	b.hold("pod a/b")
	stop()
	if b.pid() != pid || !b.isExclusive("GPU-a") {
		t.Fatalf("process %d, was %d", b.pid(), pid)
	}

	m, _ = b.run(mps.Options{})
	m.Set(mps.Want{GPUs: one, Replicas: 2, OneEach: true})
	b.until("GPU-a", "")
	m.Set(mps.Want{GPUs: two, Replicas: 2, OneEach: true})
	b.until("GPU-b", "changes its GPUs once no pod holds shares: now pod a/b")
	if m.Unhealthy()["GPU-a"] != "" || b.pid() != pid {
		t.Errorf("GPU-a: %q, process %d, was %d", m.Unhealthy()["GPU-a"], b.pid(), pid)
	}
	b.hold()
	m.Freed()
	b.until("GPU-b", "")
	if b.pid() == pid {
		t.Error("the daemon still serves the GPUs of before")
	}
	m.Set(mps.Want{})
	b.await("the end of the daemon", func() bool { return b.pid() == 0 && !b.isExclusive("GPU-b") })
}

// Beside another device plugin no daemon is started, one that runs is left alone also
// at the end, and the agent's own is taken over once that plugin has gone.
func TestADaemonBesideAnotherPluginIsLeftAlone(t *testing.T) {
	b := newBench(t)
	var beside atomic.Bool
	beside.Store(true)
	wait := func(context.Context) string {
		if beside.Load() {
			return "another device plugin serves"
		}
		return ""
	}
	m, stop := b.run(mps.Options{Wait: wait})
	m.Set(mps.Want{GPUs: one, Replicas: 2, OneEach: true})
	b.until("GPU-a", "another device plugin serves")
	if b.pid() != 0 || b.isExclusive("GPU-a") {
		t.Errorf("beside another plugin: process %d, exclusive %v", b.pid(), b.isExclusive("GPU-a"))
	}
	beside.Store(false)
	b.until("GPU-a", "")
	pid := b.pid()
	b.hold("pod a/b")
	stop() // its pod holds shares: it stays

	b.hold()
	beside.Store(true)
	m, stop = b.run(mps.Options{Wait: wait})
	m.Set(mps.Want{GPUs: one, Replicas: 2, OneEach: true})
	b.until("GPU-a", "another device plugin serves")
	m.Set(mps.Want{})
	stop()
	if b.pid() != pid || !b.isExclusive("GPU-a") {
		t.Errorf("process %d, was %d", b.pid(), pid)
	}

	b.hold("pod a/b") // the next agent may look at the daemon before it is told what to serve
	beside.Store(false)
	m, _ = b.run(mps.Options{Wait: wait})
	m.Set(mps.Want{GPUs: one, Replicas: 2, OneEach: true})
	b.until("GPU-a", "")
	if b.pid() != pid {
		t.Error("the daemon of the agent before was not taken over")
	}
}

func TestWantOf(t *testing.T) {
	p, _ := gpu.Find("NVIDIA A100-SXM4-40GB")
	gpus := gpu.New("n", p, 3)
	s := gpu.Sharing{Strategy: gpu.SharingMPS, Replicas: map[string]int{"nvidia.com/gpu": 4}, FailRequestsGreaterThanOne: true}
	all := mps.WantOf(gpus, s)
	if len(all.GPUs) != 3 || all.Replicas != 4 || !all.OneEach || all.GPUs[1] != (mps.GPU{UUID: gpus[1].UUID, Index: 1, MemoryBytes: 40 * gib}) {
		t.Errorf("WantOf = %+v", all)
	}
	s.RenameByDefault, s.Devices = true, map[string][]string{"nvidia.com/gpu": {"1"}}
	if w := mps.WantOf(gpus, s); len(w.GPUs) != 1 || w.GPUs[0] != all.GPUs[1] {
		t.Errorf("WantOf of one GPU = %+v", w)
	}
	gpus[2].Healthy, s.Devices = false, nil
	if w := mps.WantOf(gpus, s); len(w.GPUs) != 2 {
		t.Errorf("WantOf with a lost GPU = %+v", w)
	}
	gpus[0].MIGEnabled = true // MPS is refused beside MIG
	if w := mps.WantOf(gpus, s); len(w.GPUs) != 0 {
		t.Errorf("WantOf beside MIG = %+v", w)
	}
	s.Strategy = gpu.SharingTimeSlicing
	if w := mps.WantOf(gpus[1:], s); len(w.GPUs) != 0 {
		t.Errorf("WantOf of time-slicing = %+v", w)
	}
}

// NVIDIA/k8s-device-plugin#1132, #1595: "using MPS requires --mps-root to be
// specified", which no documentation named. Here it has a default.
func TestTheRootNeedsNotBeGiven(t *testing.T) {
	s, _, err := config.ParseSettings("f", []byte("sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 10}]}}"))
	if err != nil || s.MPSRoot != "/run/nvidia/mps" {
		t.Errorf("MPSRoot = %q, %v", s.MPSRoot, err)
	}
}
