package request_test

import (
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/request"
)

func TestYields(t *testing.T) {
	label, owner := map[string]string{api.LabelManagedBy: "berth"}, []metav1.OwnerReference{{Kind: "InferenceService", Name: "chat", Controller: new(true)}}
	for _, tt := range []struct {
		name   string
		meta   metav1.ObjectMeta
		yields bool
	}{
		{"a budget of a user counts", metav1.ObjectMeta{}, false},
		{"one that Berth writes for a workload does not", metav1.ObjectMeta{Labels: label, OwnerReferences: owner}, true},
		{"one that a user has given the label counts", metav1.ObjectMeta{Labels: label}, false},
		{"one of another controller counts", metav1.ObjectMeta{OwnerReferences: owner}, false},
		{"one with the label of another tool counts", metav1.ObjectMeta{Labels: map[string]string{api.LabelManagedBy: "helm"}, OwnerReferences: owner}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := request.Yields(&policyv1.PodDisruptionBudget{ObjectMeta: tt.meta}); got != tt.yields {
				t.Errorf("it yields: %v, want %v", got, tt.yields)
			}
		})
	}
}
