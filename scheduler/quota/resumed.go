package quota

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/core/quota"
	"berth.dev/berth/kube/queues"
)

// Await keeps quota until a time for those of the first count pods of an object that was resumed that ask for GPUs, but
// for those that exist already, if there is so much. Each pod that it creates takes over a part. The object
// is out of its line; Turns names it when some of its pods are refused.
func (q *Quota) Await(a *Ask, count int, until time.Time) {
	q.change(func() {
		id := types.UID(a.id())
		if q.book == nil {
			q.objects.Forget(id)
			return
		}
		q.book.Leave(string(id))
		q.book.Release(string(id))
		q.objects.Resume(id)
		w := q.workload(a)
		if w == nil {
			return
		}
		q.admit(w, nil)
		w.Pods, w.Need = slices.DeleteFunc(w.Pods[:min(max(0, count), len(w.Pods))], func(p quota.Pod) bool { return len(p.Pieces) == 0 }), 0
		var waiting []*v1.Pod
		for _, s := range q.pods {
			pod := s.pod
			switch ref := metav1.GetControllerOfNoCopy(pod); {
			case ref == nil || ref.UID != id || pod.DeletionTimestamp != nil:
			case pod.Spec.NodeName == "":
				waiting = append(waiting, pod)
			default:
				q.objects.Come(id, pod.UID)
				asked, _ := q.read.Asked(pod, q.book.Tree().Ways(w.Queue))
				w.Pods = quota.WithoutOne(w.Pods, asked.Pieces)
			}
		}
		if v := q.book.Try(w); v.Cause == quota.None {
			q.book.Keep(w, w.Pods, v.CountedAs(w), until)
		}
		for _, pod := range waiting {
			q.take(pod)
		}
	})
}

// Lost reports whether some pods of an object that was resumed wait for quota, none has a node, and nothing is
// held for any.
func (q *Quota) Lost(object types.UID) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	waits := false
	for uid := range q.objects.Pods(object) {
		pod := q.pod(uid)
		if pod == nil || q.book == nil {
			continue
		}
		if pod.Spec.NodeName != "" || q.Holding(uid) || len(q.book.Kept(string(uid)))+len(q.book.Kept(queues.Workload(pod))) > 0 {
			return false
		}
		id, leads := q.works[uid]
		waits = waits || leads && q.book.Waits(id)
	}
	return waits
}

// Awaited returns how many pods of each set of an object have still to come for which quota is kept.
func (q *Quota) Awaited(o *queues.Suspended) []int {
	var kept []string
	if q.enter() {
		kept = q.book.Kept(string(o.Object.GetUID()))
		q.mu.Unlock()
	}
	return o.Count(kept)
}
