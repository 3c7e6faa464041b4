//go:build linux

package node_test

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"text/template"

	v1 "k8s.io/api/core/v1"
)

// Where things are in a test's namespaces, where each node is alone.
const (
	workDir     = "/run/berth-node"
	manifestDir = workDir + "/manifests"
	podLogDir   = workDir + "/podlogs"
	cdiDir      = "/run/cdi"
	containerd  = workDir + "/containerd.sock"
	kubeletURL  = "https://127.0.0.1:10250"
	nodeName    = "real-1"
)

// node is a kubelet with containerd and runc.
type node struct {
	t          *testing.T
	kubeconfig string // of the kubelet; "" is a node without an API server
	containerd *process
	kubelet    *process
	agent      *process
	agentArgs  []string
	http       *http.Client
}

// containerdConfig is what containerd needs to run here. CDI is on unless said
// otherwise, in version 2. Its own timeouts of two to five seconds are for machines
// that do nothing else: a container whose shim is late would be taken for dead.
var containerdConfig = template.Must(template.New("").Parse(`version = 3
root = "{{.Work}}/containerd/root"
state = "{{.Work}}/containerd/state"
disabled_plugins = ["io.containerd.nri.v1.nri", "io.containerd.internal.v1.opt", "io.containerd.tracing.processor.v1.otlp"]
[timeouts]
  "io.containerd.timeout.shim.load" = "1m"
  "io.containerd.timeout.shim.cleanup" = "1m"
  "io.containerd.timeout.shim.shutdown" = "1m"
  "io.containerd.timeout.task.state" = "1m"
  "io.containerd.timeout.metrics.shimstats" = "1m"
[grpc]
  address = "{{.Socket}}"
[ttrpc]
  address = "{{.Socket}}.ttrpc"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{{.Pause}}"
[plugins."io.containerd.cri.v1.runtime"]
  cdi_spec_dirs = ["{{.CDI}}"]
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      SystemdCgroup = false
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.nvidia]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.nvidia.options]
      SystemdCgroup = false
      BinaryName = "{{.Work}}/nvidia-container-runtime"
  [plugins."io.containerd.cri.v1.runtime".cni]
    conf_dir = "{{.Work}}/cni"
`))

