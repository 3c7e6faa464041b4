package explain_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/api/v1alpha1"
	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/kubetest"
	"berth.dev/berth/kube/queues"
)

// TestNodesThatTheQueueBars: nodes on which a pod would use GPUs in a way that its queue does not allow are
// no room for it, now or later, nor is what they hold in its way.
//
// rows: GS-80
func TestNodesThatTheQueueBars(t *testing.T) {
	whole := kubetest.Foreign("whole", kubetest.Product("Tesla-T4", 1, 15360), "cpu", 8, api.ResourceGPU, 1)
	shared := kubetest.Foreign("shared", kubetest.With(kubetest.Product("Tesla-T4-SHARED", 1, 15360), api.LabelReplicas, "4"), "cpu", 8, api.ResourceGPU, 4)
	nodes, now := []*v1.Node{whole, shared}, time.Date(2026, 11, 24, 9, 0, 0, 0, time.UTC)
	holder, other := kubetest.Pod("holder", "whole", api.ResourceGPU, 1), kubetest.Pod("other", "shared", api.ResourceGPU, 1)
	pod := waits([]any{api.ResourceGPU, 1})
	for _, tt := range []struct {
		name    string
		allowed []v1alpha1.QueueSharing
		holds   bool // the node with whole GPUs is full
		fits    string
		code    reasons.Code // of why it waits
		holders int
	}{
		{"any way will do", nil, true, "shared", "", 2},
		{"whole GPUs alone, and one is free", []v1alpha1.QueueSharing{"Whole"}, false, "whole", "", 0},
		{"whole GPUs alone, and all are held", []v1alpha1.QueueSharing{"Whole"}, true, "", reasons.CodeHeld, 1},
		{"shares alone", []v1alpha1.QueueSharing{"TimeSlicing"}, false, "shared", "", 1},
		{"another way", []v1alpha1.QueueSharing{"MIG"}, false, "", reasons.CodeQueueSharing, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pods := []*v1.Pod{pod, other}
			if tt.holds {
				pods = append(pods, holder)
			}
			count := queues.Read(&queues.Situation{
				Queues:     []*v1alpha1.Queue{{ObjectMeta: metav1.ObjectMeta{Name: "prod"}, Spec: v1alpha1.QueueSpec{Default: true, Sharing: tt.allowed}}},
				Namespaces: []*v1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: pod.Namespace}}}, Nodes: nodes, Pods: pods,
			})
			c := trial(t, nodes, pods...)
			c.SetQueues(count)
			if node, _ := c.Fits(pod); node != tt.fits {
				t.Errorf("it fits on %q, want %q", node, tt.fits)
			}
			if verdict := c.Judge(pod); tt.fits == "" && verdict.Code() != tt.code {
				t.Errorf("its cause is %s, want %s: %+v", verdict.Code(), tt.code, verdict.Causes)
			}
			if got := c.StartEstimate(pod, pods, explain.KnownEnds{}, now); got.Now != (tt.fits != "") {
				t.Errorf("there is room now: %v", got.Now)
			}
			if got := c.InTheWay(pod); len(got) != tt.holders {
				t.Errorf("in its way are %+v, want %d", got, tt.holders)
			}
		})
	}
}
