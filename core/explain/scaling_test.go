package explain_test

import (
	"strings"
	"testing"

	"berth.dev/berth/core/explain"
)

// TestWhatAutoscalersSay has the words of Cluster Autoscaler, of GKE's, and of Karpenter.
// rows: JH-02 JH-08
func TestWhatAutoscalersSay(t *testing.T) {
	const gke = "Node scale up in zones us-central1-a associated with this pod failed: "
	for _, test := range []struct {
		reason, message string
		code            explain.Code
		want            string
	}{
		{"TriggeredScaleUp", "pod triggered scale-up: [{t4 1->2 (max: 2)}]", explain.CodeNodeComes, "a new node is on its way"},
		{"Nominated", "Pod should schedule on: nodeclaim/t4-x7k2q", explain.CodeNodeComes, "a new node is on its way"},
		{"FailedScaleUp", gke + "GCE quota exceeded. Pod is at risk of not being scheduled.", explain.CodeCloudQuota, "the cloud account's quota allows no more such nodes"},
		{"FailedScaleUp", gke + "GCE out of resources. Pod is at risk of not being scheduled.", explain.CodeStockOut, "the cloud has no such machines free in that zone now"},
		{"FailedScaleUp", gke + "Internal error. Pod is at risk of not being scheduled.", explain.CodeScaleUpFailed, "the cloud refused it"},
		{"NotTriggerScaleUp", "pod didn't trigger scale-up: 1 max node group size reached", explain.CodeGroupFull, "node groups are as large as they may become"},
		{"FailedScheduling", `Failed to schedule pod, all available instance types exceed limits for nodepool "gpu"`, explain.CodeGroupFull, "node groups are as large as they may become"},
		{"NotTriggerScaleUp", "pod didn't trigger scale-up: 2 Insufficient nvidia.com/gpu", explain.CodeTemplate, "the autoscaler believes that new nodes have no GPU"},
		{"NotTriggerScaleUp", "pod didn't trigger scale-up: 2 node(s) didn't match Pod's node affinity/selector", explain.CodeNoGroup, "a new node of no node group would do for it"},
	} {
		pod := unplaced("waits for 1 nvidia.com/gpu")
		pod.Troubles = []explain.Refusal{{Reason: test.reason, Message: test.message}}
		facts := explain.Facts{GPUs: oneGPU, Pod: pod}
		got := explain.Judge(&facts)
		if code := facts.Code(&got); code != test.code || !strings.Contains(got.Message, test.want) {
			t.Errorf("%s: %s: %s %s; want %s %s", test.reason, test.message, code, got.Message, test.code, test.want)
		}
	}
}
