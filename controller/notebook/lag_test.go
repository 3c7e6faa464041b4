package notebook_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/controller/notebook"
	"berth.dev/berth/test/soak"
)

// lagging is a client as a manager gives: it writes to the API server, and reads
// from a copy that is as old as the last catch-up.
type lagging struct {
	client.WithWatch
	copy client.Client
}

func (l *lagging) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return l.copy.Get(ctx, key, o, opts...)
}

func (l *lagging) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return l.copy.List(ctx, list, opts...)
}

// lag makes the reconciler read from a copy from now on; it gives what brings the
// copy up to date. Like the cache, the copy has only what is labeled as a
// notebook's.
func (w *world) lag() (catchUp func()) {
	l := &lagging{WithWatch: w.api}
	w.lagged = l
	w.restarted = func() {
		w.r = notebook.NewReconciler(l, w.bare, w.o, w.clock)
	}
	return func() {
		w.t.Helper()
		var all []client.Object
		for _, list := range []client.ObjectList{
			&kubeflow.NotebookList{}, &appsv1.StatefulSetList{}, &corev1.ServiceList{}, &corev1.PodList{}, &corev1.EventList{}, &corev1.ResourceQuotaList{},
		} {
			w.must(w.bare.List(w.t.Context(), list))
			w.must(meta.EachListItem(list, func(o runtime.Object) error {
				obj := o.(client.Object)
				switch o.(type) {
				case *appsv1.StatefulSet, *corev1.Service, *corev1.Pod:
					if obj.GetLabels()[api.LabelNotebook] == "" {
						return nil
					}
				}
				all = append(all, obj.DeepCopyObject().(client.Object))
				return nil
			}))
		}
		l.copy = fake.NewClientBuilder().WithScheme(w.bare.Scheme()).WithObjects(all...).WithIndex(&corev1.Event{}, "berth.object", notebook.EventObject).Build()
	}
}

// TestAnOldCacheLeadsNowhereElse lets the reconciler act on what was true some time
// ago: there is never a restart that no change asked for, and all ends as is
// wanted.
func TestAnOldCacheLeadsNowhereElse(t *testing.T) {
	for seed := range soak.Pick[uint64](3, 8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			chance := rand.New(rand.NewPCG(seed, 6))
			w := newWorld(t)
			catchUp := w.lag()
			w.must(w.bare.Create(t.Context(), w.node(4)))
			nb, reasons := asking("a", 1), 1
			w.apply(nb)
			catchUp()
			w.restart()
			for range 50 {
				switch chance.IntN(9) {
				case 0:
					next := asking("a", chance.IntN(3))
					if chance.IntN(4) == 0 {
						next.Annotations = map[string]string{api.AnnotationStopped: "x"}
					}
					if string(next.Spec.Template.Spec.Raw) != string(nb.Spec.Template.Spec.Raw) {
						reasons++
					}
					if len(next.Annotations) == 0 && len(nb.Annotations) > 0 {
						reasons++
					}
					nb = next
					w.apply(nb)
				case 1:
					w.restart()
				case 2:
					w.sets()
				case 3:
					w.schedule()
				case 4:
					w.run()
				case 5, 6:
					catchUp()
				default:
					w.reconcile()
				}
			}
			w.eachPass = catchUp
			w.settle()
			w.check("a", nb)
			if len(w.born) > reasons {
				t.Errorf("%d pods were made for %d reasons to make one", len(w.born), reasons)
			}
		})
	}
}
