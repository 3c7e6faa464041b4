package deviceplugin_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"berth.dev/berth/agent/deviceplugin"
	"berth.dev/berth/agent/deviceplugin/kubelettest"
)

// Complaints about capacity that is 0, or is that of devices which are no
// longer there, after a kubelet restarts or a GPU is cut again. The tests that
// are named after issues do what the people who wrote them did.

const (
	mig1g = "nvidia.com/mig-1g.5gb"
	mig7g = "nvidia.com/mig-7g.40gb"
)

// NVIDIA/k8s-device-plugin#1228: capacity and allocatable are 0 at some point,
// the plugin runs, and its log has nothing after "Registered device plugin".
// The kubelet had dropped the plugin and kubelet.sock stayed as it was, which
// the plugin does not look out for.
func TestIssue1228CapacityIs0AndThePluginRuns(t *testing.T) {
	dir := folder(t)
	k := start(t, dir)
	serve(t, deviceplugin.Options{Dir: dir}, offering(gpus, "gpu", 8))
	await(t, k, gpus, 8, 8)
	socket, err := os.Stat(filepath.Join(dir, "kubelet.sock"))
	if err != nil {
		t.Fatal(err)
	}
	k.Drop(gpus)
	await(t, k, gpus, 8, 8)
	if err := k.Admit(wait(t), pod("a", map[string]int{gpus: 8})); err != nil {
		t.Errorf("the resource is counted, and cannot be had: %v", err)
	}
	if now, err := os.Stat(filepath.Join(dir, "kubelet.sock")); err != nil || !os.SameFile(now, socket) {
		t.Errorf("kubelet.sock was made anew (%v), which is not this issue", err)
	}
}

// NVIDIA/k8s-device-plugin#58: "allocatable stuck at zero", capacity 16. The
// kubelet counts the devices of a plugin that has gone, as unhealthy; and a
// plugin that came again did not change that.
func TestIssue58AllocatableIsNotStuckAtZero(t *testing.T) {
	dir := folder(t)
	k := start(t, dir)
	stop := serve(t, deviceplugin.Options{Dir: dir}, offering(gpus, "gpu", 16))
	await(t, k, gpus, 16, 16)
	stop()
	await2(t, k, func(c, a int) bool { return c == 16 && a == 0 }) // as in the issue
	serve(t, deviceplugin.Options{Dir: dir}, offering(gpus, "gpu", 16))
	await(t, k, gpus, 16, 16)
	if err := k.Admit(wait(t), pod("a", map[string]int{gpus: 16})); err != nil {
		t.Error(err)
	}
}

// NVIDIA/k8s-device-plugin#240: MIG is enabled and GPUs are cut, the plugin is
// restarted, they are cut again, it is restarted again; then the node has
// nvidia.com/gpu: 8, mig-1g.5gb: 56 and mig-7g.40gb: 8, all at once.
func TestIssue240ResourcesOfBeforeTheCutAreGone(t *testing.T) {
	cuts := []map[string][]deviceplugin.Device{
		{gpus: devices("gpu", 8)},
		{mig7g: devices("mig-7g.40gb", 8)},
		{mig1g: devices("mig-1g.5gb", 56)},
	}
	all := []string{gpus, mig7g, mig1g}
	check := func(t *testing.T, k *kubelettest.Kubelet, offer map[string][]deviceplugin.Device, clock *atomic.Int64) {
		t.Helper()
		for _, r := range all {
			if d, ok := offer[r]; ok {
				await(t, k, r, len(d), len(d))
			}
		}
		err := k.Await(wait(t), func() bool {
			for _, r := range all {
				if _, a, _ := k.Capacity(r); offer[r] == nil && (a != 0 || k.Streams(r) != 0) {
					return false // or its end is yet to be noticed, from which on it is forgotten
				}
			}
			return true
		})
		if err != nil {
			t.Fatalf("devices of before can still be had: %v", err)
		}
		clock.Add(int64(kubelettest.StopGrace + time.Second))
		for _, r := range all {
			if _, _, known := k.Capacity(r); known && offer[r] == nil {
				t.Errorf("the node still names %s", r)
			}
		}
	}
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("agent restarted: %v", restart), func(t *testing.T) {
			dir := folder(t)
			var clock atomic.Int64
			k := kubelettest.New(dir, 1)
			k.Now = func() time.Time { return time.Unix(0, clock.Load()) }
			if err := k.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(k.Stop)
			n := newNode(cuts[0])
			stop := serve(t, deviceplugin.Options{Dir: dir}, n)
			check(t, k, cuts[0], &clock)
			for _, cut := range cuts[1:] {
				if restart {
					stop()
				}
				for _, r := range all {
					n.set(r, cut[r])
				}
				if restart {
					stop = serve(t, deviceplugin.Options{Dir: dir}, n)
				}
				check(t, k, cut, &clock)
			}
		})
	}
}

