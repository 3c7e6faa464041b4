//go:build linux

package node_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// newWholeNode starts a node of whole GPUs that runs and offers all of them.
func newWholeNode(t *testing.T, product string, count int, args ...string) *node {
	t.Helper()
	began := time.Now()
	n := newNode(t)
	n.startKubelet()
	makeNodes(t, count)
	n.startAgent(t, gpus(product, count, nil), args...)
	n.offers(t, gpuResource, count)
	t.Logf("figure: a node with %d GPUs is ready in %v", count, time.Since(began).Round(time.Millisecond))
	return n
}

// TestCommittedDevices holds the node agent to what the scheduler commits: by a
// real kubelet, containerd and runc, each container gets its pod's devices or
// does not start. The pods are static ones, which need no API server.
func TestCommittedDevices(t *testing.T) {
	if !isolated(t) {
		return
	}
	n := newWholeNode(t, a100, 16)
	for _, c := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"an init container, a sidecar and two containers each get their own", n.everyContainer},
		{"the commitment wins over what the kubelet picked", n.mismatch},
		{"one container gets several GPUs", n.several},
		{"sixteen pods at once each get theirs", n.burst},
		{"a container that starts again gets the same", n.restarted},
		{"without a commitment a container waits, and starts as soon as there is one", n.late},
		{"a commitment that cannot be read is refused", n.malformed},
		{"a commitment of a GPU that another pod holds is refused", n.forged},
		{"a commitment of a GPU that is not there is refused", n.unknown},
		{"a commitment of fewer devices than asked for is refused", n.short},
		{"an image that wants all GPUs gets none", n.wantsAll},
		{"while the agent is away, what runs goes on and what starts waits for it", n.agentAway},
		{"a full disk keeps a container from starting until there is room", n.fullDisk},
		{"nothing is left of pods that are gone", n.stale},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer n.clear(t)
			c.run(t)
		})
	}
}

// everyContainer commits four different GPUs to the four containers of a pod.
func (n *node) everyContainer(t *testing.T) {
	p := pod("four", commit("setup", uuid(5), "side", uuid(3), "a", uuid(7), "b", uuid(1)), 0)
	setup, side := container("setup", gpuResource, 1), container("side", gpuResource, 1)
	setup.Args = []string{"once"}
	side.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
	p.Spec.InitContainers = []v1.Container{setup, side}
	p.Spec.Containers = []v1.Container{container("a", gpuResource, 1), container("b", gpuResource, 1)}
	n.apply(p)
	for name, gpu := range map[string]int{"setup": 5, "side": 3, "a": 7, "b": 1} {
		if err := only(n.sees(t, "four", name), gpu); err != nil {
			t.Errorf("container %s: %v", name, err)
		}
	}
}

// mismatch gives two pods each the GPU that the kubelet would pick for the
// other, or any but its pick.
func (n *node) mismatch(t *testing.T) {
	before := n.differences(t)
	n.apply(pod("one", commit("c", uuid(3)), 1))
	r := n.sees(t, "one", "c")
	if err := only(r, 3); err != nil {
		t.Error(err)
	}
	if got := r.Env["BERTH_DEVICES"]; got != uuid(3) {
		t.Errorf("the environment tells the container of %q", got)
	}
	n.apply(pod("two", commit("c", uuid(2)), 1))
	if err := only(n.sees(t, "two", "c"), 2); err != nil {
		t.Error(err)
	}
	one, err := picks("one")
	if err != nil {
		t.Fatal(err)
	}
	two, err := picks("two")
	if err != nil {
		t.Fatal(err)
	}
	after := grows(t, n.differences, before)
	t.Logf("figure: the kubelet picked %v and %v where GPU 3 and GPU 2 were committed; %v differences counted", one, two, after-before)
	n.attributed(t, "one-"+nodeName, uuid(3))
}

// grows waits until a count is more than it was: a scrape may be a second old.
func grows(t *testing.T, count func(*testing.T) float64, before float64) float64 {
	t.Helper()
	var after float64
	eventually(t, patience, "it is counted", func() error {
		if after = count(t); after <= before {
			return fmt.Errorf("the count is %v, as before", after)
		}
		return nil
	})
	return after
}

// differences is how often the agent has set the kubelet's pick aside.
func (n *node) differences(t *testing.T) float64 {
	families, _ := scrape(t)
	value, _ := sum(families, "berth_commitment_differences_total")
	return value
}

