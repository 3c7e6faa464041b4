package deviceplugin_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"berth.dev/berth/agent/deviceplugin"
	"berth.dev/berth/agent/deviceplugin/kubelettest"
)

// away restarts the kubelet and gives the time from the moment at which it
// began to accept plugins, or a little before, to the registration.
func away(t testing.TB, k *kubelettest.Kubelet, resource string) time.Duration {
	t.Helper()
	n := len(k.Registrations(resource))
	k.Kill()
	begin := time.Now()
	if err := k.Start(); err != nil {
		t.Fatal(err)
	}
	if err := k.Await(wait(t), func() bool { return len(k.Registrations(resource)) > n }); err != nil {
		t.Fatal(err)
	}
	return k.Registrations(resource)[n].At.Sub(begin)
}

// How long it takes is the benchmarks' to judge.
func TestAHundredKubeletRestarts(t *testing.T) {
	dir := folder(t)
	k := start(t, dir)
	serve(t, deviceplugin.Options{Dir: dir}, newNode(map[string][]deviceplugin.Device{
		gpus: devices("gpu", 8), "nvidia.com/mig-1g.10gb": devices("mig-1g.10gb", 7),
	}))
	await(t, k, gpus, 8, 8)
	if err := k.Admit(wait(t), pod("a", map[string]int{gpus: 3})); err != nil {
		t.Fatal(err)
	}
	var times []time.Duration
	for range 100 {
		times = append(times, away(t, k, gpus))
		await(t, k, gpus, 8, 8)
		await(t, k, "nvidia.com/mig-1g.10gb", 7, 7)
	}
	slices.Sort(times)
	t.Logf("registered again after %s (median), %s (longest)", times[50], times[99])
	if got := len(k.Held()); got != 1 {
		t.Errorf("%d containers hold devices, want the one of before", got)
	}
	if _, err := k.StartContainer(wait(t), "a", "c"); err != nil {
		t.Errorf("a container of before does not restart: %v", err)
	}
}

func TestAKubeletThatIsAwayIsWaitedFor(t *testing.T) {
	dir := folder(t)
	c := new(deviceplugin.Counters)
	serve(t, deviceplugin.Options{Dir: dir, Counters: c}, offering(gpus, "gpu", 8))
	awaitFile(t, filepath.Join(dir, "berth-nvidia-gpu.sock"), func(_ os.FileInfo, err error) bool { return err == nil })
	k := start(t, dir) // removes that socket
	await(t, k, gpus, 8, 8)
	k.Stop() // takes kubelet.sock away
	if err := k.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, k, gpus, 8, 8)
}

func TestARefusedRegistrationIsTriedAgain(t *testing.T) {
	dir := folder(t)
	k := start(t, dir)
	n := offering("bad name", "gpu", 8)
	c := new(deviceplugin.Counters)
	serve(t, deviceplugin.Options{Dir: dir, Counters: c}.Quick(), n)
	n.set(gpus, devices("gpu", 8)) // one refusal is no other resource's business
	await(t, k, gpus, 8, 8)
	if err := k.Await(wait(t), func() bool { return len(k.Registrations("bad name")) >= 3 }); err != nil {
		t.Fatal(err)
	}
	if r := k.Registrations("bad name")[2]; r.Err == nil {
		t.Error("the kubelet accepted a name that it must refuse")
	}
	if c.RegistrationFailures.Load() < 2 {
		t.Errorf("%d failures counted, want two and more", c.RegistrationFailures.Load())
	}
}

func TestASocketThatSomebodyDeletesComesBack(t *testing.T) {
	dir := folder(t)
	k := start(t, dir)
	n := offering(gpus, "gpu", 8)
	serve(t, deviceplugin.Options{Dir: dir}, n)
	await(t, k, gpus, 8, 8)
	path := filepath.Join(dir, "berth-nvidia-gpu.sock")
	for range 10 {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		awaitFile(t, path, func(i os.FileInfo, err error) bool { return err == nil && i.Mode()&fs.ModeSocket != 0 })
	}
	// The kubelet's connection outlives the file: nothing was lost, and pods
	// were admitted all the time.
	if got := k.Registrations(gpus); len(got) != 1 {
		t.Errorf("%d registrations, want 1: the kubelet never lost the plugin", len(got))
	}
	n.set(gpus, devices("gpu", 6))
	await(t, k, gpus, 6, 6)
	// And what is at the path now is a server that a kubelet can reach.
	away(t, k, gpus)
	await(t, k, gpus, 6, 6)
}

