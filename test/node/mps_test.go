//go:build linux

package node_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/agent/mps/mpstest"
)

// mpsDir is the folder of the MPS daemon of GPUs, with pipes and logs in it.
const mpsDir = "/run/nvidia/mps/" + gpuResource

// mpsByFour shares each GPU by MPS; a container has at most one share of a GPU.
const mpsByFour = "version: v1\nsharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n"

// TestMPS shares GPUs by MPS on a real node. The control daemon is one that speaks
// the protocol of NVIDIA's and serves no GPU: what is shown is that containers have
// what makes them its clients, not what it does to them.
func TestMPS(t *testing.T) {
	if !isolated(t) {
		return
	}
	controlProgram(t)
	n := newNode(t)
	n.startKubelet()
	makeNodes(t, 4)
	n.configure(t, mpsByFour)
	n.startAgent(t, wholeGPUs(4), "--config-file", configFile)
	n.offers(t, gpuResource, 16)
	for _, c := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"the daemon is told its GPUs and the limits of a share", n.mpsCommands},
		{"a container is a client of the daemon, within its share", n.mpsClients},
		{"a daemon that dies is started again, with its limits, under a container that runs on", n.mpsDies},
		{"a container with two shares has twice as much", n.mpsTwo},
		{"the daemon stays while shares are held, and ends when they are not", n.mpsEnds},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer n.clear(t)
			c.run(t)
		})
	}
}

// controlProgram puts this very test binary on the PATH of what is started from now
// on, under the name of the control program.
func controlProgram(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := workDir + "/mps-bin"
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, dir+"/nvidia-cuda-mps-control"); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv(mpstest.Variable, mpstest.Program)
}

// mpsPID is the daemon's process; 0 is none.
func mpsPID() int {
	text, err := os.ReadFile(mpsDir + "/pipe/nvidia-cuda-mps-control.pid")
	if err != nil {
		return 0
	}
	pid := 0
	if _, err := fmt.Sscan(string(text), &pid); err != nil || syscall.Kill(pid, 0) != nil {
		return 0
	}
	return pid
}

// mpsTold are the commands of all daemons until now.
func mpsTold(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(mpsDir, "log", mpstest.Commands))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

func (n *node) mpsCommands(t *testing.T) {
	want := []string{
		"start " + strings.Join([]string{uuid(0), uuid(1), uuid(2), uuid(3)}, ","),
		"set_default_device_pinned_mem_limit 0 10240M", "set_default_device_pinned_mem_limit 1 10240M",
		"set_default_device_pinned_mem_limit 2 10240M", "set_default_device_pinned_mem_limit 3 10240M",
		"set_default_active_thread_percentage 25",
	}
	eventually(t, patience, "the daemon is told its GPUs and limits", func() error {
		if got := mpsTold(t); !slices.Equal(got, want) {
			return fmt.Errorf("the daemon was told %q, want %q", got, want)
		}
		return nil
	})
	if got := n.exclusive(t); got != 4 {
		t.Errorf("%d GPUs have compute mode EXCLUSIVE_PROCESS, want 4", got)
	}
}

// exclusive counts the GPUs whose compute mode is MPS's.
func (n *node) exclusive(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(cdiDir + "/berth-fake-gpus.state")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(text), `"exclusive":true`)
}

// quarter is a pod with a share of a GPU committed: MPS divides memory, too.
func quarter(name string, gpu int) *v1.Pod {
	return pod(name, strings.ReplaceAll(commitOf(a100Bytes/4, "c", uuid(gpu)), ":1000", ":250"), 1)
}

func (n *node) mpsClients(t *testing.T) {
	n.apply(uncommitted("client", gpuResource, 1), quarter("committed", 3))
	n.mpsClient(t, "client", "25", "0=10240M")
	n.mpsClient(t, "committed", "25", "0=10240M")
	if err := only(n.sees(t, "committed", "c"), 3); err != nil {
		t.Error(err)
	}
}

