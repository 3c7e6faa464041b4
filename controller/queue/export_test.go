package queue

import (
	"context"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/controller/runtime"
	"berth.dev/berth/internal/pause"
	"berth.dev/berth/kube/queues"
)

// EvictedTotal is the metric of evictions.
var EvictedTotal = evictedTotal

// Count is the controller without a manager, of which a test drives the passes.
type Count struct{ *controller }

// NewCount makes one that writes by a client, tells a Room, and reads a clock.
func NewCount(c client.Client, r events.EventRecorder, room *Room, now func() time.Time) *Count {
	out := &Count{&controller{client: c, events: r, room: room, now: now, wake: make(chan struct{}, 1)}}
	out.reset()
	return out
}

// Set takes objects as they are now; nil is gone.
func (c *Count) Set(uid string, o client.Object) {
	switch o := o.(type) {
	case *corev1.Pod:
		c.tally.setPod(uid, o)
	case *corev1.Node:
		c.tally.setNode(uid, o)
	case *batchv1.Job, kubeflow.TrainingJob:
		c.tally.setResumable(uid, o)
	case *schedulingv1.PriorityClass:
		c.tally.setClass(uid, o)
	case *corev1.Namespace:
		c.tally.setNamespace(uid, o)
	}
}

// SetLines takes the WorkloadPriorityClasses that there are.
func (c *Count) SetLines(lines queues.LinePriorities) { c.tally.lines = lines }

// Pass is one pass over the Queues of a list at a time.
func (c *Count) Pass(ctx context.Context, list []v1alpha1.Queue, now time.Time) time.Duration {
	o := runtime.NewOwners(c.client)
	c.tally.owners = func(namespace string, ref *metav1.OwnerReference) metav1.Object { return o.Of(ctx, namespace, ref) }
	c.room.mu.Lock()
	c.tally.read(list)
	c.tally.settle(now)
	next := c.tally.standing()
	c.room.mu.Unlock()
	c.room.set(c.tally)
	wait := c.giveClasses(ctx, now)
	return c.end(ctx, now, pause.Shorter(wait, c.write(ctx, list, next, now)))
}
