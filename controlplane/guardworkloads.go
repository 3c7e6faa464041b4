package controlplane

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"

	"berth.dev/berth/kube/request"
	policies "berth.dev/berth/scheduler/admission"
)

// unequal reports whether a write makes an object whose pods Kubernetes refuses, as their requests of GPUs are not their
// limits: the same as policies.Workloads.
func unequal(a admission.Attributes) bool {
	if a.GetSubresource() != "" || a.GetOperation() != admission.Create && a.GetOperation() != admission.Update {
		return false
	}
	if r := a.GetResource(); !slices.Contains(policies.WorkloadResources[r.Group], r.Resource) {
		return false
	}
	return unequalIn(a.GetObject()) && (a.GetOperation() == admission.Create || !unequalIn(a.GetOldObject()))
}

func unequalIn(object runtime.Object) bool {
	o, is := object.(*unstructured.Unstructured)
	if !is {
		return false
	}
	spec, _ := o.Object["spec"].(map[string]any)
	return request.UnequalIn(spec)
}
