package training

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/controller/runtime"
	"berth.dev/berth/kube/devices"
	objects "berth.dev/berth/kube/training"
)

// The indexes of pods and Services by the UID of their controller, and of pods by their node.
const (
	byOwner = "controller"
	byNode  = "node"
)

// newCache returns a cache of the pods and Services of jobs of one kind, which their labels tell, and of nodes. It is
// apart from the manager's, in which pods are those of notebooks.
func newCache(mgr manager.Manager, k kind) (cache.Cache, error) {
	ours, shared := labels.SelectorFromSet(labels.Set{kubeflow.LabelOperatorName: k.kind.Operator()}), true
	return cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}:                            {Label: ours, Transform: slimPod, UnsafeDisableDeepCopy: &shared},
			&corev1.Service{}:                        {Label: ours, Transform: slimService, UnsafeDisableDeepCopy: &shared},
			&autoscalingv2.HorizontalPodAutoscaler{}: {Label: ours, Transform: slimAutoscaler, UnsafeDisableDeepCopy: &shared},

			&corev1.Node{}: {Transform: slimNode, UnsafeDisableDeepCopy: &shared},
		},
	})
}

// ownerUID is the index function of byOwner.
func ownerUID(o client.Object) []string {
	if ref := metav1.GetControllerOfNoCopy(o); ref != nil {
		return []string{string(ref.UID)}
	}
	return nil
}

// nodeOf is the index function of byNode.
func nodeOf(o client.Object) []string {
	if p, ok := o.(*corev1.Pod); ok && p.Spec.NodeName != "" {
		return []string{p.Spec.NodeName}
	}
	return nil
}

// slimJob drops what is not read of a job.
func slimJob(o any) (any, error) {
	if j, ok := o.(objects.Object); ok {
		j.SetManagedFields(nil)
		delete(j.GetAnnotations(), corev1.LastAppliedConfigAnnotation)
	}
	return o, nil
}

// slimPod keeps of a pod which member of which job it is, and how it is.
func slimPod(o any) (any, error) {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	notes := p.Annotations
	slimMeta(&p.ObjectMeta)
	for _, key := range []string{api.AnnotationRound, api.AnnotationCheckpoint, api.AnnotationCheckpointedAt, api.AnnotationDevices} {
		if text, ok := notes[key]; ok {
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, text)
		}
	}
	spec := corev1.PodSpec{NodeName: p.Spec.NodeName}
	for i := range p.Spec.Containers {
		if n, ok := p.Spec.Containers[i].Resources.Limits[api.ResourceGPU]; ok {
			spec.Containers = append(spec.Containers, corev1.Container{Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{api.ResourceGPU: n}}})
		}
	}
	p.Spec = spec
	p.Status = corev1.PodStatus{
		Phase: p.Status.Phase, Reason: p.Status.Reason, Conditions: runtime.SlimConditions(p.Status.Conditions, corev1.PodReady, corev1.PodScheduled, corev1.DisruptionTarget), StartTime: p.Status.StartTime,
		InitContainerStatuses: runtime.SlimContainers(p.Status.InitContainerStatuses), ContainerStatuses: runtime.SlimContainers(p.Status.ContainerStatuses),
	}
	return p, nil
}

// slimService keeps of a Service which member of which job it belongs to.
func slimService(o any) (any, error) {
	if s, ok := o.(*corev1.Service); ok {
		slimMeta(&s.ObjectMeta)
		s.Spec, s.Status = corev1.ServiceSpec{}, corev1.ServiceStatus{}
	}
	return o, nil
}

// slimAutoscaler keeps the spec of a HorizontalPodAutoscaler.
func slimAutoscaler(o any) (any, error) {
	if h, ok := o.(*autoscalingv2.HorizontalPodAutoscaler); ok {
		slimMeta(&h.ObjectMeta)
		h.Status = autoscalingv2.HorizontalPodAutoscalerStatus{}
	}
	return o, nil
}

// slimNode keeps the taints of a node, and its GPUs that are faulty.
func slimNode(o any) (any, error) {
	if n, ok := o.(*corev1.Node); ok {
		devices.KeepFaulty(n)
		n.ManagedFields, n.Labels = nil, nil
		n.Spec, n.Status = corev1.NodeSpec{Taints: n.Spec.Taints}, corev1.NodeStatus{}
	}
	return o, nil
}

func slimMeta(m *metav1.ObjectMeta) { m.ManagedFields, m.Annotations = nil, nil }