func (n *node) several(t *testing.T) {
	n.apply(pod("several", commit("c", uuid(15)+","+uuid(2)+","+uuid(8)), 3))
	if err := only(n.sees(t, "several", "c"), 15, 2, 8); err != nil {
		t.Error(err)
	}
}

// burst commits GPU 15-i to pod i.
func (n *node) burst(t *testing.T) {
	began := time.Now()
	var pods []*v1.Pod
	for i := range 16 {
		pods = append(pods, pod(fmt.Sprint("burst-", i), commit("c", uuid(15-i)), 1))
	}
	n.apply(pods...)
	for i := range 16 {
		if err := only(n.sees(t, fmt.Sprint("burst-", i), "c"), 15-i); err != nil {
			t.Errorf("pod %d: %v", i, err)
		}
	}
	t.Logf("figure: 16 pods at once run with their GPUs after %v", time.Since(began).Round(time.Millisecond))
}

// crash makes a container end as a program that failed.
func (n *node) crash(t *testing.T, name string) {
	t.Helper()
	pids := processes(uidOf(name))
	if len(pids) != 1 {
		t.Fatalf("pod %s has processes %v", name, pids)
	}
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// again waits until a container runs that was started again.
func (n *node) again(t *testing.T, name string) {
	t.Helper()
	eventually(t, patience, "pod "+name+" starts again", func() error {
		if _, err := os.Stat(filepath.Join(podLogDir, "default_"+name+"-"+nodeName+"_"+name+"-uid", "c", "1.log")); err != nil {
			return fmt.Errorf("%w: %s", err, n.state(name))
		}
		return nil
	})
}

func (n *node) restarted(t *testing.T) {
	n.apply(pod("crash", commit("c", uuid(6)), 1))
	n.sees(t, "crash", "c")
	n.crash(t, "crash")
	n.again(t, "crash")
	if err := only(n.sees(t, "crash", "c"), 6); err != nil {
		t.Error(err)
	}
}

func (n *node) late(t *testing.T) {
	n.apply(pod("late", "", 1))
	n.waits(t, "late", "CreateContainerConfigError", "berth.dev/devices")
	t.Logf("figure: without a commitment: %s", n.state("late"))
	began := time.Now()
	n.apply(pod("late", commit("c", uuid(4)), 1))
	if err := only(n.sees(t, "late", "c"), 4); err != nil {
		t.Error(err)
	}
	t.Logf("figure: a late commitment was picked up in %v", time.Since(began).Round(time.Millisecond))
}

// refusals is how often the agent has refused to start a container.
func (n *node) refusals(t *testing.T) float64 {
	families, _ := scrape(t)
	value, _ := sum(families, "berth_commitment_refusals_total")
	return value
}

func (n *node) malformed(t *testing.T) {
	before := n.refusals(t)
	n.apply(pod("malformed", `{"c":[{"uuid":`, 1))
	n.waits(t, "malformed", "CreateContainerConfigError", "berth.dev/devices")
	t.Logf("figure: a malformed commitment: %s", n.state("malformed"))
	grows(t, n.refusals, before)
	n.apply(pod("malformed", commit("c", uuid(0)), 1))
	if err := only(n.sees(t, "malformed", "c"), 0); err != nil {
		t.Errorf("once it can be read: %v", err)
	}
}

// forged commits a GPU that another pod has. When that pod is gone, the other
// one gets it.
func (n *node) forged(t *testing.T) {
	n.apply(pod("holder", commit("c", uuid(2)), 1))
	n.sees(t, "holder", "c")
	n.apply(pod("forged", commit("c", uuid(2)), 1))
	n.waits(t, "forged", "CreateContainerConfigError", "holder")
	t.Logf("figure: a forged commitment: %s", n.state("forged"))
	n.remove(t, "holder")
	if err := only(n.sees(t, "forged", "c"), 2); err != nil {
		t.Error(err)
	}
}

func (n *node) unknown(t *testing.T) {
	n.apply(pod("unknown", commit("c", "GPU-of-another-node"), 1))
	n.waits(t, "unknown", "CreateContainerConfigError", "GPU-of-another-node")
}

func (n *node) short(t *testing.T) {
	n.apply(pod("short", commit("c", uuid(1)), 2))
	n.waits(t, "short", "CreateContainerConfigError")
	t.Logf("figure: one device committed of two: %s", n.state("short"))
}

// wantsAll is k8s-device-plugin issues 87, 203 and 342: an image with
// NVIDIA_VISIBLE_DEVICES=all, as NVIDIA's CUDA images are made, sees every GPU
// though its pod asked for none. The device plugin is not called for such a pod,
// so what is shown is that nothing is injected. Where NVIDIA's runtime is the
// default one it reads that variable itself, and needs
// accept-nvidia-visible-devices-envvar-when-unprivileged=false.
//
// NVIDIA/k8s-device-plugin#87 NVIDIA/k8s-device-plugin#203 NVIDIA/k8s-device-plugin#342
func (n *node) wantsAll(t *testing.T) {
	all := uncommitted("all", gpuResource, 0)
	all.Spec.Containers[0].Image = allImage
	given := pod("given", commit("c", uuid(9)), 1)
	given.Spec.Containers[0].Image = allImage
	n.apply(all, given)
	r := n.sees(t, "all", "c")
	if err := only(r); err != nil {
		t.Error(err)
	}
	if got := r.Env["NVIDIA_VISIBLE_DEVICES"]; got != "all" {
		t.Errorf("NVIDIA_VISIBLE_DEVICES is %q: the image's own has nobody changed", got)
	}
	r = n.sees(t, "given", "c")
	if err := only(r, 9); err != nil {
		t.Error(err)
	}
	if got := r.Env["NVIDIA_VISIBLE_DEVICES"]; got == "all" {
		t.Error("the image's NVIDIA_VISIBLE_DEVICES=all is left to a container that has one GPU")
	}
}

// agentAway kills the agent while one pod runs, and then that pod's container.
func (n *node) agentAway(t *testing.T) {
	n.apply(pod("stays", commit("c", uuid(11)), 1), pod("fails", commit("c", uuid(12)), 1))
	n.sees(t, "stays", "c")
	n.sees(t, "fails", "c")
	n.killAgent(t)
	n.offersWithoutAgent(t, 0)
	n.crash(t, "fails")
	n.waits(t, "fails", "CreateContainerConfigError", "waits")
	began := time.Now()
	n.runAgent(t)
	n.offers(t, gpuResource, 16)
	t.Logf("figure: capacity is back %v after the agent's start", time.Since(began).Round(time.Millisecond))
	n.again(t, "fails")
	if err := only(n.sees(t, "fails", "c"), 12); err != nil {
		t.Error(err)
	}
	n.ranOn(t, "stays")
	n.apply(pod("wants", commit("c", uuid(11)), 1))
	n.waits(t, "wants", "CreateContainerConfigError", "stays") // it knows who held what
}

// offersWithoutAgent waits for a number of GPUs while no agent runs.
func (n *node) offersWithoutAgent(t *testing.T, count int) {
	t.Helper()
	eventually(t, patience, "the kubelet misses the agent", func() error {
		got, err := allocatable(gpuResource)
		if err == nil && got != count {
			err = fmt.Errorf("it has %d GPUs", got)
		}
		return err
	})
}

// fullDisk fills the disk of the CDI specs: nothing half-written may stand for a
// container's devices, and nobody need restart anything when there is room again.
func (n *node) fullDisk(t *testing.T) {
	filler := filepath.Join(cdiDir, "filler")
	if err := os.WriteFile(filler, make([]byte, 8<<20), 0o644); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("filling the disk gives %v", err)
	}
	n.apply(pod("full", commit("c", uuid(1)), 1))
	n.waits(t, "full", "CreateContainerConfigError", "no space left on device")
	t.Logf("figure: on a full disk: %s", n.state("full"))
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if err := only(n.sees(t, "full", "c"), 1); err != nil {
		t.Error(err)
	}
}

// stale waits until no CDI spec is left of any pod.
func (n *node) stale(t *testing.T) {
	took := eventually(t, patience, "all CDI specs are removed", func() error {
		left, err := filepath.Glob(filepath.Join(cdiDir, "berth-alloc-*"))
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("%d are left: %s", len(left), tail(left[0], 3))
		}
		return err
	})
	n.held(t, 0)
	t.Logf("figure: specs of the last pods were gone in %v", took.Round(time.Millisecond))
}