func TestASocketDeletedWhileTheKubeletHasLostThePlugin(t *testing.T) {
	dir := folder(t)
	k := start(t, dir)
	serve(t, deviceplugin.Options{Dir: dir}, offering(gpus, "gpu", 8))
	await(t, k, gpus, 8, 8)
	if err := os.Remove(filepath.Join(dir, "berth-nvidia-gpu.sock")); err != nil {
		t.Fatal(err)
	}
	k.Drop(gpus)
	await(t, k, gpus, 8, 8)
}

func TestAnAgentThatWasKilledLeavesNothingInTheWay(t *testing.T) {
	dir := folder(t)
	for _, name := range []string{"berth-nvidia-gpu.sock", "berth-nvidia-mig-7g.80gb.sock", "other.sock"} {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, name), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		stale(t, l)
	}
	path := filepath.Join(dir, "berth-nvidia-gpu.sock")
	old, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	stop := serve(t, deviceplugin.Options{Dir: dir}, offering(gpus, "gpu", 8))
	awaitFile(t, path, func(i os.FileInfo, err error) bool { return err == nil && !i.ModTime().Equal(old.ModTime()) })
	if got, want := sockets(t, dir), []string{"berth-nvidia-gpu.sock", "other.sock"}; !slices.Equal(got, want) {
		t.Errorf("sockets %v, want %v: ours, and those of others", got, want)
	}
	stop()
	if got, want := sockets(t, dir), []string{"other.sock"}; !slices.Equal(got, want) {
		t.Errorf("sockets after the end %v, want %v", got, want)
	}
}

func TestAnAgentThatRestartsIsRegisteredAgain(t *testing.T) {
	dir := folder(t)
	k := start(t, dir)
	n := offering(gpus, "gpu", 8)
	for i := range 20 {
		stop := serve(t, deviceplugin.Options{Dir: dir}, n)
		await(t, k, gpus, 8, 8)
		uid := fmt.Sprint(i)
		if err := k.Admit(wait(t), pod(uid, map[string]int{gpus: 8})); err != nil {
			t.Fatal(err)
		}
		k.Remove(uid)
		stop()
		await2(t, k, func(c, a int) bool { return c == 8 && a == 0 })
	}
}

// await2 waits until ok is true of capacity and allocatable GPUs.
func await2(t testing.TB, k *kubelettest.Kubelet, ok func(capacity, allocatable int) bool) {
	t.Helper()
	if err := k.Await(wait(t), func() bool { c, a, _ := k.Capacity(gpus); return ok(c, a) }); err != nil {
		t.Fatal(err)
	}
}

func TestAFileInTheWayIsNamedAndLeft(t *testing.T) {
	dir := folder(t)
	k := start(t, dir)
	path := filepath.Join(dir, "berth-nvidia-gpu.sock")
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	said := newLog("exists but is not a socket: remove it")
	serve(t, deviceplugin.Options{Dir: dir, Log: said.logger()}.Quick(), offering(gpus, "gpu", 8))
	said.await(t)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	await(t, k, gpus, 8, 8)
}

func TestAFullDiskIsNamedAndOutlived(t *testing.T) {
	dir, full, done := smallDisk(t)
	defer done()
	k := start(t, dir)
	n := offering(gpus, "gpu", 8)
	said := newLog("no space for a socket: free some on the file system of " + dir)
	serve(t, deviceplugin.Options{Dir: dir, Log: said.logger()}.Quick(), n)
	await(t, k, gpus, 8, 8)
	for i := 0; ; i++ {
		err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("fill-%d", i)), nil, 0o600)
		if errors.Is(err, full) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	n.set("nvidia.com/mig-1g.10gb", devices("mig-1g.10gb", 7))
	said.await(t)
	n.set(gpus, devices("gpu", 5)) // what was there goes on
	await(t, k, gpus, 5, 5)
	if err := os.Remove(filepath.Join(dir, "fill-0")); err != nil {
		t.Fatal(err)
	}
	await(t, k, "nvidia.com/mig-1g.10gb", 7, 7)
}

func TestNoGoroutineIsLeft(t *testing.T) {
	dir := folder(t)
	before := runtime.NumGoroutine()
	k := kubelettest.New(dir, 1)
	if err := k.Start(); err != nil {
		t.Fatal(err)
	}
	stop := serve(t, deviceplugin.Options{Dir: dir}, offering(gpus, "gpu", 8))
	await(t, k, gpus, 8, 8)
	stop()
	k.Stop()
	// gRPC's transports end by themselves once closed.
	for end := time.Now().Add(30 * time.Second); runtime.NumGoroutine() > before && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if got := runtime.NumGoroutine(); got > before {
		buf := make([]byte, 1<<16)
		t.Errorf("%d goroutines, %d before:\n%s", got, before, buf[:runtime.Stack(buf, true)])
	}
}
