package training

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// TestWhatHappensToThePodsOfAJobIsOnePass has four pods of a job created, changed, and one deleted within moments.
func TestWhatHappensToThePodsOfAJobIsOnePass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		defer q.ShutDown()
		noted := 0
		h := gathered(func(_ context.Context, o client.Object) []reconcile.Request {
			noted++
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: "job"}}}
		})
		pod := func(name string) client.Object {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name}}
		}
		for _, name := range []string{"a", "b", "c", "d"} {
			h.Create(t.Context(), event.CreateEvent{Object: pod(name)}, q)
			h.Update(t.Context(), event.UpdateEvent{ObjectOld: pod(name), ObjectNew: pod(name)}, q)
		}
		h.Delete(t.Context(), event.DeleteEvent{Object: pod("d")}, q)
		if noted != 13 {
			t.Errorf("%d objects were looked at at once, want 13", noted)
		}
		time.Sleep(gather - time.Millisecond)
		synctest.Wait()
		if n := q.Len(); n != 0 {
			t.Errorf("%d passes before all was gathered", n)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := q.Len(); n != 1 {
			t.Errorf("%d passes, want 1", n)
		}
	})
}
