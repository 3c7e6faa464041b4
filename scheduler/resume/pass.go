package resume

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"berth.dev/berth/api"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/kube/request"
)

// The reasons of events on objects.
const (
	Resumed        = "ResumedInTurn"      // it is resumed
	SuspendedAgain = "SuspendedUntilTurn" // it has lost its pods, and waits again
)

// pass asks about all objects that it may be the turn of, and resumes those that start. It returns after how
// long the next pass is due; 0 is when something changes.
func (r *Resumer) pass(ctx context.Context, now time.Time) time.Duration {
	changes, freed := r.changes()
	for _, at := range changes {
		obj, _, _ := at.kind.store.GetByKey(at.name) // a store of this process
		o, _ := obj.(metav1.Object)
		r.see(at, o, now)
	}
	list, next := r.due(now, freed)
	nodes := &room{r: r}
	for _, e := range list {
		e.due, e.again = false, time.Time{}
		if e.goes {
			r.lost(ctx, e, now)
		} else {
			r.ask(ctx, e, nodes, now)
		}
		next = quota.Sooner(next, e.again)
		if e.lack == quota.LackOfRoom {
			next = quota.Sooner(next, now.Add(lookAgain))
		}
	}
	if next.IsZero() {
		return 0
	}
	return max(next.Sub(now), time.Millisecond)
}

// ask resumes an object if there are quota and room for its pods.
func (r *Resumer) ask(ctx context.Context, e *entry, nodes *room, now time.Time) {
	if e.waits.Left { // its pods of before are not deleted yet: what they hold is to be its again
		e.lack = quota.LackOfQuota
		return
	}
	s := r.Quota.Stand(e.ask)
	o := quota.Outlook{Need: e.ask.Need, Count: len(e.ask.Pods), Quota: s.Count, Reclaims: s.Reclaims}
	e.lack = quota.LackOfQuota
	if s.Queue == "" {
		return
	}
	if e.again = s.Later; o.Quota >= o.Need || o.Reclaims {
		most := max(o.Quota, o.Need)
		if o.Room = nodes.now().Room(e.waits, most); o.Room < o.Need {
			if yields := r.Quota.Yields(e.ask); len(yields) > 0 {
				o.Freed = nodes.without(yields).Room(e.waits, o.Need)
			}
		}
	}
	count, lack := o.Start()
	if e.lack = lack; lack == quota.NoLack {
		err := r.resume(ctx, e, count, o.Quota < o.Need || o.Room < o.Need, now)
		if err == nil {
			e.goes, e.until = true, now.Add(kept)
			r.Quota.Await(e.ask, min(s.Count, count), e.until) // none where its pods are to have others evicted
			return
		}
		r.failed(ctx, e, err, now)
	}
	r.Quota.Waive(e.object.GetUID())
}

// failed has a write that failed done again.
func (r *Resumer) failed(ctx context.Context, e *entry, err error, now time.Time) {
	e.again = now.Add(writeAgain)
	switch log := klog.FromContext(ctx); {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err): // it has changed, and is seen again
		e.again = now.Add(lookSoon)
	case apierrors.ReasonForError(err) == metav1.StatusReasonUnknown: // such as that another scheduler leads
		log.V(2).Info("A suspended object is not written yet", "kind", e.kind.name, "object", klog.KObj(e.object), "reason", err.Error())
	default:
		log.Error(err, "A suspended object is not written yet", "kind", e.kind.name, "object", klog.KObj(e.object))
	}
}

// lost suspends an object again that was resumed, if it has lost all its pods, and others wait for
// quota in their place: it then waits for its turn without them. Pods without GPUs count, too, where they have a node.
func (r *Resumer) lost(ctx context.Context, e *entry, now time.Time) {
	uid := e.object.GetUID()
	if !r.Quota.Lost(uid) || slices.ContainsFunc(r.Pods(), func(p *v1.Pod) bool {
		ref := metav1.GetControllerOfNoCopy(p)
		return ref != nil && ref.UID == uid && p.Spec.NodeName != "" && p.DeletionTimestamp == nil && !request.Ended(p)
	}) {
		return
	}
	err := r.write(ctx, e, map[string]any{api.AnnotationResumed: nil}, e.kind.suspend(true))
	if err != nil {
		r.failed(ctx, e, err, now)
		return
	}
	r.tell(e, SuspendedAgain, "Suspending", "suspended until its turn, as there is no quota for its pods, and none of them has a node")
}

// resume writes that an object goes on, with as many pods at once. evicts is that these are to have others
// evicted.
func (r *Resumer) resume(ctx context.Context, e *entry, count int, evicts bool, now time.Time) error {
	notes, spec := map[string]any{api.AnnotationResumed: now.UTC().Format(time.RFC3339)}, e.kind.suspend(false)
	if j, is := e.object.(*batchv1.Job); is {
		resize(j, e.waits.Resizes, count, len(e.ask.Pods), notes, spec)
	}
	if err := r.write(ctx, e, notes, spec); err != nil {
		return err
	}
	said := ""
	switch whole := len(e.ask.Pods); {
	case evicts:
		said = "others are evicted to give its pods the quota and the nodes that they may have"
	case count < whole:
		said = fmt.Sprintf("there are quota and nodes for %d of its %d pods", count, whole)
	case count == 1:
		said = "there are quota and a node for its pod"
	default:
		said = fmt.Sprintf("there are quota and nodes for its %d pods", count)
	}
	r.tell(e, Resumed, "Resuming", "resumed in its turn: "+said)
	return nil
}

// resize adds to what is written of a Job how many pods it creates: fewer than whole if that may be, and as
// many as before if it was started with fewer the last time.
func resize(j *batchv1.Job, may bool, count, whole int, notes, spec map[string]any) {
	switch before, shrunk := j.Annotations[api.AnnotationParallelism]; {
	case may && count < whole:
		if spec["parallelism"] = count; !shrunk && j.Spec.Parallelism != nil {
			notes[api.AnnotationParallelism] = strconv.Itoa(int(*j.Spec.Parallelism))
		}
	case shrunk:
		if n, err := strconv.ParseInt(before, 10, 32); err == nil {
			spec["parallelism"] = n
		}
		notes[api.AnnotationParallelism] = nil
	}
}

// write changes annotations and the spec of an object, if it is still as it was seen last.
func (r *Resumer) write(ctx context.Context, e *entry, notes, spec map[string]any) error {
	o := e.object
	raw, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": o.GetUID(), "resourceVersion": o.GetResourceVersion(), "annotations": notes}, "spec": spec,
	})
	if err != nil {
		return err
	}
	written, err := e.kind.patch(ctx, o.GetNamespace(), o.GetName(), raw)
	if err != nil {
		return fmt.Errorf("write %s %s/%s: %w", e.kind.name, o.GetNamespace(), o.GetName(), err)
	}
	e.object = written
	return nil
}

// tell makes an event on an object.
func (r *Resumer) tell(e *entry, reason, action, text string) {
	if r.Events == nil {
		return
	}
	o := e.object
	r.Events.Eventf(&metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: e.waits.APIVersion, Kind: e.waits.Kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion()},
	}, nil, v1.EventTypeNormal, reason, action, "%s", text)
}
