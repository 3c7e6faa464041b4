//go:build linux

package node_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// migConfigs is a file for NVIDIA's MIG manager.
const migConfigs = `version: v1
mig-configs:
  all-disabled:
  - {devices: all, mig-enabled: false}
  thirds:
  - {devices: [2, 3], mig-enabled: true, mig-devices: {"3g.20gb": 2}}
  - {devices: [0, 1], mig-enabled: false}
`

// cut asks for MIG devices by the label that NVIDIA's MIG manager has.
func (j joined) cut(t *testing.T) {
	const profile = "nvidia.com/mig-3g.20gb"
	j.label(t, "thirds", 2, profile, 4)
	r := j.make(t, asking("third", profile, 2))
	p, err := j.client.CoreV1().Pods("default").Get(t.Context(), "third", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var all map[string][]device
	if err := json.Unmarshal([]byte(p.Annotations[devicesAnnotation]), &all); err != nil || len(all["c"]) != 2 {
		t.Fatalf("the pod was bound with %q, %v", p.Annotations[devicesAnnotation], err)
	}
	var want []string
	for _, d := range all["c"] {
		want = append(want, d.UUID)
	}
	got := strings.Split(r.Env["BERTH_DEVICES"], ",")
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) || !strings.HasPrefix(got[0], "MIG-") {
		t.Errorf("bound with %v, the container has %v", want, got)
	}
	j.clear(t)
	j.label(t, "all-disabled", 4, profile, 0)
}

// byHand cuts the first GPU behind the agent's back, as nvidia-smi mig -cgi 19 seven times
// does, and wants the node to show it. Then it asks the agent to undo the cut while a pod
// holds a part: the agent refuses, says why, and does it when the pod is gone.
func (j joined) byHand(t *testing.T) {
	const profile = "nvidia.com/mig-1g.5gb"
	j.run(t, "kubectl", "label", "node", nodeName, "nvidia.com/mig.config-")
	seven := gpus(a100, 4, map[int]string{0: strings.TrimSuffix(strings.Repeat("1g.5gb, ", 7), ", ")})
	j.setGPUs(t, strings.ReplaceAll(strings.ReplaceAll(seven, "autoReset: true, mig", "mig"), "uuid:", "autoReset: true, uuid:"))
	defer j.setGPUs(t, joinedGPUs)
	eventually(t, patience, "the node shows the seven MIG devices", func() error {
		n, err := j.client.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		gpus, parts := n.Status.Allocatable[gpuResource], n.Status.Allocatable[profile]
		listed, label := strings.Count(n.Annotations["berth.dev/inventory"], `"profile":"1g.5gb"`), n.Labels[profile+".count"]
		if gpus.Value() != 3 || parts.Value() != 7 || listed != 7 || label != "7" {
			return fmt.Errorf("%s GPUs and %s MIG devices are allocatable; the inventory has %d, and the label says %q", gpus.String(), parts.String(), listed, label)
		}
		return nil
	})
	eventually(t, patience, "the exporter has seven MIG devices", func() error {
		families, text := scrape(t)
		if _, series := sum(families, "DCGM_FI_DEV_FB_USED", "GPU_I_PROFILE", "1g.5gb"); series != 7 {
			return &notYet{lines(text, "DCGM_FI_DEV_FB_USED")}
		}
		return nil
	})
	j.told(t, "MIGChanged", "was partitioned by another program: it had MIG off, and has 7x 1g.5gb")
	j.make(t, asking("part", profile, 1))
	j.run(t, "kubectl", "label", "node", nodeName, "nvidia.com/mig.config=all-disabled", "--overwrite")
	j.told(t, "MIGConfigPending", "held by pod default/part")
	eventually(t, patience, "the label says that the cut waits", func() error {
		n, err := j.client.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if state := n.Labels["nvidia.com/mig.config.state"]; state != "pending" {
			return fmt.Errorf("the state is %q", state)
		}
		if listed := strings.Count(n.Annotations["berth.dev/inventory"], `"profile":"1g.5gb"`); listed != 7 {
			t.Errorf("while a pod holds a part the inventory has %d of seven MIG devices", listed)
		}
		return nil
	})
	j.clear(t)
	j.label(t, "all-disabled", 4, profile, 0)
}

