package queues

import (
	"fmt"
	"maps"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/request"
)

// A key is a label or an annotation by which an object names the queue of its pods.
type key struct {
	name       string
	annotation bool
	kueue      bool // it is not read where Kueue runs
}

// keys are those that are read, the first that an object has.
//
// Sources: Kueue's constants.QueueLabel; KAI's constants.DefaultQueueLabel; Volcano's QueueNameAnnotationKey of
// scheduling/v1beta1 and QueueNameKey of batch/v1alpha1, which it writes as an annotation and as a label.
var keys = []key{
	{name: api.LabelQueue},
	{name: api.LabelKueueQueue, kueue: true},
	{name: api.LabelKAIQueue},
	{name: api.AnnotationVolcanoQueue, annotation: true},
	{name: api.KeyVolcanoQueue},
	{name: api.KeyVolcanoQueue, annotation: true},
}

// in is how an admission policy reads it, with said.
func (k *key) in() string {
	if k.annotation {
		return "annotations"
	}
	return "labels"
}

// of is what an object has at the key.
func (k *key) of(o metav1.Object) string {
	if k.annotation {
		return o.GetAnnotations()[k.name]
	}
	return o.GetLabels()[k.name]
}

// naming is the queue that a pod names. The zero value is none.
type naming struct {
	queue string
	by    *key
	on    *metav1.OwnerReference // the object that names it; nil is the pod
}

// String says where it is written, as "the pod's label berth.dev/queue".
func (n *naming) String() string {
	what := "label"
	if n.by.annotation {
		what = "annotation"
	}
	if n.on == nil {
		return fmt.Sprintf("the pod's %s %s", what, n.by.name)
	}
	return fmt.Sprintf("%s %s of %s %s", what, n.by.name, n.on.Kind, n.on.Name)
}

// Around is what decides, beside Queues and namespaces, which queue pods name.
type Around struct {
	// Owners finds the objects that create pods; nil is that pods alone are read.
	Owners request.Owners
	// Kueue reports whether Kueue runs in the cluster: what carries its label is its own then. It is asked for such
	// objects only; nil is that it does not run.
	Kueue func() bool
}

// In returns Members that read which queue pods name as a says.
func (m *Members) In(a Around) *Members {
	out := *m
	out.around = a
	return &out
}

// names returns the queue that a pod names: the pod itself, or the nearest object above it that names one.
func (m *Members) names(o metav1.Object) naming {
	var on *metav1.OwnerReference
	for range mostAbove {
		for i := range keys {
			if queue := keys[i].of(o); queue != "" && (!keys[i].kueue || m.around.Kueue == nil || !m.around.Kueue()) {
				return naming{queue, &keys[i], on}
			}
		}
		ref := metav1.GetControllerOfNoCopy(o)
		if ref == nil || m.around.Owners == nil {
			break
		}
		above := m.around.Owners(o.GetNamespace(), ref)
		if above == nil || above.GetUID() != ref.UID {
			break
		}
		o, on = above, ref
	}
	return naming{}
}

// NameAs has a pod that does not exist yet name the queues that the object names which is to create it, if it names none.
func NameAs(pod *v1.Pod, o metav1.Object) {
	said := map[bool]map[string]string{false: maps.Clone(pod.Labels), true: maps.Clone(pod.Annotations)}
	for i := range keys {
		k := &keys[i]
		if k.of(pod) != "" {
			return
		}
		if queue := k.of(o); queue != "" {
			if said[k.annotation] == nil {
				said[k.annotation] = map[string]string{}
			}
			said[k.annotation][k.name] = queue
		}
	}
	pod.Labels, pod.Annotations = said[false], said[true]
}

// NamesOther reports whether two versions of a pod name different queues, without the objects that create it.
func NamesOther(was, now metav1.Object) bool {
	for i := range keys {
		if keys[i].of(was) != keys[i].of(now) {
			return true
		}
	}
	return false
}
