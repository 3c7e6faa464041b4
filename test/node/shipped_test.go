//go:build linux

package node_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
)

// shipped is a joined node whose agent is the DaemonSet of deploy/.
type shipped struct{ joined }

// TestShippedDaemonSet applies deploy/agent.yaml and both DaemonSets, one after the other,
// to a node with NVIDIA's driver and runtime, or what stands in for them, and with the
// label of a fresh node that nothing else has labeled. There is no ConfigMap, as with
// NVIDIA's static manifest.
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
	s.installRuntime(t)
	s.proxyAPI(t)
	s.apply(t, "agent.yaml", "agent-daemonset.yaml")
	for _, c := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"a node without a label of GPUs has no agent", s.chooses},
		{"without privileges, the node has its GPUs and labels from it", s.serves},
		{"it has no capability and sees no process of the node", s.unprivileged},
		{"it gives its metrics to those who may read them", s.guards},
		{"a pod has its GPU from the driver that it reads", s.gives},
		{"it has no rights that it does not use", s.rights},
		{"the privileged one replaces it", s.privileged},
		{"the node has its GPUs and labels from that one, too", s.serves},
		{"and a pod its GPU", s.gives},
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
	p, err := s.agentPod(t)
	if err == nil && len(p.Status.ContainerStatuses) != 1 {
		err = fmt.Errorf("its pod has no container yet: %+v", p.Status)
	}
	if err != nil {
		return v1.ContainerStatus{}, err
	}
	return p.Status.ContainerStatuses[0], nil
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

// chooses sees that the DaemonSet wants no pod, and labels the node as docs/tasks/install-node-agent.md says.
func (s shipped) chooses(t *testing.T) {
	wants := func(n int32) func() error {
		return func() error {
			set, err := s.client.AppsV1().DaemonSets("kube-system").Get(t.Context(), "berth-agent", metav1.GetOptions{})
			if err == nil && (set.Status.ObservedGeneration < set.Generation || set.Status.DesiredNumberScheduled != n) {
				err = fmt.Errorf("its status is %+v", set.Status)
			}
			return err
		}
	}
	eventually(t, patience, "the DaemonSet wants no pod", wants(0))
	s.run(t, "kubectl", "label", "node", nodeName, api.LabelAgent+"=true")
	eventually(t, patience, "the DaemonSet wants a pod on the node", wants(1))
}

// agentPod is the DaemonSet's pod, once it is the only one.
func (s shipped) agentPod(t *testing.T) (*v1.Pod, error) {
	t.Helper()
	list, err := s.client.CoreV1().Pods("kube-system").List(t.Context(), metav1.ListOptions{LabelSelector: "app=berth-agent"})
	if err != nil {
		return nil, err
	}
	if len(list.Items) != 1 {
		return nil, fmt.Errorf("the DaemonSet has %d pods", len(list.Items))
	}
	return &list.Items[0], nil
}

// unprivileged asks the kernel what the agent may.
func (s shipped) unprivileged(t *testing.T) {
	p, err := s.agentPod(t)
	if err != nil {
		t.Fatal(err)
	}
	agents := processesOf(p.UID, "/usr/bin/berth-")
	if len(agents) < 2 {
		t.Errorf("%d processes of the agent were found, want it and its child", len(agents))
	}
	for _, pid := range agents {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"CapEff:\t0000000000000000\n", "CapPrm:\t0000000000000000\n", "CapBnd:\t0000000000000000\n", "NoNewPrivs:\t1\n", "Seccomp:\t2\n"} {
			if !strings.Contains(string(status), want) {
				t.Errorf("process %d of the agent is not %q:\n%s", pid, want, status)
			}
		}
		own, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
		if ours, _ := os.Readlink("/proc/self/ns/pid"); err != nil || own == ours {
			t.Errorf("%v; process %d of the agent sees the processes of the node", err, pid)
		}
		for path, want := range map[string]bool{"/driver-root/usr/lib64/libcuda.so.570.124.06": true, "/driver-root/etc": false, "/driver-root/root": false, "/driver-root/var": false} {
			if _, err := os.Stat(fmt.Sprintf("/proc/%d/root%s", pid, path)); (err == nil) != want {
				t.Errorf("whether process %d of the agent sees %s: %v, want %v", pid, path, err, want)
			}
		}
	}
}

// guards asks for the metrics as nobody, as a tenant, as Prometheus and as `berth nodes`.
func (s shipped) guards(t *testing.T) {
	s.run(t, "kubectl", "create", "serviceaccount", "tenant")
	tenant := strings.TrimSpace(s.run(t, "kubectl", "create", "token", "tenant"))
	for _, c := range []struct {
		name, token string
		want        int
	}{{"nobody", "x", 401}, {"a tenant", tenant, 403}, {"Prometheus", s.token(t), 200}} {
		metricsToken = c.token
		r, err := askMetrics(t)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		if r.StatusCode != c.want {
			t.Errorf("%s is answered with %s, want %d", c.name, r.Status, c.want)
		}
	}
	r, err := http.Get(metricsURL)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusBadRequest {
		t.Errorf("HTTP without TLS is answered with %s", r.Status)
	}
}

// privileged applies the other DaemonSet, and waits until its pod has replaced the first.
func (s shipped) privileged(t *testing.T) {
	old, err := s.agentPod(t)
	if err != nil {
		t.Fatal(err)
	}
	s.apply(t, "agent-daemonset-privileged.yaml")
	eventually(t, patience, "the pod is replaced by a privileged one that is ready", func() error {
		p, err := s.agentPod(t)
		if err != nil {
			return err
		}
		c := p.Spec.Containers[0].SecurityContext
		if p.UID == old.UID || c.Privileged == nil || !*c.Privileged || len(p.Status.ContainerStatuses) == 0 || !p.Status.ContainerStatuses[0].Ready {
			return fmt.Errorf("pod %s is %s", p.Name, p.Status.Phase)
		}
		return nil
	})
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
	for line := range strings.Lines(s.run(t, "berth", "nodes")) {
		if f := strings.Fields(line); f[0] == nodeName && f[4] == "-" {
			t.Errorf("berth nodes does not read the agent's metrics: %s", line)
		}
	}
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

// rights asks the API server what the agent may do with pods as itself: nothing. What it
// may as its node, and what its policies refuse, is in test/script/agent-process.txtar.
func (s shipped) rights(t *testing.T) {
	for verb, want := range map[string]string{"list": "no", "watch": "no", "get": "no", "delete": "no"} {
		out, _ := s.output("kubectl", "auth", "can-i", verb, "pods", "--as", "system:serviceaccount:kube-system:berth-agent") // "no" is exit code 1
		if got := strings.TrimSpace(out); got != want {
			t.Errorf("kubectl auth can-i %s pods says %q, want %s", verb, got, want)
		}
	}
}
