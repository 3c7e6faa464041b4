package serving

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kserve"
	"berth.dev/berth/controller/runtime"
)

// byService is the index of pods and revisions by the service that their label names.
const byService = "service"

// newCache returns a cache of the objects of services, which their labels tell. It is apart from the manager's, in which pods are
// those of notebooks, and Deployments those of other controllers.
func newCache(mgr manager.Manager) (cache.Cache, error) {
	ours, err := labels.NewRequirement(api.LabelInferenceService, selection.Exists, nil)
	if err != nil {
		return nil, fmt.Errorf("select the objects of services: %w", err)
	}
	marked, shared := labels.NewSelector().Add(*ours), true
	return cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		ByObject: map[client.Object]cache.ByObject{
			&appsv1.Deployment{}:            {Label: marked, Transform: slimDeployment, UnsafeDisableDeepCopy: &shared},
			&appsv1.ControllerRevision{}:    {Label: marked, Transform: slimRevision, UnsafeDisableDeepCopy: &shared},
			&corev1.Service{}:               {Label: marked, Transform: slimService, UnsafeDisableDeepCopy: &shared},
			&corev1.Node{}:                  {Transform: slimNode, UnsafeDisableDeepCopy: &shared},
			&policyv1.PodDisruptionBudget{}: {Transform: slimBudget, UnsafeDisableDeepCopy: &shared},
			&corev1.Pod{}:                   {Label: marked, Transform: slimPod, UnsafeDisableDeepCopy: &shared},
		},
	})
}

// serviceOf is the index function of byService.
func serviceOf(o client.Object) []string { return []string{o.GetLabels()[api.LabelInferenceService]} }

// slimMeta drops managed fields, and kubectl's copy of the whole object.
func slimMeta(o any) (any, error) {
	if m, ok := o.(metav1.Object); ok {
		m.SetManagedFields(nil)
		delete(m.GetAnnotations(), corev1.LastAppliedConfigAnnotation)
	}
	return o, nil
}

// slimDeployment keeps how many replicas a Deployment has, and why it has not more.
func slimDeployment(o any) (any, error) {
	if d, ok := o.(*appsv1.Deployment); ok {
		d.Spec = appsv1.DeploymentSpec{Replicas: d.Spec.Replicas}
		had := d.Status.Conditions
		if d.Status.Conditions = nil; slices.ContainsFunc(had, fails) {
			d.Status.Conditions = had
		}
	}
	return slimMeta(o)
}

// fails reports whether a condition says why there are not more replicas.
func fails(c appsv1.DeploymentCondition) bool { return c.Type == appsv1.DeploymentReplicaFailure }

// slimService keeps which pods a Service selects, and at which ports.
func slimService(o any) (any, error) {
	if s, ok := o.(*corev1.Service); ok {
		s.Spec, s.Status = corev1.ServiceSpec{Selector: s.Spec.Selector, Ports: s.Spec.Ports}, corev1.ServiceStatus{}
	}
	return slimMeta(o)
}

// slimRevision drops the spec that a revision keeps.
func slimRevision(o any) (any, error) {
	if r, ok := o.(*appsv1.ControllerRevision); ok {
		r.Data.Raw = nil
	}
	return slimMeta(o)
}

// slimNode keeps whether a node is to be emptied.
func slimNode(o any) (any, error) {
	n, ok := o.(*corev1.Node)
	if !ok {
		return o, nil
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: n.UID, ResourceVersion: n.ResourceVersion},
		Spec:       corev1.NodeSpec{Unschedulable: n.Spec.Unschedulable, Taints: n.Spec.Taints},
	}, nil
}

// slimBudget keeps which pods a disruption budget is about.
func slimBudget(o any) (any, error) {
	if b, ok := o.(*policyv1.PodDisruptionBudget); ok {
		b.Status = policyv1.PodDisruptionBudgetStatus{}
	}
	return slimMeta(o)
}

// keptOfPod are the annotations of pods that are read, beside that of their revision: what they hold, and where they have metrics.
var keptOfPod = []string{
	corev1.PodDeletionCost, api.AnnotationStartedIn, api.AnnotationDevices,
	kserve.AnnotationMetricsPort, kserve.AnnotationMetricsPath, kserve.AnnotationPrometheusPort, kserve.AnnotationPrometheusPath,
}

// slimPod keeps of a pod whose it is, and how it is.
func slimPod(o any) (any, error) {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	notes := map[string]string{api.AnnotationServingSpec: p.Annotations[api.AnnotationServingSpec]}
	for _, key := range keptOfPod {
		if value := p.Annotations[key]; value != "" {
			notes[key] = value
		}
	}
	p.ManagedFields, p.Annotations = nil, notes
	p.Spec = corev1.PodSpec{NodeName: p.Spec.NodeName, Tolerations: p.Spec.Tolerations}
	p.Status = corev1.PodStatus{
		Phase: p.Status.Phase, Conditions: runtime.SlimConditions(p.Status.Conditions, corev1.PodReady, corev1.PodScheduled), StartTime: p.Status.StartTime,
		InitContainerStatuses: runtime.SlimContainers(p.Status.InitContainerStatuses), ContainerStatuses: runtime.SlimContainers(p.Status.ContainerStatuses),
	}
	return p, nil
}
