//go:build linux

package node_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// schedulerUser is who the scheduler of `berth up` is: nobody else may bind a
// pod with devices.
const schedulerUser = "system:kube-scheduler"

// joinedGPUs are four that can be partitioned with MIG at any time.
var joinedGPUs = strings.ReplaceAll(wholeGPUs(4), "uuid:", "autoReset: true, uuid:")

// joined is a real node of a control plane that `berth up` runs.
type joined struct {
	*node
	*plane
}

// TestRealNode joins a real node to Berth's own control plane: a pod that asks
// for a GPU is bound by Berth's scheduler to named devices, and its container
// sees exactly those.
//
// rows: NB-06 GS-34
func TestRealNode(t *testing.T) {
	if !isolated(t) {
		return
	}
	began := time.Now()
	j := join(t)
	j.write("mig.yaml", migConfigs)
	j.serve(t, joinedGPUs, "--mig-strategy", "mixed", "--mig-config-file", workDir+"/mig.yaml")
	j.ready(t)
	t.Logf("figure: a control plane with a real node of 4 GPUs is ready in %v", time.Since(began).Round(time.Millisecond))
	for _, c := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"the node says what it has", j.described},
		{"a pod gets the GPUs that the scheduler chose", j.chosen},
		{"the commitment wins over the kubelet's pick", j.mismatch},
		{"nobody but the scheduler commits devices", j.forged},
		{"pods share a GPU by memory", j.memory},
		{"a pod without the scheduler is seen, too", j.observed},
		{"a notebook of a profile keeps its volume when it stops and when it is preempted", j.notebook},
		{"a GPU that another program cuts is in the inventory, and none is cut under a pod", j.byHand},
		{"a label cuts idle GPUs by MIG, and the scheduler gives the parts", j.cut},
		{"a pod that is deleted by force keeps its GPU until its container is gone", j.force},
		{"an agent writes to no other node", j.ownNode},
		{"a container runs on while the control plane and the agent start again", j.restarts},
		{"a GPU that fails is shown, told of and not given", j.fails},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer j.clear(t)
			c.run(t)
		})
	}
}

// join starts a control plane and a node of it, with device nodes of four GPUs and no
// agent yet, and waits until the kubelet has registered.
func join(t *testing.T) joined {
	t.Helper()
	return joinFleet(t, "none")
}

// joinFleet is join for a control plane that has simulated nodes, too.
func joinFleet(t *testing.T, fleet string) joined {
	t.Helper()
	j := joinBare(t, fleet)
	makeNodes(t, 4)
	return j
}

// joinBare is joinFleet for a node without GPUs.
func joinBare(t *testing.T, fleet string) joined {
	t.Helper()
	p := startPlane(t, fleet)
	n := newNode(t)
	p.identity(t)
	n.kubeconfig = workDir + "/kubelet.kubeconfig"
	n.startKubelet()
	eventually(t, patience, "the kubelet registers the node", func() error {
		_, err := p.client.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
		return err
	})
	return joined{n, p}
}

// serve starts an agent that serves the GPUs of a file to the pods of both schedulers.
func (j joined) serve(t *testing.T, gpus string, flags ...string) {
	t.Helper()
	j.startAgent(t, gpus, append(flags, "--pods", "api", "--kubeconfig", j.agentKubeconfig(t), "--scheduler-names", berthScheduler+","+v1.DefaultSchedulerName)...)
}

// ready waits until pods can come.
func (j joined) ready(t *testing.T) {
	t.Helper()
	eventually(t, patience, "the node is ready, with its GPUs", func() error {
		n, err := j.client.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range n.Status.Conditions {
			if c.Type == v1.NodeReady && c.Status != v1.ConditionTrue {
				return fmt.Errorf("the node is not ready: %s", c.Message)
			}
		}
		if got := n.Status.Allocatable[gpuResource]; got.Value() != 4 {
			return fmt.Errorf("the node has %s of %s", got.String(), gpuResource)
		}
		if n.Annotations["berth.dev/inventory"] == "" || len(n.Spec.Taints) > 0 {
			return fmt.Errorf("its annotations are %v, its taints %v", n.Annotations, n.Spec.Taints)
		}
		return nil
	})
}

// described is what the agent has written on the Node.
func (j joined) described(t *testing.T) {
	n, err := j.client.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB", "nvidia.com/gpu.count": "4", "nvidia.com/gpu.memory": "40960",
		"nvidia.com/gpu.family": "ampere", "berth.dev/allocation": "committed", "berth.dev/fake-gpus": "true",
	} {
		if got := n.Labels[name]; got != want {
			t.Errorf("label %s is %q, want %q", name, got, want)
		}
	}
	if strings.Count(n.Annotations["berth.dev/inventory"], `"uuid"`) != 4 {
		t.Errorf("the inventory is %s", n.Annotations["berth.dev/inventory"])
	}
	if got := j.run(t, "berth", "nodes"); !strings.Contains(got, nodeName) {
		t.Errorf("berth nodes:\n%s", got)
	}
}

