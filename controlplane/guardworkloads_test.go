package controlplane

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

func TestTheGuardWarnsOfWorkloadsWhosePodsAreRefused(t *testing.T) {
	predictor := func(limit, request int64) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"predictor": map[string]any{"model": map[string]any{"resources": map[string]any{
			"limits": map[string]any{"nvidia.com/gpu": limit}, "requests": map[string]any{"nvidia.com/gpu": request},
		}}}}}}
	}
	serving := schema.GroupVersionResource{Group: "serving.kserve.io", Version: "v1beta1", Resource: "inferenceservices"}
	for _, tt := range []struct {
		name     string
		resource schema.GroupVersionResource
		sub      string
		now, old runtime.Object
		want     bool
	}{
		{"equal", serving, "", predictor(2, 2), nil, false},
		{"unequal", serving, "", predictor(2, 1), nil, true},
		{"an update that makes it so", serving, "", predictor(2, 1), predictor(2, 2), true},
		{"one that was so before", serving, "", predictor(2, 1), predictor(3, 1), false},
		{"its status", serving, "status", predictor(2, 1), nil, false},
		{"a kind that makes no pods", schema.GroupVersionResource{Group: "serving.kserve.io", Version: "v1beta1", Resource: "runtimes"}, "", predictor(2, 1), nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			operation := admission.Create
			if tt.old != nil {
				operation = admission.Update
			}
			a := admission.NewAttributesRecord(tt.now, tt.old, schema.GroupVersionKind{}, "d", "p", tt.resource, tt.sub, operation, nil, false, nil)
			if got := unequal(a); got != tt.want {
				t.Errorf("got %t, want %t", got, tt.want)
			}
		})
	}
}
