package report

import (
	"context"
	"errors"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"berth.dev/berth/scheduler/devices"
)

// bare is a framework without an APICacher, as upstream has it by default.
type bare struct{ framework.Framework }

func (bare) APICacher() fwk.APICacher { return nil }

// autoscaled reports whether autoscalers would make a node for a pod, by the rules
// that Karpenter and Cluster Autoscaler go by: it has no node, none is chosen for
// it, and its condition PodScheduled is False for the reason Unschedulable.
func autoscaled(p *v1.Pod) bool {
	if p.Spec.NodeName != "" || p.Status.NominatedNodeName != "" {
		return false
	}
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse && c.Reason == "Unschedulable" {
			return true
		}
	}
	return false
}

// refusal is what the framework gives for a pod that node n refused, or the plugin by
// before any node was looked at.
func refusal(by, reason string) *fwk.Status {
	err := &framework.FitError{NumAllNodes: 1, Diagnosis: framework.Diagnosis{NodeToStatus: framework.NewDefaultNodeToStatus()}}
	status := fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason)
	if by != "" {
		status.SetPlugin(by)
		err.Diagnosis.PreFilterMsg = reason
		err.Diagnosis.AddPluginStatus(status)
	} else {
		err.Diagnosis.NodeToStatus.Set("n", status)
	}
	return fwk.NewStatus(fwk.Unschedulable).WithError(err)
}

// tell refuses a pod twice as the framework does, and returns what the API has of it
// then, and by how many patches.
func tell(t *testing.T, name string, status *fwk.Status, nominates *fwk.NominatingInfo, nominated string) (now *v1.Pod, patches int) {
	t.Helper()
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "p", UID: "p"}}
	pod.Status.NominatedNodeName = nominated
	client := fake.NewClientset(pod)
	s := &scheduler.Scheduler{FailureHandler: func(_ context.Context, f framework.Framework, pod *framework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, _ time.Time) {
		reason := v1.PodReasonSchedulerError
		if status.IsRejected() {
			reason = v1.PodReasonUnschedulable
		}
		c := &v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: reason, Message: status.AsError().Error()}
		if _, err := f.APICacher().PatchPodStatus(pod.Pod, c, nominating); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}}
	_, shared := devices.WithCluster(nil)
	WriteConditions(s, client, shared.Waits, nil)
	read := func() *v1.Pod {
		now, err := client.CoreV1().Pods("d").Get(t.Context(), "p", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return now
	}
	for range 2 { // nothing is written where nothing has changed
		s.FailureHandler(t.Context(), bare{}, &framework.QueuedPodInfo{PodInfo: &framework.PodInfo{Pod: read()}}, status, nominates, time.Now())
	}
	if now = read(); len(now.Status.Conditions) != 1 {
		t.Fatalf("%s: conditions %v", name, now.Status.Conditions)
	}
	for _, a := range client.Actions() {
		if a.GetVerb() == "patch" {
			patches++
		}
	}
	return now, patches
}

// TestTellWaits refuses pods as the framework does, and reads what an API server has
// of them then.
func TestTellWaits(t *testing.T) {
	nominate := func(node string) *fwk.NominatingInfo {
		return &fwk.NominatingInfo{NominatedNodeName: node, NominatingMode: fwk.ModeOverride}
	}
	for _, test := range []struct {
		name      string
		status    *fwk.Status
		nominates *fwk.NominatingInfo
		nominated string // before
		reason    string
		message   string
		node      bool // an autoscaler makes one
	}{
		{
			name: "what no node has room for asks for a node", status: refusal("", "Insufficient cpu"), nominates: nominate(""),
			reason: "Unschedulable", message: "0/1 nodes are available: 1 Insufficient cpu.", node: true,
		},
		{
			name: "a missing volume claim does not", status: refusal("VolumeBinding", `persistentvolumeclaim "x" not found`),
			reason: "SchedulingGated", message: `0/1 nodes are available: persistentvolumeclaim "x" not found. [WaitingForVolume]`,
		},
		{
			name: "nor a volume that another pod uses", status: refusal("", "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"),
			reason:  "SchedulingGated",
			message: "0/1 nodes are available: 1 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod. [WaitingForVolume]",
		},
		{
			name: "nor a pod for which others are evicted", status: refusal("", "Insufficient cpu"), nominates: nominate("n"),
			reason: "SchedulingGated", message: "0/1 nodes are available: 1 Insufficient cpu. [WaitingForPreemption]",
		},
		{
			name: "nor one that is nominated already", status: refusal("", "Insufficient cpu"), nominated: "n",
			reason: "SchedulingGated", message: "0/1 nodes are available: 1 Insufficient cpu. [WaitingForPreemption]",
		},
		{
			name: "one that is not nominated any more asks again", status: refusal("", "Insufficient cpu"), nominated: "n", nominates: nominate(""),
			reason: "Unschedulable", message: "0/1 nodes are available: 1 Insufficient cpu.", node: true,
		},
		{
			name: "an error stays one", status: fwk.AsStatus(errors.New("bind: refused")), nominates: nominate(""),
			reason: "SchedulerError", message: "bind: refused",
		},
	} {
		now, patches := tell(t, test.name, test.status, test.nominates, test.nominated)
		if c := now.Status.Conditions[0]; c.Reason != test.reason || c.Message != test.message || autoscaled(now) != test.node {
			t.Errorf("%s: reason %s, message %q, an autoscaler makes a node: %v; want %s, %q, %v",
				test.name, c.Reason, c.Message, autoscaled(now), test.reason, test.message, test.node)
		}
		if patches != 1 {
			t.Errorf("%s: %d patches, want 1", test.name, patches)
		}
	}
}