// chosen asks for two GPUs, and looks at the pod in all the ways that its owner
// has.
func (j joined) chosen(t *testing.T) {
	began := time.Now()
	r := j.make(t, asking("two", gpuResource, 2))
	t.Logf("figure: from kubectl apply to a container with its 2 GPUs: %v", time.Since(began).Round(time.Millisecond))
	gpus := j.committed(t, "two")
	if len(gpus) != 2 {
		t.Fatalf("the pod was bound with GPUs %v", gpus)
	}
	if err := only(r, gpus...); err != nil {
		t.Errorf("bound with %v: %v", gpus, err)
	}
	var again report
	if err := json.Unmarshal([]byte(j.run(t, "kubectl", "exec", "two", "--", "/gpuapp", "once")), &again); err != nil {
		t.Errorf("kubectl exec: %v", err)
	} else if len(again.Nodes) != len(r.Nodes) {
		t.Errorf("kubectl exec sees %v, the container saw %v", again.Nodes, r.Nodes)
	}
	if got := j.run(t, "kubectl", "logs", "two"); !strings.Contains(got, "/dev/nvidia") {
		t.Errorf("kubectl logs: %s", got)
	}
	if got := strings.Count(j.run(t, "berth", "gpus", "-A"), "default/two"); got != 2 {
		t.Errorf("berth gpus shows the pod %d times:\n%s", got, j.run(t, "berth", "gpus"))
	}
	j.attributed(t, "two", uuid(gpus[0]), uuid(gpus[1]))
	if ids, err := picks("two"); err != nil || len(ids) != 2 {
		t.Errorf("the kubelet's pod-resources tell of %v, %v, and berth gpus of 2 GPUs", ids, err)
	}
}

// mismatch binds pods as the scheduler does, to the GPUs that the kubelet does
// not pick: for its pick a pod is started before.
func (j joined) mismatch(t *testing.T) {
	before := j.differences(t)
	for i, gpu := range []int{3, 0, 2, 1} {
		name := fmt.Sprint("bound-", i)
		p := asking(name, gpuResource, 1)
		p.Spec.SchedulerName = "nobody"
		if _, err := j.client.CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := j.bind(t, schedulerUser, name, commit("c", uuid(gpu))); err != nil {
			t.Fatal(err)
		}
		if err := only(j.reports(t, name), gpu); err != nil {
			t.Error(err)
		}
	}
	t.Logf("figure: in %v of 4 bindings the kubelet had picked another GPU", grows(t, j.differences, before)-before)
}

// bind binds a pod to the node with devices, as a user.
func (j joined) bind(t *testing.T, user, name, devices string) error {
	config := rest.CopyConfig(j.config)
	config.Impersonate.UserName = user
	if user == "" {
		config.Impersonate = rest.ImpersonationConfig{}
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client.CoreV1().Pods("default").Bind(t.Context(), &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{devicesAnnotation: devices}},
		Target:     v1.ObjectReference{Kind: "Node", Name: nodeName},
	}, metav1.CreateOptions{})
}

// forged tries to commit devices by hand, in every way the API has.
func (j joined) forged(t *testing.T) {
	p := asking("forged", gpuResource, 1)
	p.Annotations[devicesAnnotation] = commit("c", uuid(0))
	if _, err := j.client.CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{}); !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
		t.Errorf("a pod that says its devices itself is answered with %v", err)
	}
	p = asking("waits", gpuResource, 1)
	p.Spec.SchedulerName = "nobody"
	if _, err := j.client.CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := j.bind(t, "", "waits", commit("c", uuid(0))); err == nil || !strings.Contains(err.Error(), devicesAnnotation) {
		t.Errorf("a binding with devices by an administrator is answered with %v", err)
	}
	// A scheduler that is wrong: the node's own ledger is the last to ask.
	holder := j.make(t, asking("holder", gpuResource, 1))
	gpus := j.committed(t, "holder")
	if err := only(holder, gpus...); err != nil {
		t.Error(err)
	}
	if err := j.bind(t, schedulerUser, "waits", commit("c", uuid(gpus[0]))); err != nil {
		t.Fatal(err)
	}
	eventually(t, patience, "the node refuses a GPU that is held", func() error {
		if s := j.state(t, "waits"); !strings.Contains(s, "CreateContainerConfigError") || !strings.Contains(s, "holder") {
			return fmt.Errorf("the pod is %s", s)
		}
		return nil
	})
}

