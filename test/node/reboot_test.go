//go:build linux

package node_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
)

// powerOff ends every process of the node at once, and takes away what is in
// memory alone: mounts, cgroups, sockets, the state of containerd and its shims,
// and the folder of CDI specs. Disks stay: the kubelet's folder with its
// checkpoint and the dead sockets of plugins in it, images, manifests, logs.
func (n *node) powerOff(t *testing.T) {
	t.Helper()
	self := os.Getpid()
	var alive []int
	eventually(t, patience, "all processes of the node end", func() error {
		alive = alive[:0]
		found, _ := filepath.Glob("/proc/[0-9]*/stat")
		for _, path := range found {
			var pid int
			var state string
			if _, err := fmt.Sscanf(path, "/proc/%d/", &pid); err != nil || pid == 1 || pid == self {
				continue
			}
			data, err := os.ReadFile(path)
			if err != nil {
				continue // ended
			}
			if _, err := fmt.Sscan(string(data[slices.Index(data, ')')+1:]), &state); err == nil && state != "Z" {
				alive = append(alive, pid)
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
			}
		}
		if len(alive) > 0 {
			return fmt.Errorf("processes %v are there", alive)
		}
		return nil
	})
	unmount(t, workDir+"/containerd/", kubeletDir+"/pods/", "/run/containerd/")
	for _, path := range []string{workDir + "/containerd/state", "/run/containerd", "/run/runc", containerd, containerd + ".ttrpc"} {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{cdiDir, "/dev/shm"} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				t.Fatal(err)
			}
		}
	}
	roots, _, err := hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	for _, root := range roots {
		dir := filepath.Join(root, os.Getenv(cgroupVariable))
		eventually(t, patience, "the groups of pods are gone", func() error {
			entries, err := os.ReadDir(dir)
			if err != nil {
				return err
			}
			for _, e := range entries {
				if e.IsDir() {
					err = errors.Join(err, removeGroups(filepath.Join(dir, e.Name())))
				}
			}
			return err
		})
	}
}

// unmount takes away what is mounted below folders, the last first.
func unmount(t *testing.T, folders ...string) {
	t.Helper()
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	for _, line := range slices.Backward(lines) {
		at := strings.Fields(line)[4]
		if !slices.ContainsFunc(folders, func(f string) bool { return strings.HasPrefix(at, f) }) {
			continue
		}
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
			t.Fatalf("unmount %s: %v", at, err)
		}
	}
}

// TestReboot takes the power from a node whose GPUs are all held, twice.
//
// The first time the kubelet is there before the agent, as it always is where the
// agent is a DaemonSet. A kubelet rejects pods with devices then, whoever's plugin
// it is, and their controllers make new ones (kubernetes/kubernetes#109595). The
// second time it hears of its pods when the agent is there already, as where the
// API server is away for a while: then the same pods start again.
func TestReboot(t *testing.T) {
	if !isolated(t) {
		return
	}
	n := newWholeNode(t, a100, 4)
	n.apply(pod("a", commit("c", uuid(3)), 1), pod("b", commit("c", uuid(0)+","+uuid(2)), 2), uncommitted("other", gpuResource, 1))
	for name, want := range map[string][]int{"a": {3}, "b": {0, 2}, "other": {1}} {
		n.has(t, name, want...)
	}
	var pods rebooted
	if !t.Run("the kubelet is there before the agent", func(t *testing.T) { pods = n.rebootKubeletFirst(t) }) {
		return
	}
	t.Run("the agent is there before the pods", func(t *testing.T) { n.rebootAgentFirst(t, pods) })
}

// has asks that a container sees these GPUs.
func (n *node) has(t *testing.T, name string, indexes ...int) {
	t.Helper()
	r := n.sees(t, name, "c")
	if len(r.Nodes) == 0 { // told by the environment alone
		var want []string
		for _, i := range indexes {
			want = append(want, uuid(i))
		}
		if got := visible(r); !slices.Equal(got, want) {
			t.Errorf("pod %s has %v, and should have %v", name, got, want)
		}
		return
	}
	if err := only(r, indexes...); err != nil {
		t.Errorf("pod %s: %v", name, err)
	}
}

