//go:build linux

package node_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// shippedImage is the image that deploy/agent-daemonset.yaml names, as a container
// runtime knows it.
const shippedImage = "docker.io/library/berth-agent:local"

// hostDriver is where the state of the driver's stand-in lies: below a folder that both
// DaemonSets mount.
const hostDriver = "/usr/share/nvml-stand-in"

// installDriver makes the machine one with NVIDIA's driver and toolkit, in a /usr
// that this test's mount namespace alone has: libraries of the driver's version, of
// which that of NVML stands in for the driver's, and the toolkit's hook.
func installDriver(t *testing.T, gpus int) {
	t.Helper()
	const version = "570.124.06"
	upper, work := workDir+"/usr", workDir+"/usr.work"
	for _, dir := range []string{upper, work} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount("overlay", "/usr", "overlay", 0, "lowerdir=/usr,upperdir="+upper+",workdir="+work); err != nil {
		t.Skipf("left out: a driver cannot be laid over /usr: %v", err)
	}
	library, err := os.ReadFile(program(nvidiaLibrary))
	if err != nil {
		t.Fatal(err)
	}
	state := []string{"driver " + version + " 12080", "needs /dev/nvidiactl"}
	for i := range gpus {
		state = append(state, fmt.Sprintf("gpu uuid=%s name=NVIDIA_A100-SXM4-40GB bus=00000000:%02X:00.0 memory=40960 major=8", uuid(i), 0x1a+i))
	}
	for path, data := range map[string][]byte{
		"/usr/lib64/libcuda.so." + version:      nil,
		"/usr/lib64/libnvidia-ml.so." + version: library,
		"/usr/bin/nvidia-ctk":                   []byte("#!/bin/sh\nexit 0\n"),
		hostDriver + "/state":                   []byte(strings.Join(state, "\n") + "\n"),
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"libcuda.so", "libnvidia-ml.so"} {
		if err := os.Symlink(name+"."+version, "/usr/lib64/"+name+".1"); err != nil {
			t.Fatal(err)
		}
	}
}

// nvidiaRuntime stands in for NVIDIA's container runtime: it gives a container whose image
// or pod asks for it by its variable the device nodes of all GPUs, and lets it open them.
// NVIDIA's brings the driver's library as well.
const nvidiaRuntime = `#!/bin/sh
set -e
bundle= before=
for word; do
	[ "$before" != --bundle ] || bundle=$word
	before=$word
done
if [ -n "$bundle" ] && grep -q '"NVIDIA_VISIBLE_DEVICES=all"' "$bundle/config.json"; then
	nodes=$(cd /dev && stat -c '{"path":"/dev/%%n","type":"c","major":%%Hr,"minor":%%Lr,"fileMode":438,"uid":0,"gid":0}' nvidia* | %[1]s -s .)
	%[1]s --argjson nodes "$nodes" '.linux.devices += $nodes |
		.linux.resources.devices += [$nodes[] | {allow: true, type, major, minor, access: "rw"}]' "$bundle/config.json" >"$bundle/config.new"
	mv "$bundle/config.new" "$bundle/config.json"
fi
exec runc "$@"
`

// installRuntime brings the runtime class "nvidia" to the node and to the cluster.
func (s shipped) installRuntime(t *testing.T) {
	t.Helper()
	path := filepath.Join(workDir, "nvidia-container-runtime")
	if err := os.WriteFile(path, fmt.Appendf(nil, nvidiaRuntime, program("jq")), 0o755); err != nil {
		t.Fatal(err)
	}
	s.write("runtimeclass.yaml", "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: nvidia}\nhandler: nvidia\n")
	s.plane.apply(t, filepath.Join(workDir, "runtimeclass.yaml"))
}

// importShipped gives the node the image that docs/tasks/install-node-agent.md has users make: the two
// programs, and what the second is linked with, in place of a distribution. One variable
// is for the test: where the driver's stand-in has its GPUs.
func (n *node) importShipped() {
	n.t.Helper()
	files := map[string][]byte{}
	for _, name := range []string{"berth-agent", "berth-nvml"} {
		files["usr/bin/"+name] = n.read(program(name))
	}
	for _, library := range n.linked(program("berth-nvml")) {
		files[strings.TrimPrefix(library, "/")] = n.read(library)
	}
	rootfs, err := layer(files)
	if err != nil {
		n.t.Fatal(err)
	}
	archive := filepath.Join(workDir, "shipped.tar")
	err = writeArchive(archive, image{name: shippedImage, rootfs: rootfs, entrypoint: []string{"/usr/bin/berth-agent"}, env: []string{
		"PATH=/usr/bin", "NVML_STATE=/driver-root" + hostDriver + "/state",
	}})
	if err != nil {
		n.t.Fatal(err)
	}
	if err := n.ctr("-n", "k8s.io", "images", "import", "--digests=false", "--local", archive); err != nil {
		n.t.Fatal(err)
	}
}