// memory has two pods on one GPU, by GiB.
func (j joined) memory(t *testing.T) {
	seen := map[string]int{}
	for i := range 2 {
		p := asking(fmt.Sprint("share-", i), "nvidia.com/gpu-memory", 6)
		r := j.make(t, p)
		gpus := j.committed(t, p.Name)
		if len(gpus) != 1 {
			t.Fatalf("pod %s was bound with GPUs %v", p.Name, gpus)
		}
		if err := only(r, gpus...); err != nil {
			t.Error(err)
		}
		seen[fmt.Sprint(gpus)]++
	}
	if len(seen) != 1 {
		t.Errorf("two pods of 6 GiB are on GPUs %v, and one has room for both", seen)
	}
}

// observed is a pod that somebody put on the node: what it has is seen by all
// who ask, and the scheduler gives it to nobody else.
func (j joined) observed(t *testing.T) {
	p := asking("daemon", gpuResource, 1)
	p.Spec.SchedulerName = "nobody"
	p.Spec.NodeName = nodeName
	r := j.make(t, p)
	if err := realUUIDs(r, 1); err != nil {
		t.Fatal(err)
	}
	has := visible(r)[0]
	eventually(t, patience, "berth gpus shows the holder", func() error {
		out := j.run(t, "berth", "gpus", "-o", "json")
		var shown struct {
			Items []struct {
				UUID    string
				Holders []struct{ Pod string }
			}
		}
		if err := json.Unmarshal([]byte(out), &shown); err != nil {
			return err
		}
		for _, g := range shown.Items {
			if g.UUID == has && len(g.Holders) == 1 && g.Holders[0].Pod == "daemon" {
				return nil
			}
		}
		return fmt.Errorf("pod daemon has %s:\n%s", has, out)
	})
	// What is observed stands on the Node: with a label that is set later, the
	// scheduler has seen both before it places the next pod.
	const seen = "berth.dev-test/observed"
	j.run(t, "kubectl", "label", "node", nodeName, seen+"=yes")
	p = asking("three", gpuResource, 3)
	p.Spec.NodeSelector = map[string]string{seen: "yes"}
	three := j.make(t, p)
	gpus := j.committed(t, "three")
	if err := only(three, gpus...); err != nil {
		t.Error(err)
	}
	for _, i := range gpus {
		if uuid(i) == has {
			t.Errorf("GPU %d is given to two pods", i)
		}
	}
}

// force deletes a pod by force, whose process does not end when it is asked to:
// the API has forgotten the pod, and the GPU is in use.
func (j joined) force(t *testing.T) {
	stays := asking("stays", gpuResource, 1)
	stays.Spec.Containers[0].Args = []string{"stay"}
	stays.Spec.TerminationGracePeriodSeconds = new(int64(30))
	j.make(t, stays)
	gpus := j.committed(t, "stays")
	pods := j.client.CoreV1().Pods("default")
	old, err := pods.Get(t.Context(), "stays", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := pods.Delete(t.Context(), "stays", metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
		t.Fatal(err)
	}
	after := asking("after", gpuResource, 1)
	after.Spec.SchedulerName = "nobody"
	if _, err := pods.Create(t.Context(), after, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := j.bind(t, schedulerUser, "after", commit("c", uuid(gpus[0]))); err != nil {
		t.Fatal(err)
	}
	r := j.reports(t, "after")
	if pids := processes(old.UID); len(pids) > 0 {
		t.Errorf("processes %v of the pod that was deleted have the GPU, too", pids)
	}
	if err := only(r, gpus...); err != nil {
		t.Error(err)
	}
}

// restarts ends the control plane and the agent under a pod that runs.
func (j joined) restarts(t *testing.T) {
	j.make(t, asking("runs", gpuResource, 1))
	gpus := j.committed(t, "runs")
	j.killAgent(t)
	took := eventually(t, patience, "the node shows that its plugin is dead", func() error {
		n, err := j.client.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
		if got := n.Status.Allocatable[gpuResource]; err != nil || !got.IsZero() {
			return errors.Join(err, &notYet{"it has " + got.String() + " GPUs"})
		}
		return nil
	})
	t.Logf("figure: the node shows a dead plugin after %v", took.Round(time.Millisecond))
	began := time.Now()
	j.process.stop(t, syscall.SIGTERM)
	t.Logf("figure: the control plane stopped in %v", time.Since(began).Round(time.Millisecond))
	j.start(t)
	j.runAgent(t)
	j.ready(t)
	three := j.make(t, asking("three", gpuResource, 3))
	rest := j.committed(t, "three")
	if err := only(three, rest...); err != nil {
		t.Error(err)
	}
	if slices.Contains(rest, gpus[0]) {
		t.Errorf("GPU %d is given to two pods", gpus[0])
	}
	p, err := j.client.CoreV1().Pods("default").Get(t.Context(), "runs", metav1.GetOptions{})
	if err != nil || p.Status.Phase != v1.PodRunning || p.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("%v; the pod is %s", err, j.state(t, "runs"))
	}
}
