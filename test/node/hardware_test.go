//go:build linux

package node_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/agent/nvml"
)

// realVariable has TestRealGPU run, and the machine's device nodes of GPUs be in the
// namespaces of the tests. test/hardware/run.sh sets it to 1 on a machine with a GPU.
const realVariable = "BERTH_NODE_REAL"

// driverImage is that of a container which asks the driver for the GPUs that it sees.
const driverImage = "localhost/berth-nvml:dev"

// TestRealGPU commits a GPU of this machine to a pod: kubelet, containerd and agent give its
// container that GPU, by the driver's own answer.
func TestRealGPU(t *testing.T) {
	if os.Getenv(realVariable) != "1" {
		t.Skip("not run: it is for machines with a GPU; test/hardware/run.sh runs it")
	}
	hook := ""
	for _, name := range []string{"nvidia-cdi-hook", "nvidia-ctk"} {
		if path, err := exec.LookPath(name); err == nil && hook == "" {
			hook = path
		}
	}
	if hook == "" {
		t.Skip("not run: neither nvidia-cdi-hook nor nvidia-ctk is on the PATH: install the NVIDIA Container Toolkit")
	}
	root := cmp.Or(os.Getenv("BERTH_DRIVER_ROOT"), "/")
	if strings.HasPrefix(root+"/", "/run/") {
		t.Skipf("not run: the driver is in %s, and this node has a /run of its own", root)
	}
	if lacking == "" && len(withoutMIG(t)) == 0 {
		t.Skip("not run: no GPU of this machine is without MIG")
	}
	if !isolated(t) {
		return
	}
	n := newNode(t)
	n.startKubelet()
	n.givesItsGPU(t, root, hook, nil)
}

