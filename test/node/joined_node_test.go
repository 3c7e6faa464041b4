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
	label := []byte(`{"metadata":{"labels":{"berth.dev/test":"x"}}}`)
	if _, err := agent.CoreV1().Nodes().Patch(t.Context(), nodeName, types.MergePatchType, label, metav1.PatchOptions{}); err != nil {
		t.Errorf("the agent may not label its own node: %v", err)
	}
	if _, err := agent.CoreV1().Nodes().Patch(t.Context(), "other", types.MergePatchType, label, metav1.PatchOptions{}); !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
		t.Errorf("labelling another node is answered with %v", err)
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
