package serving_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/serving"
)

func TestLeaves(t *testing.T) {
	const spot = "aws-node-termination-handler/spot-itn"
	for _, tt := range []struct {
		name   string
		node   corev1.NodeSpec
		bears  []corev1.Toleration
		leaves string
	}{
		{"a node as it is", corev1.NodeSpec{Taints: []corev1.Taint{{Key: "nvidia.com/gpu", Effect: corev1.TaintEffectNoSchedule}}}, nil, ""},
		{"a cordoned node", corev1.NodeSpec{Unschedulable: true}, nil, "node a is cordoned"},
		{"a spot node with a notice", corev1.NodeSpec{Taints: []corev1.Taint{{Key: spot, Effect: corev1.TaintEffectNoSchedule}}}, nil, "node a has the taint " + spot + ", so it will be gone soon"},
		{"Berth's own taint", corev1.NodeSpec{Taints: []corev1.Taint{{Key: api.TaintLeaving, Effect: corev1.TaintEffectNoExecute}}}, nil, "node a has the taint berth.dev/leaving, so it will be gone soon"},
		{"a notice that keeps no pod out", corev1.NodeSpec{Taints: []corev1.Taint{{Key: spot, Effect: corev1.TaintEffectPreferNoSchedule}}}, nil, ""},
		{"a pod that tolerates all could start there again", corev1.NodeSpec{Unschedulable: true, Taints: []corev1.Taint{{Key: spot, Effect: corev1.TaintEffectNoSchedule}}}, []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, ""},
		{"a pod that tolerates the GPUs' taint alone", corev1.NodeSpec{Unschedulable: true}, []corev1.Toleration{{Key: "nvidia.com/gpu", Operator: corev1.TolerationOpExists}}, "node a is cordoned"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: tt.node}
			if got := serving.Leaves(n, &corev1.Pod{Spec: corev1.PodSpec{Tolerations: tt.bears}}); got != tt.leaves {
				t.Errorf("a pod leaves because %q, want %q", got, tt.leaves)
			}
		})
	}
}

func TestCovers(t *testing.T) {
	w, fault := serving.Of(service(t, "spec: {predictor: {tensorflow: {storageUri: 'pvc://m/'}}}"))
	if fault != nil {
		t.Fatal(fault.Message)
	}
	r, fault := serving.Choose(w, builtin(t))
	if fault != nil {
		t.Fatal(fault.Message)
	}
	made, err := serving.Build(w, r, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name     string
		selector *metav1.LabelSelector
		covers   bool
	}{
		{"the service's own pods", &metav1.LabelSelector{MatchLabels: map[string]string{api.LabelInferenceService: "mnist-model"}}, true},
		{"all pods", &metav1.LabelSelector{}, true},
		{"pods of another service", &metav1.LabelSelector{MatchLabels: map[string]string{api.LabelInferenceService: "other"}}, false},
		{"none", nil, false},
		{"a selector that cannot be read", &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "?"}}}, false},
	} {
		if got := made.Covers(&policyv1.PodDisruptionBudget{Spec: policyv1.PodDisruptionBudgetSpec{Selector: tt.selector}}); got != tt.covers {
			t.Errorf("a budget about %s covers the pods: %v", tt.name, got)
		}
	}
}