// specs are the names of the CDI devices that containers may start with.
func specs(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(cdiDir, "berth-alloc-*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func (n *node) rebootKubeletFirst(t *testing.T) rebooted {
	n.powerOff(t)
	n.startContainerd()
	n.startKubelet()
	for _, name := range []string{"a", "b", "other"} {
		n.waits(t, name, "Failed", "UnexpectedAdmissionError", "no healthy devices present")
	}
	watch := startWatch()
	n.runAgent(t)
	n.offers(t, gpuResource, 4)
	watch.within(t, "after the agent's start the node has its capacity")
	n.held(t, 0)
	if left := specs(t); len(left) > 0 {
		t.Errorf("for pods that are no more there is %v", left)
	}
	after := rebooted{
		a:     n.replacement(t, func(name string) *v1.Pod { return pod(name, commit("c", uuid(0)), 1) }),
		b:     n.replacement(t, func(name string) *v1.Pod { return pod(name, commit("c", uuid(1)+","+uuid(3)), 2) }),
		other: n.replacement(t, func(name string) *v1.Pod { return uncommitted(name, gpuResource, 1) }),
	}
	after.have(t, n)
	n.remove(t, "a", "b", "other")
	n.offers(t, gpuResource, 4)
	return after
}

// rebooted are the names of the pods that have taken the place of others.
type rebooted struct{ a, b, other string }

func (r rebooted) names() []string { return []string{r.b, r.a, r.other} }

// have asks that each pod has its own GPUs.
func (r rebooted) have(t *testing.T, n *node) {
	t.Helper()
	n.has(t, r.a, 0)
	n.has(t, r.b, 1, 3)
	n.has(t, r.other, 2)
	n.held(t, 4)
	eventually(t, patience, "there is a spec for each of three pods", func() error {
		if got := specs(t); len(got) != 3 {
			return fmt.Errorf("there is %v", got)
		}
		return nil
	})
}

// replacement does what a controller does: it makes another pod whenever one was
// rejected, which a kubelet does until it has let go of what the pods held that it
// has rejected itself. It gives the name of the one that runs.
func (n *node) replacement(t *testing.T, as func(name string) *v1.Pod) string {
	t.Helper()
	name := ""
	eventually(t, patience, "a new pod starts", func() error {
		rejected := name != "" && strings.Contains(n.state(name), "UnexpectedAdmissionError")
		if rejected {
			n.remove(t, name)
		}
		if name == "" || rejected {
			name = fmt.Sprint("new-", serial.Add(1))
			n.apply(as(name))
		}
		if _, err := reported(name, "c"); err != nil {
			return fmt.Errorf("%w: %s", err, n.state(name))
		}
		return nil
	})
	return name
}

func (n *node) rebootAgentFirst(t *testing.T, pods rebooted) {
	n.powerOff(t)
	aside := workDir + "/aside"
	if err := os.Rename(manifestDir, aside); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(manifestDir, 0o755); err != nil {
		t.Fatal(err)
	}
	before := map[string]string{}
	for _, name := range pods.names() {
		before[name] = n.lastReport(t, name)
	}
	n.startContainerd()
	n.startKubelet()
	n.runAgent(t)
	n.offers(t, gpuResource, 4)
	for _, name := range pods.names() {
		if err := os.Rename(filepath.Join(aside, name+".json"), filepath.Join(manifestDir, name+".json")); err != nil {
			t.Fatal(err)
		}
		eventually(t, patience, "pod "+name+" starts again", func() error {
			if got := n.lastReport(t, name); got == "" || got == before[name] {
				return &notYet{n.state(name)}
			}
			return nil
		})
	}
	pods.have(t, n)
	n.remove(t, pods.names()...)
	n.held(t, 0)
	if left := specs(t); len(left) > 0 {
		t.Errorf("for pods that are no more there is %v", left)
	}
}

// lastReport is the line, with its time, in which a pod's container has reported
// that runs now or has run last; "" is none yet. A kubelet that does not know the
// pod for a while may remove its logs, so their names say nothing.
func (n *node) lastReport(t *testing.T, name string) string {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(podLogDir, "*_"+name+"-"+nodeName+"_*", "c", "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	if len(logs) == 0 {
		return ""
	}
	text, err := os.ReadFile(logs[len(logs)-1])
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	line, _, whole := strings.Cut(string(text), "\n")
	if !whole {
		return ""
	}
	return line
}
