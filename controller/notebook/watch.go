package notebook

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/core/explain"
)

// EventObject is the index of events by what they are about, for a cache that is
// not made by Add.
func EventObject(o client.Object) []string {
	e := o.(*corev1.Event)
	return []string{e.InvolvedObject.Kind + "/" + e.InvolvedObject.Name}
}

func requests(namespace, name string) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}}
}

// ofPod is the notebook of a pod.
func ofPod(_ context.Context, o client.Object) []reconcile.Request {
	return requests(o.GetNamespace(), o.GetLabels()[api.LabelNotebook])
}

// ofEvent is the notebook that an event may be about: the one that has the name of
// the StatefulSet, or of the pod without its number.
func ofEvent(_ context.Context, o client.Object) []reconcile.Request {
	about := &o.(*corev1.Event).InvolvedObject
	switch name, numbered := strings.CutSuffix(about.Name, "-0"); {
	case about.Kind == "StatefulSet":
		return requests(about.Namespace, about.Name)
	case about.Kind == "Pod" && numbered:
		return requests(about.Namespace, name)
	}
	return nil
}

// heard reports whether an event counts: warnings, and what autoscalers say.
func heard(e *corev1.Event) bool {
	return e.Type == corev1.EventTypeWarning || explain.OfAutoscaler(e.Reason)
}

// happened lets pass that an event that counts was made or happened again.
func happened() predicate.Predicate {
	counts := func(o client.Object) bool { e, ok := o.(*corev1.Event); return ok && heard(e) }
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return counts(e.Object) },
		UpdateFunc:  func(e event.UpdateEvent) bool { return counts(e.ObjectNew) },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(e event.GenericEvent) bool { return counts(e.Object) },
	}
}

// freed lets pass that a quota is larger, or less of it is used, or it is gone.
func freed() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			old, now := e.ObjectOld.(*corev1.ResourceQuota), e.ObjectNew.(*corev1.ResourceQuota)
			return greater(now.Status.Hard, old.Status.Hard) || greater(old.Status.Used, now.Status.Used)
		},
	}
}

// greater reports whether there is more of anything in a than in b.
func greater(a, b corev1.ResourceList) bool {
	for name, q := range a {
		if other, ok := b[name]; ok && q.Cmp(other) > 0 {
			return true
		}
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			return true // no longer limited, or no longer counted
		}
	}
	return false
}

// ofQuota are the notebooks of a quota's namespace that a quota keeps from having a
// pod. They are to be tried again.
func (r *Reconciler) ofQuota(ctx context.Context, o client.Object) []reconcile.Request {
	var list kubeflow.NotebookList
	if err := r.client.List(ctx, &list, client.InNamespace(o.GetNamespace())); err != nil {
		return nil // of a cache that has ended
	}
	var out []reconcile.Request
	for i := range list.Items {
		nb := &list.Items[i]
		if c := nb.Status.Condition(kubeflow.ConditionReady); c == nil || c.Reason != string(explain.Quota) {
			continue
		}
		r.mu.Lock()
		r.retry[nb.Namespace+"/"+nb.Name] = true
		r.mu.Unlock()
		out = append(out, requests(nb.Namespace, nb.Name)...)
	}
	return out
}

// all are all notebooks.
func (r *Reconciler) all(ctx context.Context, _ client.Object) []reconcile.Request {
	var list kubeflow.NotebookList
	if err := r.client.List(ctx, &list); err != nil {
		return nil // of a cache that has ended
	}
	var out []reconcile.Request
	for i := range list.Items {
		out = append(out, requests(list.Items[i].Namespace, list.Items[i].Name)...)
	}
	return out
}