// told waits for an event of the node.
func (j joined) told(t *testing.T, reason, text string) {
	t.Helper()
	eventually(t, patience, "the node has an event "+reason, func() error {
		list, err := j.client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{FieldSelector: "reason=" + reason})
		if err != nil {
			return err
		}
		var have []string
		for i := range list.Items {
			have = append(have, list.Items[i].Message)
			if strings.Contains(list.Items[i].Message, text) {
				return nil
			}
		}
		return fmt.Errorf("the events are %q", have)
	})
}

// label sets the label, and waits until it is so.
func (j joined) label(t *testing.T, name string, whole int64, profile v1.ResourceName, parts int64) {
	t.Helper()
	began := time.Now()
	j.run(t, "kubectl", "label", "node", nodeName, "nvidia.com/mig.config="+name, "--overwrite")
	eventually(t, patience, "the GPUs are cut as "+name+" says", func() error {
		n, err := j.client.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		state := n.Labels["nvidia.com/mig.config.state"]
		gpus, devices := n.Status.Allocatable[gpuResource], n.Status.Allocatable[profile]
		if state != "success" || gpus.Value() != whole || devices.Value() != parts {
			return fmt.Errorf("the state is %q, with %s GPUs and %s of %s", state, gpus.String(), devices.String(), profile)
		}
		return nil
	})
	t.Logf("figure: the label %s was in force after %v", name, time.Since(began).Round(time.Millisecond))
}

// ownNode asks as the agent to change another node than its own.
func (j joined) ownNode(t *testing.T) {
	nodes := j.client.CoreV1().Nodes()
	other := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: v1.NodeSpec{Unschedulable: true}}
	if _, err := nodes.Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := nodes.Delete(t.Context(), "other", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}()
	config, err := clientcmd.BuildConfigFromFlags("", workDir+"/agent.kubeconfig")
	if err != nil {
		t.Fatal(err)
	}
	agent, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	label := func(key, value string) []byte { return fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, key, value) }
	const own = "nvidia.com/vgpu.host-driver-branch"
	for _, value := range []string{`"x"`, "null"} {
		if _, err := agent.CoreV1().Nodes().Patch(t.Context(), nodeName, types.MergePatchType, label(own, value), metav1.PatchOptions{}); err != nil {
			t.Errorf("the agent may not write a label of its own on its own node: %v", err)
		}
	}
	for node, key := range map[string]string{"other": own, nodeName: "node-role.kubernetes.io/control-plane"} {
		if _, err := agent.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, label(key, `""`), metav1.PatchOptions{}); !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
			t.Errorf("label %s on node %s is answered with %v", key, node, err)
		}
	}
	if _, err := agent.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + nodeName}); !apierrors.IsForbidden(err) {
		t.Errorf("listing pods as the agent itself is answered with %v", err)
	}
	if _, err := agent.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("reading secrets is answered with %v", err)
	}
}

// fails gives a GPU an Xid that asks for a reset.
func (j joined) fails(t *testing.T) {
	j.setGPUs(t, joinedGPUs+"xid: [{gpu: 2, code: 95}]\n")
	eventually(t, patience, "the node has one GPU less", func() error {
		n, err := j.client.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got := n.Status.Allocatable[gpuResource]; got.Value() != 3 {
			return &notYet{"it has " + got.String()}
		}
		return nil
	})
	eventually(t, patience, "an event names the Xid", func() error {
		events, err := j.client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.kind=Node"})
		if err != nil {
			return err
		}
		said := ""
		for _, e := range events.Items {
			if said += e.Message + "\n"; strings.Contains(e.Message, "95") && strings.Contains(e.Message, uuid(2)) {
				t.Logf("figure: event %s: %s", e.Reason, e.Message)
				return nil
			}
		}
		return &notYet{said}
	})
	eventually(t, patience, "berth gpus shows the Xid", func() error {
		if out := j.run(t, "berth", "gpus"); !strings.Contains(out, "XID 95") {
			return &notYet{out}
		}
		return nil
	})
	r := j.make(t, asking("well", gpuResource, 3))
	if err := only(r, 0, 1, 3); err != nil {
		t.Error(err)
	}
}
