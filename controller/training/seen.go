package training

import (
	"cmp"
	"maps"
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

// gone returns the pods of the last pass that are not there now, as the watch had them last: why one is gone may have come after the pass.
func (r *reconciler) gone(m *memory, now []rules.Pod) (out []rules.Pod) {
	there := uidsOf(now)
	r.mu.Lock()
	defer r.mu.Unlock()
	for uid, p := range m.pods {
		if there[uid] {
			continue
		}
		if last, ok := m.going[uid]; ok {
			last.Notice, last.Fault = p.Notice, p.Fault // of its node
			p = last
		}
		out = append(out, p)
	}
	return out
}

// uidsOf are the UIDs of pods.
func uidsOf(pods []rules.Pod) map[string]bool {
	out := make(map[string]bool, len(pods))
	for i := range pods {
		out[pods[i].UID] = true
	}
	return out
}

// keep has the next pass know the pods that this one has left there.
func (r *reconciler) keep(m *memory, pods seenPods) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m.pods = pods
	maps.DeleteFunc(m.going, func(uid string, _ rules.Pod) bool { _, ok := pods[uid]; return !ok })
}

// noteGoing remembers how a pod is that is being deleted or disrupted, and one that has ended after it was asked to stop, until the
// next pass over its job.
func (r *reconciler) noteGoing(o client.Object) {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return
	}
	pod, ok := objects.PodOf(r.kind.kind, p)
	ref := metav1.GetControllerOfNoCopy(p)
	if !ok || ref == nil || !pod.Deleting && !pod.Disrupted {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.memories[ref.UID]
	if m == nil {
		return
	}
	m.going[pod.UID] = pod
	if _, noted := m.stopped[pod.UID]; !noted && pod.Deleting && pod.Interrupted {
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
	there := uidsOf(seen.Pods)
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
