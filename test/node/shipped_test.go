//go:build linux

package node_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// shipped is a joined node whose agent is the DaemonSet of deploy/.
type shipped struct{ joined }

// TestShippedDaemonSet applies deploy/agent.yaml and deploy/agent-daemonset.yaml to a
// node with NVIDIA's driver, or what stands in for it, and nothing else: no label, no
// ConfigMap. So it is with NVIDIA's static manifest and on a fresh node.
//
// rows: AS-28 AS-36
func TestShippedDaemonSet(t *testing.T) {
	if _, err := os.Stat(program(nvidiaLibrary)); err != nil {
		t.Skipf("left out: %v: tools/node.sh builds it where it can", err)
	}
	if !isolated(t) {
		return
	}
	s := shipped{joined: join(t)}
	t.Cleanup(func() { s.tells(t) })
	installDriver(t, 4)
	s.importShipped()
	s.proxyAPI(t)
	s.apply(t, "agent.yaml", "agent-daemonset.yaml")
	for _, c := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"the node has its GPUs and labels from it", s.serves},
		{"a pod has its GPU from the driver that it reads", s.gives},
		{"it has no rights that it does not use", s.rights},
		{"the ConfigMap of NVIDIA's chart, copied as the guide says, is in force without a restart", s.shares},
		{"a label sends it away, and brings GPUs that do not exist", s.fake},
	} {
		if !t.Run(c.name, c.run) {
			return // the rest goes on from it
		}
	}
}

// apply applies files of deploy/ as they are. The one change is the network: pods have
// the node's, for no other is here.
func (s shipped) apply(t *testing.T, names ...string) {
	t.Helper()
	const account = "      serviceAccountName: berth-agent\n"
	for _, name := range names {
		text, err := os.ReadFile("../../deploy/" + name)
		if err != nil {
			t.Fatal(err)
		}
		s.write(name, strings.ReplaceAll(string(text), account, account+"      hostNetwork: true\n"))
		s.plane.apply(t, filepath.Join(workDir, name))
	}
}

// container is that of the DaemonSet's pod.
func (s shipped) container(t *testing.T) (v1.ContainerStatus, error) {
	t.Helper()
	list, err := s.client.CoreV1().Pods("kube-system").List(t.Context(), metav1.ListOptions{LabelSelector: "app=berth-agent"})
	if err != nil {
		return v1.ContainerStatus{}, err
	}
	if len(list.Items) != 1 || len(list.Items[0].Status.ContainerStatuses) != 1 {
		return v1.ContainerStatus{}, fmt.Errorf("the DaemonSet has %d pods: %+v", len(list.Items), list.Items)
	}
	return list.Items[0].Status.ContainerStatuses[0], nil
}

// tells gives the ends of the agent's logs, where the test has failed.
func (s shipped) tells(t *testing.T) {
	if !t.Failed() {
		return
	}
	logs, _ := filepath.Glob(podLogDir + "/kube-system_berth-agent*/agent/*.log") // the pattern is well formed
	for _, path := range logs {
		t.Logf("%s ends:\n%s", path, tail(path, 30))
	}
}

// serves waits for what the DaemonSet makes of the node.
func (s shipped) serves(t *testing.T) {
	s.ready(t)
	n, err := s.client.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB", "nvidia.com/gpu.count": "4", "nvidia.com/gpu.memory": "40960",
		"nvidia.com/cuda.driver-version.full": "570.124.06", "berth.dev/allocation": "committed", "berth.dev/fake-gpus": "",
	} {
		if got := n.Labels[name]; got != want {
			t.Errorf("label %s is %q, want %q", name, got, want)
		}
	}
	if got := n.Status.Capacity[gpuResource]; got.Value() != 4 {
		t.Errorf("the node's capacity is %s GPUs, want 4", got.String())
	}
}

// now labels the node, and gives a pod a selector of it: the scheduler that places it
// has seen the node as it is now.
func (s shipped) now(t *testing.T, p *v1.Pod) *v1.Pod {
	t.Helper()
	label := "berth.dev-test/" + p.Name
	s.run(t, "kubectl", "label", "node", nodeName, label+"=yes")
	p.Spec.NodeSelector = map[string]string{label: "yes"}
	return p
}

// gives runs a pod of Berth's scheduler: driver, CDI generator, ledger and runtime
// are all those of a node with GPUs.
func (s shipped) gives(t *testing.T) {
	r := s.make(t, s.now(t, asking("trains", gpuResource, 1)))
	gpus := s.committed(t, "trains")
	if len(gpus) != 1 {
		t.Fatalf("the pod was bound with GPUs %v", gpus)
	}
	if err := only(r, gpus...); err != nil {
		t.Error(err)
	}
	s.attributed(t, "trains", uuid(gpus[0]))
	specs, err := filepath.Glob(cdiDir + "/*.json")
	if err != nil {
		t.Fatal(err)
	}
	var said []byte
	for _, path := range specs {
		said = append(said, s.read(path)...)
	}
	for _, want := range []string{"/usr/lib64/libcuda.so.570.124.06", "/usr/bin/nvidia-ctk", uuid(gpus[0])} {
		if !strings.Contains(string(said), want) {
			t.Errorf("the container was given no %s:\n%s", want, said)
		}
	}
	if strings.Contains(string(said), "/driver-root") {
		t.Errorf("the container was given paths of the agent's own container:\n%s", said)
	}
	s.clear(t)
}

// rights asks the API server what the agent may do with pods.
func (s shipped) rights(t *testing.T) {
	for verb, want := range map[string]string{"list": "yes", "watch": "yes", "get": "no", "delete": "no"} {
		out, _ := s.output("kubectl", "auth", "can-i", verb, "pods", "--as", "system:serviceaccount:kube-system:berth-agent") // "no" is exit code 1
		if got := strings.TrimSpace(out); got != want {
			t.Errorf("kubectl auth can-i %s pods says %q, want %s", verb, got, want)
		}
	}
}