// TestDriverGPU is TestRealGPU on a library that stands in for the driver's, with a stand-in
// for the hooks of NVIDIA's toolkit.
func TestDriverGPU(t *testing.T) {
	if _, err := os.Stat(program(nvidiaLibrary)); err != nil {
		t.Skipf("left out: %v: tools/node.sh builds it where it can", err)
	}
	if !isolated(t) {
		return
	}
	n := newNode(t)
	root, state := workDir+"/driver", workDir+"/driver/state"
	lib := root + "/usr/lib64"
	if err := os.MkdirAll(lib, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		lib + "/libnvidia-ml.so.570.124.06": n.read(program(nvidiaLibrary)),
		lib + "/libcuda.so.570.124.06":      nil,
		state:                               []byte("driver 570.124.06 12080\ngpu uuid=" + uuid(0) + " name=NVIDIA_H200 bus=00000000:1A:00.0 memory=143771\n"),
		workDir + "/nvidia-cdi-hook":        []byte(strings.ReplaceAll(hookScript, "STATE", state)),
	} {
		if err := os.WriteFile(name, data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for to, link := range map[string]string{"libnvidia-ml.so.570.124.06": "libnvidia-ml.so.1", "libcuda.so.570.124.06": "libcuda.so.1"} {
		if err := os.Symlink(to, filepath.Join(lib, link)); err != nil {
			t.Fatal(err)
		}
	}
	makeNodes(t, 1)
	if err := os.Symlink("/dev", root+"/dev"); err != nil {
		t.Fatal(err)
	}
	t.Setenv("LD_LIBRARY_PATH", lib)
	t.Setenv("NVML_STATE", state)
	n.startKubelet()
	n.givesItsGPU(t, root, workDir+"/nvidia-cdi-hook", []v1.EnvVar{{Name: "NVML_STATE", Value: state}})
}

// hookScript stands in for nvidia-cdi-hook: it runs ldconfig in the root folder of the
// container, which it also gives the file that the stand-in for the driver reads.
const hookScript = `#!/bin/sh
set -eu
root=$(sed 's/.*"bundle":"\([^"]*\)".*/\1/')/rootfs
mkdir -p "$root$(dirname STATE)"
cp STATE "$root"STATE
[ "$1" != update-ldcache ] || ldconfig -r "$root" "$3"
`

// givesItsGPU starts the agent on the driver under root, and commits the last whole GPU to a
// pod. env is for the pod's container.
func (n *node) givesItsGPU(t *testing.T, root, hook string, env []v1.EnvVar) {
	t.Helper()
	whole := withoutMIG(t)
	g := whole[len(whole)-1]
	n.importDriver()
	n.agentArgs = []string{
		program("berth-agent"), "--node-name", nodeName, "--kubelet-dir", kubeletDir, "--cdi-dir", cdiDir, "--listen", "127.0.0.1:9400", "--interval", "1s",
		"--pods", "kubelet", "--kubelet-url", kubeletURL, "--scheduler-names", berthScheduler,
		"--nvidia-driver-root", root, "--container-driver-root", root, "--nvidia-cdi-hook-path", hook,
	}
	n.runAgent(t)
	n.offers(t, gpuResource, len(whole))
	p := pod("real", commitOf(g.MemoryBytes, "c", g.UUID), 1)
	p.Spec.Containers[0].Image, p.Spec.Containers[0].Args = driverImage, []string{"driver"}
	p.Spec.Containers[0].Env = append(env, v1.EnvVar{Name: roleVariable, Value: roleDriver})
	n.apply(p)
	defer n.clear(t)
	r := n.sees(t, "real", "c")
	t.Logf("figure: pod real was given %s of %d whole GPUs, and its driver shows %v %s; nodes %v", g.UUID, len(whole), r.GPUs, r.Failed, r.Nodes)
	if len(r.GPUs) != 1 || r.GPUs[0] != g.UUID {
		t.Errorf("the container's driver shows %v %s, and %s was committed", r.GPUs, r.Failed, g.UUID)
	}
	if own := fmt.Sprint("/dev/nvidia", g.Minor); r.Nodes[own] != "allowed" {
		t.Errorf("opening %s is %q, want it allowed", own, r.Nodes[own])
	}
	for path, answer := range r.Nodes {
		if minor, ok := strings.CutPrefix(path, "/dev/nvidia"); ok && strings.Trim(minor, "0123456789") == "" && minor != fmt.Sprint(g.Minor) {
			t.Errorf("the container has %s (%s), which was not committed", path, answer)
		}
	}
}

// withoutMIG asks the driver for its GPUs, without those that MIG is on for.
func withoutMIG(t *testing.T) []nvml.GPU {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := nvml.Start(ctx, nvml.Options{Command: []string{program("berth-nvml")}})
	s, err := c.Snapshot(ctx)
	cancel()
	c.Wait()
	if err != nil || s.Failed != "" {
		t.Fatalf("ask the driver for its GPUs: %v %s", err, s.Failed)
	}
	return slices.DeleteFunc(s.GPUs, func(g nvml.GPU) bool { return g.MIGEnabled })
}

// beDriver is the process of a container that says what the driver and /dev show there.
func beDriver() int {
	r := report{Nodes: map[string]string{}}
	ctx, cancel := context.WithCancel(context.Background())
	c := nvml.Start(ctx, nvml.Options{Command: []string{"/berth-nvml"}})
	s, err := c.Snapshot(ctx)
	cancel()
	c.Wait()
	if r.Failed = s.Failed; err != nil {
		r.Failed = err.Error()
	}
	for _, g := range s.GPUs {
		r.GPUs = append(r.GPUs, g.UUID)
	}
	found, _ := filepath.Glob("/dev/nvidia*") // the pattern is well formed
	for _, path := range found {
		r.Nodes[path] = "allowed"
		if fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK, 0); err == nil {
			_ = unix.Close(fd) // nothing was written
		} else if err != unix.ENXIO && err != unix.ENODEV {
			r.Nodes[path] = err.Error()
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		return 1
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, unix.SIGTERM)
	<-end
	return 0
}

// importDriver gives the node an image of this test's program, which can ask a driver, with
// the libraries of this machine that programs with a driver are linked with.
func (n *node) importDriver() {
	n.t.Helper()
	files := map[string][]byte{"gpuapp": n.read("/proc/self/exe"), "berth-nvml": n.read(program("berth-nvml"))}
	for _, library := range n.linked(program("berth-nvml")) {
		files[strings.TrimPrefix(library, "/")] = n.read(library)
	}
	rootfs, err := layer(files)
	if err != nil {
		n.t.Fatal(err)
	}
	archive := filepath.Join(workDir, "driver.tar")
	if err := writeArchive(archive, image{name: driverImage, rootfs: rootfs, entrypoint: []string{"/gpuapp"}, env: []string{"PATH=/usr/bin"}}); err != nil {
		n.t.Fatal(err)
	}
	if err := n.ctr("-n", "k8s.io", "images", "import", "--digests=false", "--local", archive); err != nil {
		n.t.Fatal(err)
	}
}

// realNodes returns the device nodes of the machine's GPUs, where tests are to see them.
func realNodes() map[string]uint64 {
	out := map[string]uint64{}
	if os.Getenv(realVariable) != "1" {
		return out
	}
	for _, pattern := range []string{"/dev/nvidia*", "/dev/nvidia-caps/*"} {
		found, _ := filepath.Glob(pattern) // the pattern is well formed
		for _, path := range found {
			var info unix.Stat_t
			if err := unix.Stat(path, &info); err == nil && info.Mode&unix.S_IFMT == unix.S_IFCHR {
				out[path] = info.Rdev
			}
		}
	}
	return out
}

// makeReal makes nodes anew.
func makeReal(nodes map[string]uint64) error {
	for path, number := range nodes {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(number)); err != nil {
			return fmt.Errorf("make %s: %w", path, err)
		}
		if err := os.Chmod(path, 0o666); err != nil {
			return err
		}
	}
	return nil
}
