package queue

import (
	"context"
	"encoding/json"
	"maps"
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
	"berth.dev/berth/core/queue"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/internal/pause"
)

const (
	usageEvery = time.Minute      // at most, that past use alone is written
	writeAgain = 10 * time.Second // after a write that failed
)

// pace returns how many statuses are written while many change. A pass that comes as late as it may then
// writes what the others have left. While an API server is busy with a burst of pods, each write would keep it from them.
func pace() queue.Pace {
	return queue.Pace{Rate: 10, Burst: 10 * int(gatherMost/time.Second), Ahead: gatherMost, Least: 1}
}

// said is a status that was written, and when the past use in it was.
type said struct {
	status v1alpha1.QueueStatus
	usage  time.Time
}

// write writes those statuses that differ from what was written, at the pace at which they may be. It
// returns how long it may be until the next time; 0 is until something changes.
func (c *controller) write(ctx context.Context, list []v1alpha1.Queue, next map[string]*v1alpha1.QueueStatus, now time.Time) (wait time.Duration) {
	c.forget(next)
	there, changed := make(map[types.UID]*v1alpha1.Queue, len(list)), []queue.Change(nil)
	for i := range list {
		q := &list[i]
		there[q.UID] = q
		was, is := c.saidOf(q), next[q.Name]
		keepTimes(is, was.status.Conditions, now)
		urgency, differs := c.urgency(q.Name, &was, is, now)
		if differs {
			if c.late[q.UID].IsZero() {
				c.late[q.UID] = now
			}
			changed = append(changed, queue.Change{ID: string(q.UID), Since: c.late[q.UID], Urgency: urgency})
			continue
		}
		if len(is.Usage) > 0 || len(was.status.Usage) > 0 {
			wait = pause.Shorter(wait, usageEvery)
		}
		c.said[q.UID] = was
		delete(c.late, q.UID)
	}
	due, spent := pace().Slowed(c.writes).Due(changed, c.spent, now)
	for c.spent = spent; len(due) > 0; due = due[1:] {
		q := there[types.UID(due[0].ID)]
		wait = pause.Shorter(wait, c.writeOne(ctx, q, next[q.Name], now))
	}
	maps.DeleteFunc(c.said, func(uid types.UID, _ said) bool { return there[uid] == nil })
	maps.DeleteFunc(c.late, func(uid types.UID, _ time.Time) bool { return there[uid] == nil })
	if len(c.late) > 0 {
		wait = pause.Shorter(wait, c.gathers())
	}
	return wait
}

// saidOf is what was last written of a Queue, or what it had before.
func (c *controller) saidOf(q *v1alpha1.Queue) said {
	if was, known := c.said[q.UID]; known {
		return was
	}
	return said{status: q.Status}
}

// urgency says how soon a status is to be written; differs is false if it need not be.
func (c *controller) urgency(name string, was *said, is *v1alpha1.QueueStatus, now time.Time) (u queue.Urgency, differs bool) {
	old := &was.status
	switch {
	case old.ObservedGeneration != is.ObservedGeneration || !equality.Semantic.DeepEqual(old.Conditions, is.Conditions):
		return queue.AtOnce, true
	case old.Waiting != is.Waiting || borrowed(old) != borrowed(is):
		return queue.Awaited, true
	}
	return queue.Number, !sameNumbers(old, is) || now.Sub(was.usage) >= usageEvery && c.tally.usageDiffers(name, old.Usage)
}

// writeOne writes the status of a Queue, and returns like write.
func (c *controller) writeOne(ctx context.Context, q *v1alpha1.Queue, is *v1alpha1.QueueStatus, now time.Time) time.Duration {
	delete(c.late, q.UID)
	began := c.now()
	err := c.patch(ctx, q, is)
	ended := c.now()
	c.writes.Took(ended.Sub(began), ended)
	if err != nil {
		if client.IgnoreNotFound(err) != nil && ctx.Err() == nil {
			klog.ErrorS(err, "The status of a Queue could not be written", "queue", q.Name)
			return writeAgain
		}
		return 0
	}
	was := c.saidOf(q)
	c.borrows(q, &was.status, is)
	c.said[q.UID] = said{*is, now}
	return usageEvery
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

// sameNumbers reports whether the numbers of two statuses are equal, but for past use.
func sameNumbers(a, b *v1alpha1.QueueStatus) bool {
	return a.Nominal == b.Nominal && a.Used == b.Used && a.Borrowed == b.Borrowed && a.Lent == b.Lent &&
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