// kubeletConfig is the kubelet's. Pods use the node's network, and nothing is
// pulled. With an API server the node asks it who may do what.
var kubeletConfig = template.Must(template.New("").Parse(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupRoot: /{{.Cgroup}}
cgroupsPerQOS: true
enforceNodeAllocatable: []
containerRuntimeEndpoint: unix://{{.Socket}}
podLogsDir: {{.Logs}}
volumePluginDir: {{.Work}}/volumeplugins
address: 0.0.0.0
port: 10250
healthzPort: 0
failSwapOn: false
makeIPTablesUtilChains: false
localStorageCapacityIsolation: false
evictionHard: {memory.available: "50Mi"}
resolvConf: ""
registerNode: true
syncFrequency: 1s
fileCheckFrequency: 1s
nodeStatusUpdateFrequency: 1s
maxPods: 300
registryPullQPS: 0
serializeImagePulls: false
eventRecordQPS: 0
crashLoopBackOff: {maxContainerRestartPeriod: 1s}
{{- if .CA}}
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: {{.CA}}}}
authorization: {mode: Webhook}
tlsCertFile: {{.Work}}/kubelet.crt
tlsPrivateKeyFile: {{.Work}}/kubelet.key
{{- else}}
staticPodPath: {{.Manifests}}
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
{{- end}}
`))

// newNode starts containerd with the images, and prepares the rest. What went
// wrong is told with the ends of all logs.
func newNode(t *testing.T) *node {
	t.Helper()
	n := &node{t: t, http: &http.Client{
		Timeout:   answerTime,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, // it signs its own certificate
	}}
	t.Cleanup(n.tails)
	for _, dir := range []string{manifestDir, podLogDir, cdiDir, workDir + "/cni"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	n.render("containerd.toml", containerdConfig, "")
	// Pods have the node's network: no plugin is ever called. A node without a
	// configured one is not Ready.
	n.write("cni/10-lo.conflist", `{"cniVersion":"0.4.0","name":"lo","plugins":[{"type":"loopback"}]}`)
	images := filepath.Join(workDir, "images.tar")
	if err := writeImages(images, program("gpuapp")); err != nil {
		t.Fatal(err)
	}
	n.startContainerd()
	if err := n.ctr("-n", "k8s.io", "images", "import", "--digests=false", "--local", images); err != nil {
		t.Fatal(err)
	}
	return n
}

// startContainerd starts containerd, and waits until it answers.
func (n *node) startContainerd() {
	n.t.Helper()
	n.containerd = startProcess(n.t, workDir, "containerd", nil, program("containerd"), "-c", workDir+"/containerd.toml")
	eventually(n.t, patience, "containerd answers", func() error { return n.ctr("version") })
}

// render writes a configuration.
func (n *node) render(name string, text *template.Template, ca string) {
	n.t.Helper()
	var out bytes.Buffer
	err := text.Execute(&out, map[string]string{
		"Work": workDir, "Socket": containerd, "Pause": pauseImage, "CDI": cdiDir, "Logs": podLogDir,
		"Manifests": manifestDir, "Cgroup": os.Getenv(cgroupVariable), "CA": ca,
	})
	if err != nil {
		n.t.Fatal(err)
	}
	n.write(name, out.String())
}

// write puts a file into the node's work folder at once.
func (n *node) write(name, text string) {
	n.t.Helper()
	if err := replaceFile(filepath.Join(workDir, name), text); err != nil {
		n.t.Fatal(err)
	}
}

// replaceFile puts a file where it is read by others, whole or not at all.
func replaceFile(path, text string) error {
	dir, base := filepath.Split(path)
	temporary := filepath.Join(dir, "."+base)
	if err := os.WriteFile(temporary, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

// ctr runs containerd's client.
func (n *node) ctr(args ...string) error {
	out, err := exec.Command(program("ctr"), append([]string{"-a", containerd}, args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ctr %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// startKubelet starts the kubelet, and waits until it answers.
func (n *node) startKubelet() {
	n.t.Helper()
	args := []string{
		program("kubelet"), "--config", workDir + "/kubelet.yaml", "--root-dir", kubeletDir,
		"--hostname-override", nodeName, "--cert-dir", workDir + "/pki", "--node-ip", nodeIP, "--v=2",
	}
	ca := ""
	if n.kubeconfig != "" {
		args = append(args, "--kubeconfig", n.kubeconfig)
		ca = workDir + "/ca.crt"
	}
	n.render("kubelet.yaml", kubeletConfig, ca)
	n.kubelet = startProcess(n.t, workDir, "kubelet", nil, args...)
	eventually(n.t, patience, "the kubelet answers", func() error {
		if n.kubelet.ended() {
			n.t.Fatal("the kubelet has ended")
		}
		response, err := n.http.Get(kubeletURL + "/healthz")
		if err == nil {
			response.Body.Close()
		}
		return err
	})
}

// restartKubelet ends the kubelet, as an upgrade does, and starts it anew.
func (n *node) restartKubelet() {
	n.t.Helper()
	n.kubelet.stop(n.t, syscall.SIGTERM)
	n.startKubelet()
}

// get asks the kubelet.
func (n *node) get(path string) ([]byte, error) {
	response, err := n.http.Get(kubeletURL + path)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s: %s", path, response.Status, body)
	}
	return body, err
}

// pods are the kubelet's, as it sees them.
func (n *node) pods() (map[string]v1.Pod, error) {
	body, err := n.get("/pods")
	if err != nil {
		return nil, err
	}
	var list v1.PodList
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, err
	}
	byName := map[string]v1.Pod{}
	for _, p := range list.Items {
		byName[strings.TrimSuffix(p.Name, "-"+nodeName)] = p
	}
	return byName, nil
}

// tails tells how every log ends, where the test has failed.
func (n *node) tails() {
	if !n.t.Failed() {
		return
	}
	logs, _ := filepath.Glob(filepath.Join(workDir, "*.log"))
	for _, path := range logs {
		lines := 30
		if filepath.Base(path) == "containerd.log" {
			lines = 8
		}
		n.t.Logf("%s ends:\n%s", filepath.Base(path), tail(path, lines))
	}
}
