package controlplane

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/apis/autoscaling"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/scheduling"

	"berth.dev/berth/kube/explain"
)

// trap is the warning of an object that is written, as explain.Trap has it; "" is none.
func trap(a admission.Attributes) string {
	if a.GetSubresource() != "" {
		return ""
	}
	switch o := a.GetObject().(type) {
	case *core.ResourceQuota:
		out := &v1.ResourceQuota{}
		if corev1.Convert_core_ResourceQuota_To_v1_ResourceQuota(o.DeepCopy(), out, nil) == nil {
			return explain.Trap(out)
		}
	case *core.LimitRange:
		out := &v1.LimitRange{}
		if corev1.Convert_core_LimitRange_To_v1_LimitRange(o.DeepCopy(), out, nil) == nil {
			return explain.Trap(out)
		}
	case *scheduling.PriorityClass:
		return explain.Trap(&schedulingv1.PriorityClass{Value: o.Value, GlobalDefault: o.GlobalDefault})
	case *autoscaling.HorizontalPodAutoscaler:
		out := &autoscalingv2.HorizontalPodAutoscaler{}
		out.Spec.ScaleTargetRef.Kind = o.Spec.ScaleTargetRef.Kind
		return explain.Trap(out)
	}
	return ""
}
