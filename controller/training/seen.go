package training

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rules "berth.dev/berth/core/training"
	objects "berth.dev/berth/kube/training"
)

// seenPods are the pods with a node that a pass has seen and left there, by UID. If one is gone at the next pass, it was
// deleted with no time between, as pods are whose node is gone.
type seenPods map[string]rules.Pod

// seenOf returns the pods that stay when a plan has been carried out.
func seenOf(pods []rules.Pod, plan *rules.Plan) seenPods {
	out := seenPods{}
	for i := range pods {
		if p := &pods[i]; p.Node != "" && (p.Phase == rules.Pending || p.Phase == rules.Running) {
			out[p.UID] = *p
		}
	}
	for _, list := range [][]rules.Pod{plan.DeletePods, plan.ForgetPods} {
		for i := range list {
			delete(out, list[i].UID)
		}
	}
	return out
}

// gone returns those that are not among pods.
func (s seenPods) gone(pods []rules.Pod) (out []rules.Pod) {
	there := make(map[string]bool, len(pods))
	for i := range pods {
		there[pods[i].UID] = true
	}
	for uid, p := range s {
		if !there[uid] {
			out = append(out, p)
		}
	}
	return out
}

// noteStopped remembers a pod that has ended after it was asked to stop, until the next pass over its job.
func (r *reconciler) noteStopped(o client.Object) {
	p, ok := o.(*corev1.Pod)
	if !ok || p.DeletionTimestamp == nil {
		return
	}
	pod, ok := objects.PodOf(r.kind.kind, p)
	ref := metav1.GetControllerOfNoCopy(p)
	if !ok || ref == nil || !pod.Interrupted {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.memories[ref.UID]
	if m == nil {
		return
	}
	if _, noted := m.stopped[pod.UID]; !noted {
		m.stopped[pod.UID] = &pod
	}
}

// stopped returns the pods that are remembered and not told yet, in order of their names.
func (r *reconciler) stopped(m *memory) (out []rules.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range m.stopped {
		if p != nil {
			out = append(out, *p)
		}
	}
	slices.SortFunc(out, func(a, b rules.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// told notes that events have been written for what stopped returned, and forgets pods of earlier passes that are gone. A pass that fails
// before does not lose them.
func (r *reconciler) told(m *memory, seen *rules.Observed) {
	there := make(map[string]bool, len(seen.Pods))
	for i := range seen.Pods {
		there[seen.Pods[i].UID] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for uid, p := range m.stopped {
		if p == nil && !there[uid] {
			delete(m.stopped, uid)
		}
	}
	for i := range seen.Stopped {
		m.stopped[seen.Stopped[i].UID] = nil
	}
	seen.Stopped = nil
}