// mpsClient asks that a container has the daemon's pipe and shared memory and the
// limits of what it holds, and that the daemon answers at that pipe.
func (n *node) mpsClient(t *testing.T, name, percent, memory string) {
	t.Helper()
	r := n.sees(t, name, "c")
	pipe := "/mps/" + gpuResource + "/pipe"
	for variable, want := range map[string]string{
		"CUDA_MPS_PIPE_DIRECTORY": pipe, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": percent, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": memory,
	} {
		if got := r.Env[variable]; got != want {
			t.Errorf("pod %s: %s is %q, want %q", name, variable, got, want)
		}
	}
	pids := processes(uidOf(name))
	if len(pids) == 0 {
		t.Fatalf("pod %s has no process", name)
	}
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pids[0]))
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{pipe, "/dev/shm"} {
		if !strings.Contains(string(mounts), "/nvidia/mps/") || !strings.Contains(string(mounts), " "+at+" ") {
			t.Errorf("pod %s has nothing of MPS mounted at %s:\n%s", name, at, mounts)
		}
	}
	c, err := net.Dial("unix", fmt.Sprintf("/proc/%d/root%s/control", pids[0], pipe))
	if err != nil {
		t.Fatalf("pod %s reaches no daemon: %v", name, err)
	}
	defer c.Close()
	fmt.Fprintln(c, "get_default_active_thread_percentage")
	if answer, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.HasSuffix(answer, ".0\n") {
		t.Errorf("to pod %s the daemon answers %q, %v", name, answer, err)
	}
}

func (n *node) mpsDies(t *testing.T) {
	n.apply(uncommitted("before", gpuResource, 1))
	n.sees(t, "before", "c")
	old, told := mpsPID(), len(mpsTold(t))
	if old == 0 {
		t.Fatal("there is no daemon to kill")
	}
	if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	const each = 6 // lines: the start, four limits of memory, one of threads
	took := eventually(t, patience, "there is another daemon, with its limits", func() error {
		pid, got := mpsPID(), mpsTold(t)[told:]
		if pid == 0 || pid == old || len(got) < each || !strings.HasPrefix(got[len(got)-each], "start ") {
			return &notYet{fmt.Sprintf("daemon %d was told %q", pid, got)}
		}
		return nil
	})
	t.Logf("figure: a daemon that was killed is started again after %v", took.Round(time.Millisecond))
	n.offers(t, gpuResource, 16)
	n.ranOn(t, "before")
	n.apply(uncommitted("after", gpuResource, 1))
	n.mpsClient(t, "after", "25", "0=10240M")
}

func (n *node) mpsTwo(t *testing.T) {
	n.configure(t, strings.Replace(mpsByFour, "mps: {", "mps: {failRequestsGreaterThanOne: false, ", 1))
	p := quarter("two", 1)
	one := strings.TrimSuffix(strings.TrimPrefix(p.Annotations[devicesAnnotation], `{"c":[`), `]}`)
	p.Annotations[devicesAnnotation] = `{"c":[` + one + "," + one + `]}`
	p.Spec.Containers[0] = container("c", gpuResource, 2)
	eventually(t, patience, "the daemon has no limits of its own any more", func() error {
		if told := mpsTold(t); len(told) == 0 || told[len(told)-1] != "set_default_active_thread_percentage 100" {
			return &notYet{told[len(told)-1]}
		}
		return nil
	})
	n.apply(p)
	n.mpsClient(t, "two", "50", "0=20480M")
}

func (n *node) mpsEnds(t *testing.T) {
	n.configure(t, mpsByFour)
	n.offers(t, gpuResource, 16)
	n.apply(uncommitted("holds", gpuResource, 1))
	n.sees(t, "holds", "c")
	pid := mpsPID()
	n.configure(t, "version: v1\n")
	n.offers(t, gpuResource, 4)
	if now := mpsPID(); pid == 0 || now != pid {
		t.Errorf("under a container with a share, the daemon was %d and is %d", pid, now)
	}
	n.ranOn(t, "holds")
	n.remove(t, "holds")
	took := eventually(t, patience, "the daemon ends", func() error {
		if now := mpsPID(); now != 0 {
			return fmt.Errorf("it is process %d", now)
		}
		return nil
	})
	t.Logf("figure: the daemon has ended %v after the last share was given back", took.Round(time.Millisecond))
	if told := mpsTold(t); len(told) == 0 || told[len(told)-1] != "quit" {
		t.Errorf("the daemon was told %q, and the last of it should be quit", told)
	}
	eventually(t, patience, "the compute modes are as they were", func() error {
		if got := n.exclusive(t); got != 0 {
			return fmt.Errorf("%d are EXCLUSIVE_PROCESS", got)
		}
		return nil
	})
	n.apply(uncommitted("whole", gpuResource, 4))
	r := n.sees(t, "whole", "c")
	if err := realUUIDs(r, 4); err != nil {
		t.Error(err)
	}
	if got := r.Env["CUDA_MPS_PIPE_DIRECTORY"]; got != "" {
		t.Errorf("a container with whole GPUs has CUDA_MPS_PIPE_DIRECTORY=%s", got)
	}
}
