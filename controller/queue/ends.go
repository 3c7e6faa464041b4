package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/internal/pause"
)

// The reasons of events on pods and notebooks.
const (
	eventEnding  = "MaxRunTimeWarning" // it is evicted soon
	eventEnded   = "MaxRunTime"        // it is evicted, or stopped, as its time is over
	eventDrained = "QueueDrained"      // it is, as its queue is drained
	eventBlocked = "EvictionBlocked"   // it cannot be yet
)

// evictAgain is how long after an eviction that failed it is tried again.
const evictAgain = 10 * time.Second

// end evicts workloads that a rule of their queue ends, and warns those that it ends soon. It
// returns how long it may be until the next time, at most wait; 0 is until something changes.
func (c *controller) end(ctx context.Context, now time.Time, wait time.Duration) time.Duration {
	t := c.tally
	if len(t.rules) == 0 {
		clear(c.warned)
		return wait
	}
	evict, warn, next := quota.Endings(now, t.book.Tree(), t.book.Holders(), t.rules)
	if !next.IsZero() {
		wait = pause.Shorter(wait, max(next.Sub(now), time.Millisecond))
	}
	still := map[string]quota.Ending{}
	for _, e := range warn {
		if was := c.warned[e.Workload]; !was.At.Equal(e.At) {
			c.tell(e, eventEnding, fmt.Sprintf("%s at %s: %s; save what it has done before",
				goes(t.pod(e.Pods[0])), e.At.UTC().Format(time.RFC3339), because(&e)))
		}
		still[e.Workload] = e
	}
	c.warned = still
	ending := map[string]bool{}
	for _, e := range evict {
		ending[e.Workload] = true
		if at := c.retry[e.Workload]; now.Before(at) {
			wait = pause.Shorter(wait, at.Sub(now))
			continue
		}
		c.retry[e.Workload] = now.Add(evictAgain) // until its pods are seen to end
		wait = pause.Shorter(wait, evictAgain)
		c.evict(ctx, e, now)
	}
	for id := range c.retry {
		if !ending[id] {
			delete(c.retry, id)
			delete(c.blocked, id)
		}
	}
	return wait
}

// because says by which rule a workload ends.
func because(e *quota.Ending) string {
	if e.Drain {
		return fmt.Sprintf("spec.stop of queue %s is %s", e.Queue, v1alpha1.StopHoldAndDrain)
	}
	return fmt.Sprintf("workloads of queue %s run for %s at most (spec.maxRunTime)", e.Queue, e.Most)
}

// goes says what becomes of a workload that ends.
func goes(pod *corev1.Pod) string {
	if notebookOf(pod) != "" {
		return "the notebook is stopped"
	}
	return "the pod is evicted"
}

// notebookOf is the Notebook of a pod; "" is none.
func notebookOf(pod *corev1.Pod) string {
	if pod == nil || metav1.GetControllerOf(pod) == nil {
		return ""
	}
	return pod.Labels[api.LabelNotebook]
}

// evict ends a workload: a notebook by Kubeflow's annotation, other pods by the API for
// evictions, all of a gang or none as far as disruption budgets can be asked before.
func (c *controller) evict(ctx context.Context, e quota.Ending, now time.Time) {
	reason := eventEnded
	if e.Drain {
		reason = eventDrained
	}
	var pods []*corev1.Pod
	for _, uid := range e.Pods {
		if p := c.tally.pod(uid); p != nil {
			pods = append(pods, p)
		}
	}
	if len(pods) == 1 && notebookOf(pods[0]) != "" {
		switch err := c.stopNotebook(ctx, pods[0], because(&e), now); {
		case err == nil:
			c.countEvicted(&e, reason)
			c.tell(e, reason, "the notebook is stopped: "+because(&e)+"; its volumes are kept")
			return
		case !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err):
			c.failed(e, pods[0], err)
			return
		}
	}
	for _, try := range [][]string{{metav1.DryRunAll}, nil} {
		for _, p := range pods {
			err := c.client.SubResource("eviction").Create(ctx, p, &policyv1.Eviction{
				ObjectMeta:    metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name},
				DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID}, DryRun: try},
			})
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				c.failed(e, p, err)
				return
			}
		}
	}
	c.countEvicted(&e, reason)
	c.tell(e, reason, "the pod is evicted: "+because(&e))
}

// failed reports an eviction that is not possible now, once.
func (c *controller) failed(e quota.Ending, p *corev1.Pod, err error) {
	if !apierrors.IsTooManyRequests(err) {
		klog.ErrorS(err, "A pod could not be evicted", "pod", klog.KObj(p), "queue", e.Queue)
		return
	}
	if !c.blocked[e.Workload] {
		c.blocked[e.Workload] = true
		c.tell(e, eventBlocked, fmt.Sprintf("%s, and a disruption budget does not allow the eviction of pod %s yet: it is tried again", because(&e), p.Name))
	}
}

// stopNotebook stops the notebook of a pod as Kubeflow does, and says why.
func (c *controller) stopNotebook(ctx context.Context, pod *corev1.Pod, why string, now time.Time) error {
	raw, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{
		api.AnnotationStopped: now.UTC().Format(time.RFC3339), api.AnnotationNotebookStoppedFor: why, api.AnnotationNotebookStopsAt: nil,
	}}})
	if err != nil {
		return err
	}
	n := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: notebookOf(pod)}}
	n.SetGroupVersionKind(kubeflow.GroupVersion.WithKind(kubeflow.Kind))
	return c.client.Patch(ctx, n, client.RawPatch(types.MergePatchType, raw), client.FieldOwner(Name))
}

// tell makes a warning on each pod of a workload.
func (c *controller) tell(e quota.Ending, reason, note string) {
	for _, uid := range e.Pods {
		if p := c.tally.pod(uid); p != nil {
			about := &corev1.Pod{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
				ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion},
			}
			c.events.Eventf(about, nil, corev1.EventTypeWarning, reason, "Queue", "%s", note)
		}
	}
}
