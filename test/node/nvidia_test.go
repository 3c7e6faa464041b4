//go:build linux

package node_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// nvidiaImage is what NVIDIA's manifests call the image of their plugin; its tag is
// the version.
const nvidiaImage = "nvcr.io/nvidia/k8s-device-plugin:"

// nvidiaPlugin and nvidiaLibrary are NVIDIA's own plugin, and the library that
// stands in for the driver's.
const (
	nvidiaPlugin  = "nvidia-device-plugin"
	nvidiaLibrary = "libnvidia-ml.so.1"
)

// importNVIDIA gives the node an image with NVIDIA's plugin, what it is linked
// with, and a driver of that many GPUs, which NVIDIA's runtime would mount. It gives
// the version that the plugin says it has.
func (n *node) importNVIDIA(gpus int) (version string) {
	n.t.Helper()
	said, err := exec.Command(program(nvidiaPlugin), "--version").Output()
	words := strings.Fields(string(said))
	if err != nil || len(words) == 0 {
		n.t.Fatalf("%s --version: %v: %s", nvidiaPlugin, err, said)
	}
	version = words[len(words)-1]
	driver := []string{"driver 570.124.06 12080"}
	for i := range gpus {
		driver = append(driver, fmt.Sprintf("gpu uuid=%s name=NVIDIA_A100-SXM4-40GB bus=00000000:%02X:00.0 memory=40960 major=8", uuid(i), 0x1a+i))
	}
	files := map[string][]byte{"driver/state": []byte(strings.Join(driver, "\n") + "\n")}
	for path, from := range map[string]string{"usr/bin/" + nvidiaPlugin: nvidiaPlugin, "driver/" + nvidiaLibrary: nvidiaLibrary} {
		for _, library := range n.linked(program(from)) {
			files[strings.TrimPrefix(library, "/")] = n.read(library)
		}
		files[path] = n.read(program(from))
	}
	rootfs, err := layer(files)
	if err != nil {
		n.t.Fatal(err)
	}
	archive := filepath.Join(workDir, "nvidia.tar")
	err = writeArchive(archive, image{name: nvidiaImage + version, rootfs: rootfs, entrypoint: []string{"/usr/bin/" + nvidiaPlugin}, env: []string{
		"PATH=/usr/bin", "LD_LIBRARY_PATH=/driver", "NVML_STATE=/driver/state", "NVML_STILL=1",
	}})
	if err != nil {
		n.t.Fatal(err)
	}
	if err := n.ctr("-n", "k8s.io", "images", "import", "--digests=false", "--local", archive); err != nil {
		n.t.Fatal(err)
	}
	return version
}

// linked are the libraries of this machine that a program is linked with.
func (n *node) linked(path string) []string {
	n.t.Helper()
	out, err := exec.Command("ldd", path).CombinedOutput()
	if err != nil {
		n.t.Fatalf("ldd %s: %v: %s", path, err, out)
	}
	var found []string
	for line := range strings.Lines(string(out)) {
		for word := range strings.FieldsSeq(line) {
			if strings.HasPrefix(word, "/") {
				found = append(found, word)
			}
		}
	}
	return found
}

// read reads a file whole.
func (n *node) read(path string) []byte {
	n.t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		n.t.Fatal(err)
	}
	return data
}

// staticManifest is NVIDIA's nvidia-device-plugin.yml, on the node's network: no
// other is here. %s is the image.
const staticManifest = `apiVersion: apps/v1
kind: DaemonSet
metadata: {name: nvidia-device-plugin-daemonset, namespace: kube-system}
spec:
  selector: {matchLabels: {name: nvidia-device-plugin-ds}}
  updateStrategy: {type: RollingUpdate}
  template:
    metadata: {labels: {name: nvidia-device-plugin-ds}}
    spec:
      hostNetwork: true
      tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
      priorityClassName: system-node-critical
      containers:
      - name: nvidia-device-plugin-ctr
        image: %s
        env: [{name: FAIL_ON_INIT_ERROR, value: "false"}]
        securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: ["ALL"]}}
        volumeMounts: [{name: device-plugin, mountPath: /var/lib/kubelet/device-plugins}]
      volumes: [{name: device-plugin, hostPath: {path: /var/lib/kubelet/device-plugins}}]
`

// chartManifest is what NVIDIA's chart makes as release nvdp, with the file that
// helm is given by --set-file config.map.config. The chart's sidecar, which picks
// one of several files by a label of the node, is left out: there is one.
const chartManifest = `apiVersion: v1
kind: ConfigMap
metadata: {name: nvdp-nvidia-device-plugin-configs, namespace: kube-system}
data:
  config: |
    version: v1
    sharing:
      timeSlicing:
        renameByDefault: false
        failRequestsGreaterThanOne: false
        resources:
        - name: nvidia.com/gpu
          replicas: 4
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: nvdp-nvidia-device-plugin, namespace: kube-system}
spec:
  selector: {matchLabels: {app.kubernetes.io/name: nvidia-device-plugin, app.kubernetes.io/instance: nvdp}}
  updateStrategy: {type: RollingUpdate}
  template:
    metadata: {labels: {app.kubernetes.io/name: nvidia-device-plugin, app.kubernetes.io/instance: nvdp}}
    spec:
      hostNetwork: true
      tolerations: [{key: CriticalAddonsOnly, operator: Exists}, {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
      priorityClassName: system-node-critical
      containers:
      - name: nvidia-device-plugin-ctr
        image: %s
        env: [{name: CONFIG_FILE, value: /config/config}]
        securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: ["ALL"]}}
        volumeMounts:
        - {name: device-plugin, mountPath: /var/lib/kubelet/device-plugins}
        - {name: config, mountPath: /config}
      volumes:
      - {name: device-plugin, hostPath: {path: /var/lib/kubelet/device-plugins}}
      - {name: config, configMap: {name: nvdp-nvidia-device-plugin-configs}}
`
