package notebook

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/kube/view"
)

// CacheOptions says what of a cluster the controllers of notebooks watch and keep:
// notebooks, what is labeled as theirs, and events but for the most frequent ones
// of type Normal, since autoscalers say what they do by such. Fields that
// are not read here are dropped before they are kept, so a thousand notebooks
// cost a few megabytes. Objects read from such a cache must therefore never be
// written back, and not be changed: they are the cache's own.
func CacheOptions() cache.Options {
	ours, err := labels.NewRequirement(api.LabelNotebook, selection.Exists, nil)
	if err != nil {
		panic(fmt.Sprintf("label %s: %v", api.LabelNotebook, err)) // a constant that is not a valid label
	}
	marked, shared := labels.NewSelector().Add(*ours), true
	return cache.Options{ByObject: map[client.Object]cache.ByObject{
		&kubeflow.Notebook{}:    {Transform: slimNotebook, UnsafeDisableDeepCopy: &shared},
		&appsv1.StatefulSet{}:   {Label: marked, Transform: slimSet, UnsafeDisableDeepCopy: &shared},
		&corev1.Service{}:       {Label: marked, Transform: slimMeta, UnsafeDisableDeepCopy: &shared},
		&corev1.Pod{}:           {Label: marked, Transform: slimPod, UnsafeDisableDeepCopy: &shared},
		&corev1.ResourceQuota{}: {Transform: slimMeta, UnsafeDisableDeepCopy: &shared},
		&corev1.Event{}:         {Field: fields.AndSelectors(unheard()...), Transform: slimEvent, UnsafeDisableDeepCopy: &shared},
	}}
}

// unheard leaves out events that every pod has, and every controller. None of them is a warning.
func unheard() (out []fields.Selector) {
	for _, reason := range []string{
		"Scheduled", "Pulling", "Pulled", "Created", "Started", "Killing", "SandboxChanged", "SuccessfulAttachVolume", // of pods
		"SuccessfulCreate", "SuccessfulDelete", "ScalingReplicaSet", "Completed", "SawCompletedJob", "SuccessfulRescale", "LeaderElection", // of controllers
		"WaitForFirstConsumer", "WaitForPodScheduled", "ExternalProvisioning", "Provisioning", "ProvisioningSucceeded", // of volumes
	} {
		out = append(out, fields.OneTermNotEqualSelector("reason", reason))
	}
	return out
}

// lastApplied is kubectl's copy of what it applied.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// slimMeta drops managed fields and kubectl's copy of the whole object. What a
// transform gets may be no object, but the mark of one that was deleted unseen.
func slimMeta(o any) (any, error) {
	if m, ok := o.(metav1.Object); ok {
		m.SetManagedFields(nil)
		if a := m.GetAnnotations(); a[lastApplied] != "" {
			delete(a, lastApplied)
		}
	}
	return o, nil
}

func slimNotebook(o any) (any, error) { return slimMeta(o) }

// slimSet keeps the spec of a StatefulSet, which is compared with what it should be.
func slimSet(o any) (any, error) {
	if s, ok := o.(*appsv1.StatefulSet); ok {
		s.Status.Conditions = nil
	}
	return slimMeta(o)
}

// slimPod keeps what tells where a pod is and how it is: not how its containers
// are started.
func slimPod(o any) (any, error) {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	was := p.Spec
	p.Spec = corev1.PodSpec{
		NodeName: was.NodeName, Priority: was.Priority, SchedulerName: was.SchedulerName, NodeSelector: was.NodeSelector,
		InitContainers: slimContainers(was.InitContainers), Containers: slimContainers(was.Containers),
	}
	p.Status.ResourceClaimStatuses, p.Status.HostIPs, p.Status.PodIPs, p.Status.EphemeralContainerStatuses = nil, nil, nil, nil
	return slimMeta(p)
}

func slimContainers(list []corev1.Container) []corev1.Container {
	out := request.Footprint(list)
	for i := range list {
		for _, e := range list[i].Env {
			if e.Name == view.TokenVariable {
				out[i].Env = append(out[i].Env, e) // with which its server is asked
			}
		}
	}
	return out
}

// slimEvent keeps of events what is reissued or read: those of pods and StatefulSets that are heard.
func slimEvent(o any) (any, error) {
	e, ok := o.(*corev1.Event)
	if !ok {
		return o, nil
	}
	if !heard(e) {
		*e = corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: e.Name, UID: e.UID, ResourceVersion: e.ResourceVersion}, Type: e.Type}
		return e, nil
	}
	*e = corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: e.Namespace, Name: e.Name, UID: e.UID, ResourceVersion: e.ResourceVersion, CreationTimestamp: e.CreationTimestamp,
		},
		InvolvedObject: e.InvolvedObject, Reason: e.Reason, Message: e.Message, Type: e.Type, Count: e.Count,
		FirstTimestamp: e.FirstTimestamp, LastTimestamp: e.LastTimestamp, EventTime: e.EventTime, Series: e.Series, Source: e.Source,
	}
	return e, nil
}