// NVIDIA/k8s-device-plugin#389: "Is restarting the plugin the only way to
// update the node GPU profile after mig-enabled GPUs get repartitioned?" It is
// not, and what is offered again after a while is found again.
func TestIssue389CutsAreFollowedWithoutARestart(t *testing.T) {
	dir := folder(t)
	k := start(t, dir)
	n := newNode(map[string][]deviceplugin.Device{gpus: devices("gpu", 7), mig1g: devices("mig-1g.5gb", 7)})
	serve(t, deviceplugin.Options{Dir: dir}, n)
	await(t, k, gpus, 7, 7)
	await(t, k, mig1g, 7, 7)
	for range 5 {
		n.set(mig1g, nil)
		n.set(mig7g, devices("mig-7g.40gb", 1))
		await(t, k, mig7g, 1, 1)
		n.set(mig7g, nil)
		n.set(mig1g, devices("mig-1g.5gb", 7))
		await(t, k, mig1g, 7, 7)
	}
	if got := len(k.Registrations(gpus)); got != 1 {
		t.Errorf("%s was registered %d times, want once: it was not cut", gpus, got)
	}
	if err := k.Admit(wait(t), pod("a", map[string]int{mig1g: 7})); err != nil {
		t.Error(err)
	}
}

// After the kubelet has restarted, the node counts what it counted before, with
// MIG and shares as well. NVIDIA/k8s-device-plugin#426 is of this theme too. How
// long it takes is BenchmarkKubeletRestart's to say.
func TestAllResourcesSurviveAKubeletRestart(t *testing.T) {
	dir := folder(t)
	k := start(t, dir)
	offers := map[string][]deviceplugin.Device{
		gpus: devices("gpu", 4), mig1g: devices("mig-1g.5gb", 7), mig7g: devices("mig-7g.40gb", 1),
		"nvidia.com/gpu.shared": devices("gpu.shared", 40), "nvidia.com/gpu-memory": devices("gpu-memory", 640),
	}
	sick := devices("gpu", 4)
	sick[1].Healthy = false
	offers[gpus] = sick
	serve(t, deviceplugin.Options{Dir: dir}, newNode(offers))
	check := func() {
		t.Helper()
		for r, d := range offers {
			healthy := len(d)
			if r == gpus {
				healthy--
			}
			await(t, k, r, len(d), healthy)
		}
	}
	check()
	for range 5 {
		k.Kill()
		if err := k.Start(); err != nil {
			t.Fatal(err)
		}
		check()
	}
}

// NVIDIA/k8s-device-plugin#1698: after a certain time the node has 0 GPUs, and
// a restart of the plugin did not help every time. The kubelet's bookkeeping
// has come apart: it reads the plugin's devices and calls it stopped.
func TestIssue1698AKubeletThatDroppedThePluginIsNoticed(t *testing.T) {
	dir := folder(t)
	var mu sync.Mutex
	clock := time.Now()
	k := kubelettest.New(dir, 1)
	k.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return clock }
	if err := k.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Stop)
	n := offering(gpus, "gpu", 8)
	serve(t, deviceplugin.Options{Dir: dir}.Quick(), n)
	await(t, k, gpus, 8, 8)
	for what, noticed := range map[string]func(){
		"another resource has changed": func() { n.set(mig1g, devices("mig-1g.5gb", 7)) },
		"the kubelet has forgotten the resource": func() {
			mu.Lock()
			clock = clock.Add(kubelettest.StopGrace + time.Second)
			mu.Unlock()
			if _, _, known := k.Capacity(gpus); known {
				t.Fatal("the kubelet still names the resource, which is not this issue")
			}
		},
	} {
		k.Lose(gpus)
		noticed() // the kubelet writes its checkpoint
		await(t, k, gpus, 8, 8)
		if err := k.Admit(wait(t), pod("a", map[string]int{gpus: 8})); err != nil {
			t.Errorf("after %s: %v", what, err)
		}
		k.Remove("a")
	}
}
