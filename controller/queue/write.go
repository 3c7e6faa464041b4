package queue

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/quota"
)

const (
	usageEvery = time.Minute      // at most, that past use alone is written
	writeAgain = 10 * time.Second // after a write that failed
)

// said is a status that was written, and when the past use in it was.
type said struct {
	status v1alpha1.QueueStatus
	usage  time.Time
}

// write writes those statuses that differ from what was written. It returns how long it may be
// until the next time; 0 is until something changes.
func (c *controller) write(ctx context.Context, list []v1alpha1.Queue, next map[string]*v1alpha1.QueueStatus, now time.Time) (wait time.Duration) {
	c.forget(next)
	there := make(map[types.UID]bool, len(list))
	for i := range list {
		q := &list[i]
		there[q.UID] = true
		was, known := c.said[q.UID]
		if !known {
			was = said{status: q.Status}
		}
		is := next[q.Name]
		keepTimes(is, was.status.Conditions, now)
		due := now.Sub(was.usage) >= usageEvery && c.tally.usageDiffers(q.Name, was.status.Usage)
		if !due && sameStatus(&was.status, is) {
			if len(is.Usage) > 0 || len(was.status.Usage) > 0 {
				wait = sooner(wait, usageEvery)
			}
			c.said[q.UID] = was
			continue
		}
		if err := c.patch(ctx, q, is); err != nil {
			if client.IgnoreNotFound(err) != nil && ctx.Err() == nil {
				klog.ErrorS(err, "The status of a Queue could not be written", "queue", q.Name)
				wait = sooner(wait, writeAgain)
			}
			continue
		}
		c.borrows(q, &was.status, is)
		c.said[q.UID] = said{*is, now}
		wait = sooner(wait, usageEvery)
	}
	for uid := range c.said {
		if !there[uid] {
			delete(c.said, uid)
		}
	}
	return wait
}

// The reasons of events on Queues.
const (
	eventBorrows = "Borrows"     // it holds more than its nominal quota
	eventNone    = "BorrowsNone" // it does no longer
)

// borrows makes an event if a queue has begun to borrow, or has returned all.
func (c *controller) borrows(q *v1alpha1.Queue, was, is *v1alpha1.QueueStatus) {
	before, now := borrowed(was), borrowed(is)
	if before == now {
		return
	}
	about := &v1alpha1.Queue{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindQueue},
		ObjectMeta: metav1.ObjectMeta{Name: q.Name, UID: q.UID, ResourceVersion: q.ResourceVersion},
	}
	if now {
		c.events.Eventf(about, nil, corev1.EventTypeNormal, eventBorrows, "Queue", "the queue borrows, at first %s, from the nominal quota of others", is.Borrowed)
	} else {
		c.events.Eventf(about, nil, corev1.EventTypeNormal, eventNone, "Queue", "the queue borrows nothing any longer")
	}
}

// borrowed reports whether a queue borrows GPUs of some kind.
func borrowed(s *v1alpha1.QueueStatus) bool {
	return slices.ContainsFunc(s.Resources, func(r v1alpha1.QueueResource) bool { return r.Borrowed.Sign() > 0 })
}

// sooner is the shorter of two times, of which 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}

// usageDiffers reports whether the past use of a queue is to be written again.
func (t *tally) usageDiffers(name string, was []v1alpha1.QueueUsage) bool {
	spec, _ := t.book.Tree().Spec(name)
	var old []quota.PastUse
	for _, u := range was {
		old = append(old, quota.PastUse{User: u.User, Decay: quota.Decay{Value: float64(u.GPUSeconds), At: u.At.Time}})
	}
	return quota.Differs(old, t.used(name), spec.HalfLife)
}

// keepTimes fills in the times of conditions: those of the conditions before where these are the
// same.
func keepTimes(s *v1alpha1.QueueStatus, before []metav1.Condition, now time.Time) {
	for i := range s.Conditions {
		c := &s.Conditions[i]
		c.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
		if old := meta.FindStatusCondition(before, c.Type); old != nil && old.Status == c.Status && !old.LastTransitionTime.IsZero() {
			c.LastTransitionTime = old.LastTransitionTime
		}
	}
}

// sameStatus reports whether two statuses are equal but for past use.
func sameStatus(a, b *v1alpha1.QueueStatus) bool {
	return a.ObservedGeneration == b.ObservedGeneration && a.Nominal == b.Nominal && a.Used == b.Used && a.Borrowed == b.Borrowed && a.Lent == b.Lent &&
		a.Waiting == b.Waiting && equality.Semantic.DeepEqual(a.Conditions, b.Conditions) &&
		slices.EqualFunc(a.Resources, b.Resources, func(x, y v1alpha1.QueueResource) bool { return equality.Semantic.DeepEqual(x, y) })
}

// patch writes all of a status.
func (c *controller) patch(ctx context.Context, q *v1alpha1.Queue, s *v1alpha1.QueueStatus) error {
	raw, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": q.UID},
		"status": map[string]any{
			"observedGeneration": s.ObservedGeneration, "nominal": s.Nominal, "used": s.Used, "borrowed": s.Borrowed, "lent": s.Lent,
			"waiting": s.Waiting, "resources": s.Resources, "usage": s.Usage, "conditions": s.Conditions,
		},
	})
	if err != nil {
		return err
	}
	into := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: q.Name}}
	return c.client.Status().Patch(ctx, into, client.RawPatch(types.MergePatchType, raw), client.FieldOwner(Name))
}
