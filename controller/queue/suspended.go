package queue

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/core/quota"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/training"
)

// trainingJob returns an object of a kind of training jobs, as it is watched.
func trainingJob(kind string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(training.KindOf(kind))
	return u
}

// followTraining follows the kinds of training jobs, each from when it is served, until ctx ends.
func (f *feed) followTraining(ctx context.Context, watched cache.Cache, mapper meta.RESTMapper) {
	for _, name := range training.Kinds() {
		go func() {
			kind, ok := served(ctx, mapper, training.KindOf(name))
			if !ok {
				return
			}
			informer, err := watched.GetInformer(ctx, trainingJob(kind.Kind))
			if err == nil {
				_, err = informer.AddEventHandler(f.suspendable())
			}
			if err != nil && ctx.Err() == nil {
				klog.ErrorS(err, "Suspended training jobs are not counted", "kind", name)
			}
		}()
	}
}

// setResumable takes an object that can be resumed in its turn as it is now; nil is that it is gone.
func (t *tally) setResumable(uid string, o client.Object) {
	delete(t.suspended, uid)
	if o == nil || !queues.AsksForTurn(o) {
		return
	}
	s := queues.Of(o, t.priorityClasses())
	if ok, _ := s.InTurn(); ok {
		t.suspended[uid] = s
	}
}

// priorityClasses are those that the pods of suspended objects can get.
func (t *tally) priorityClasses() *queues.PriorityClasses {
	out := &queues.PriorityClasses{Default: func(p *corev1.Pod) string { return t.defaults.Of(p, t.atCreation(p)) }}
	for _, c := range t.classes {
		out.List = append(out.List, *c)
	}
	return out
}

// queueOf is the queue that a pod enters; "" is none, or that no Queue was read yet.
func (t *tally) queueOf(p *corev1.Pod) string {
	if t.members == nil {
		return ""
	}
	return t.members.QueueOf(p, t.namespaces[p.Namespace])
}

// atCreation is the queue whose class a pod gets.
func (t *tally) atCreation(p *corev1.Pod) string {
	if t.members == nil {
		return ""
	}
	return t.members.AtCreation(p, t.namespaces[p.Namespace])
}

// asks returns what the suspended objects ask for that wait for quota.
func (t *tally) asks() (out []quota.Workload) {
	for _, s := range t.suspended {
		w := s.Workload(func(p *corev1.Pod, allowed sharing.Ways) (quota.Pod, []quota.Kind) {
			return queues.Asked(p, t.offers, allowed)
		}, t.book.Tree().Ways, t.queueOf, t.userOf, t.line)
		if w != nil && t.book.Try(w).Cause != quota.None {
			out = append(out, *w)
		}
	}
	return out
}
