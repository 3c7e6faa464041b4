package notebook

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	reasons "berth.dev/berth/core/explain"
	rules "berth.dev/berth/core/notebook"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/request"
)

// eventObject is the index of events by what they are about: "Kind/name".
const eventObject = "berth.object"

// pass is one look at one notebook: what is there, and what comes of it.
type pass struct {
	*Reconciler
	nb      *kubeflow.Notebook
	mem     *memory
	made    *children // nil where the notebook is invalid
	set     *appsv1.StatefulSet
	service *corev1.Service
	pod     *corev1.Pod
	events  []corev1.Event // warnings about set and pod, and what autoscalers say, oldest first
	facts   reasons.Facts
	again   time.Duration // look again after this; 0 is when something changes
}

// id names the notebook in the maps of the Reconciler.
func (p *pass) id() string { return p.nb.Namespace + "/" + p.nb.Name }

// later asks for another look after d, at the latest.
func (p *pass) later(d time.Duration) {
	if p.again == 0 || d < p.again {
		p.again = d
	}
}

// look reads the notebook's children from the cache. What of its names belongs to
// another object is not read.
func (p *pass) look(ctx context.Context) error {
	key := client.ObjectKeyFromObject(p.nb)
	set, service, pod := &appsv1.StatefulSet{}, &corev1.Service{}, &corev1.Pod{}
	if err := p.client.Get(ctx, key, set); err == nil && metav1.IsControlledBy(set, p.nb) {
		p.set = set
	} else if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err := p.client.Get(ctx, key, service); err == nil && metav1.IsControlledBy(service, p.nb) {
		p.service = service
	} else if client.IgnoreNotFound(err) != nil {
		return err
	}
	if p.set == nil {
		return nil
	}
	key.Name += "-0"
	if err := p.client.Get(ctx, key, pod); err == nil && metav1.IsControlledBy(pod, p.set) {
		p.pod = pod
	} else if client.IgnoreNotFound(err) != nil {
		return err
	}
	return p.hear(ctx)
}

// hear reads the warnings about the StatefulSet and the pod that are there now, and what an autoscaler has said about the pod.
func (p *pass) hear(ctx context.Context) error {
	about := func(kind, name, uid string) error {
		var list corev1.EventList
		if err := p.client.List(ctx, &list, client.InNamespace(p.nb.Namespace), client.MatchingFields{eventObject: kind + "/" + name}); err != nil {
			return err
		}
		for i := range list.Items {
			if e := &list.Items[i]; string(e.InvolvedObject.UID) == uid && heard(e) {
				p.events = append(p.events, list.Items[i])
			}
		}
		return nil
	}
	if err := about("StatefulSet", p.set.Name, string(p.set.UID)); err != nil {
		return err
	}
	if p.pod != nil {
		if err := about("Pod", p.pod.Name, string(p.pod.UID)); err != nil {
			return err
		}
	}
	slices.SortStableFunc(p.events, func(a, b corev1.Event) int {
		return cmp.Or(last(&a).Compare(last(&b)), cmp.Compare(a.Name, b.Name))
	})
	return nil
}

// last is when an event happened last.
func last(e *corev1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	}
	return e.CreationTimestamp.Time
}

// setNow is the StatefulSet as the rules see it.
func (p *pass) setNow() *rules.Set {
	if p.set == nil {
		return nil
	}
	full, adopted, _ := strings.Cut(p.set.Annotations[api.AnnotationNotebookSpec], "/")
	return &rules.Set{
		Mark: p.set.Spec.Template.Annotations[api.AnnotationNotebookSpec], Full: full, Adopted: adopted, Replicas: replicas(p.set),
		Drifted: full == p.made.want.Full && p.drifted(), Seen: p.set.Status.ObservedGeneration >= p.set.Generation,
	}
}

func replicas(s *appsv1.StatefulSet) int32 {
	if s.Spec.Replicas == nil {
		return 1
	}
	return *s.Spec.Replicas
}

// drifted reports whether another client has changed the StatefulSet since Berth wrote it.
// While the process runs, its generation tells. For what was changed before it
// started its content does: what is not as it should be, but not what was added
// where Berth says nothing, as that may be the API server's doing.
func (p *pass) drifted() bool {
	if p.mem.set == p.set.UID {
		return p.set.Generation > p.mem.settled
	}
	if !alike(&p.made.typed.Spec.Template, &p.set.Spec.Template) ||
		p.set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType || p.set.Labels[api.LabelNotebook] != p.nb.Name {
		return true
	}
	p.mem.set, p.mem.settled = p.set.UID, p.set.Generation
	return false
}

// alike reports whether has is all that want says, whatever defaults it has beside.
func alike(want, has *corev1.PodTemplateSpec) bool {
	return maps.Equal(want.Labels, has.Labels) && maps.Equal(want.Annotations, has.Annotations) &&
		equality.Semantic.DeepDerivative(want.Spec, has.Spec)
}

// running is the pod as the rules of a change see it.
func (p *pass) running() *rules.Running {
	if p.pod == nil {
		return nil
	}
	return &rules.Running{
		UID: string(p.pod.UID), Mark: p.pod.Annotations[api.AnnotationNotebookSpec], Bound: p.pod.Spec.NodeName != "",
		Deleting: p.pod.DeletionTimestamp != nil, Ended: request.Ended(p.pod),
	}
}

// refusedAt is when the scheduler first said that a pod fits nowhere; zero is never.
func refusedAt(pod *corev1.Pod) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// memberOf is the notebook of a pod as it stands in line or holds GPUs; with no
// Resource it does neither.
func memberOf(pod *corev1.Pod, name string) reasons.Member {
	m := reasons.Member{Namespace: pod.Namespace, Name: name}
	want := explain.AmountsOf(pod)
	if len(want) == 0 || request.Ended(pod) {
		return m
	}
	if m.Waits = request.InLine(pod); !m.Waits && pod.Spec.NodeName == "" {
		return m // the scheduler has not looked at it yet, never will, or it waits for something else
	}
	m.Resource, m.Count, m.Ticket = want[0].Resource, want[0].Count, request.TicketOf(pod)
	return m
}
