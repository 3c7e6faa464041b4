//go:build linux

package node_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
)

// chartConfig is the ConfigMap that NVIDIA's chart makes as release nvdp.
const chartConfig = `apiVersion: v1
kind: Namespace
metadata: {name: nvidia-device-plugin}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: nvdp-nvidia-device-plugin-configs, namespace: nvidia-device-plugin}
data:
  config: |
    version: v1
    sharing:
      timeSlicing:
        resources:
        - name: nvidia.com/gpu
          replicas: 4
`

// shares brings the chart's ConfigMap under the agent that runs, with the commands of
// docs/tasks/switch-from-nvidias-plugin.md.
func (s shipped) shares(t *testing.T) {
	s.write("chart-config.yaml", chartConfig)
	s.plane.apply(t, filepath.Join(workDir, "chart-config.yaml"))
	commands := guide(t, "kubectl create configmap nvidia-device-plugin-configs")
	cmd := exec.Command("sh", "-e", "-c", commands)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(planeDir, "kubeconfig"), "HOME="+workDir, "PATH="+filepath.Dir(program("kubectl"))+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s\n%s", err, commands, out)
	}
	s.offersOnAPI(t, gpuResource, 16)
	s.says(t, "device-plugin  DaemonSet kube-system/berth-agent local (Berth's agent), 1 of 1 ready", "berth", "doctor")
	if c, err := s.container(t); err != nil || c.RestartCount != 0 {
		t.Errorf("the agent was restarted: %+v, %v", c, err)
	}
}

// fake has the other DaemonSet on the node, as docs/tasks/fake-gpus.md says.
func (s shipped) fake(t *testing.T) {
	s.apply(t, "agent-fake.yaml")
	s.run(t, "kubectl", "label", "node", nodeName, api.LabelFakeGPUs+"=true")
	eventually(t, patience, "the inventory is of GPUs that do not exist", func() error {
		n, err := s.client.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
		if has := n.Annotations["berth.dev/inventory"]; err == nil && (has == "" || strings.Contains(has, uuid(0))) {
			err = fmt.Errorf("it is %s", has)
		}
		return err
	})
	s.ready(t)
	left, err := s.client.CoreV1().Pods("kube-system").List(t.Context(), metav1.ListOptions{LabelSelector: "app=berth-agent"})
	if err != nil || slices.ContainsFunc(left.Items, func(p v1.Pod) bool { return p.DeletionTimestamp == nil }) {
		t.Errorf("%v; the agent of GPUs that exist is on the node, too: %v", err, left)
	}
	r := s.make(t, s.now(t, asking("pretends", gpuResource, 1)))
	if got := r.Env["BERTH_FAKE_GPUS"]; got != "true" {
		t.Errorf("the pod's variables are %v", r.Env)
	}
}

// guide returns the commands of docs/tasks/switch-from-nvidias-plugin.md from the line that begins with a text to
// the end of its block.
func guide(t *testing.T, begins string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/tasks/switch-from-nvidias-plugin.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), begins)
	block, _, ends := strings.Cut(after, "```")
	if !found || !ends {
		t.Fatalf("docs/tasks/switch-from-nvidias-plugin.md has no commands that begin with %q", begins)
	}
	return begins + block
}
