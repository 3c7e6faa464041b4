package explain

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"

	"berth.dev/berth/api/kserve"
)

// What is said of objects that Kubernetes accepts, and that do something other than they read.
const (
	WarningQuotaLine  = "a line of this quota counts nothing: of GPUs, Kubernetes counts only lines such as requests.nvidia.com/gpu"
	WarningLimitRange = "every new container of the namespace that requests no GPUs gets some by this LimitRange, sidecars too: remove them here, and limit GPUs by a ResourceQuota"
	WarningDefault    = "every new pod that names no PriorityClass gets this one, with or without GPUs: set globalDefault: false, and name the class in its pods"
	WarningScale      = "an InferenceService cannot be scaled by a HorizontalPodAutoscaler: set minReplicas and maxReplicas of its predictor"
)

// Trap is the warning of an object; "" is that there is none. It knows ResourceQuotas, LimitRanges, PriorityClasses, and
// HorizontalPodAutoscalers.
func Trap(object any) string {
	switch o := object.(type) {
	case *v1.ResourceQuota:
		if inert, _ := InertQuotaLines(o); len(inert) > 0 {
			return WarningQuotaLine
		}
	case *v1.LimitRange:
		if len(GPUDefaults(o)) > 0 {
			return WarningLimitRange
		}
	case *schedulingv1.PriorityClass:
		if o.GlobalDefault && o.Value != 0 {
			return WarningDefault
		}
	case *autoscalingv2.HorizontalPodAutoscaler:
		if o.Spec.ScaleTargetRef.Kind == kserve.Kind {
			return WarningScale
		}
	}
	return ""
}
