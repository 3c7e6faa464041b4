package queue

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/queues"
)

// slimJob keeps of a Job what decides whether it waits for its turn, and for what.
func slimJob(o any) (any, error) {
	j, ok := o.(*batchv1.Job)
	if !ok {
		return o, nil
	}
	if !turns(j) {
		return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: j.Namespace, Name: j.Name, UID: j.UID, ResourceVersion: j.ResourceVersion}}, nil
	}
	j.SetManagedFields(nil)
	return j, nil
}

// turns reports whether a Job is one that is resumed in its turn.
func turns(j *batchv1.Job) bool {
	_, ok := j.Annotations[api.AnnotationResume]
	return ok
}

// setJob takes a Job as it is now; nil is that it is gone.
func (t *tally) setJob(uid string, j *batchv1.Job) {
	delete(t.suspended, uid)
	if j == nil {
		return
	}
	if ok, _ := queues.JobInTurn(j); ok {
		t.suspended[uid] = queues.OfJob(j, t.priorityClasses())
	}
}

// priorityClasses are those that the pods of suspended objects can get.
func (t *tally) priorityClasses() *queues.PriorityClasses {
	out := &queues.PriorityClasses{Default: func(p *corev1.Pod) string { return t.defaults.Of(p, t.queueOf(p)) }}
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
