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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"berth.dev/berth/api"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/kube/explain"
)

// The reasons of events on Jobs.
const (
	Resumed        = "ResumedInTurn"      // it is resumed
	SuspendedAgain = "SuspendedUntilTurn" // it has lost its pods, and waits again
)

// pass asks about all Jobs that it may be the turn of, and resumes those that start. It returns after how
// long the next pass is due; 0 is when something changes.
func (r *Resumer) pass(ctx context.Context, now time.Time) time.Duration {
	r.mu.Lock()
	dirty, freed := r.dirty, r.freed
	r.dirty, r.freed = map[string]bool{}, false
	r.mu.Unlock()
	for name := range dirty {
		obj, _, _ := r.jobs.GetByKey(name) // a store of this process
		j, _ := obj.(*batchv1.Job)
		r.see(name, j, now)
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

// ask resumes a Job if there are quota and room for its pods.
func (r *Resumer) ask(ctx context.Context, e *entry, nodes *room, now time.Time) {
	if e.job.Status.Active > 0 { // its pods of before are not deleted yet: what they hold is to be its again
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
	r.Quota.Waive(e.job.UID)
}

// failed has a write that failed done again.
func (r *Resumer) failed(ctx context.Context, e *entry, err error, now time.Time) {
	e.again = now.Add(writeAgain)
	switch log := klog.FromContext(ctx); {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err): // it has changed, and is seen again
		e.again = now.Add(lookSoon)
	case apierrors.ReasonForError(err) == metav1.StatusReasonUnknown: // such as that another scheduler leads
		log.V(2).Info("A Job is not written yet", "job", klog.KObj(e.job), "reason", err.Error())
	default:
		log.Error(err, "A Job is not written yet", "job", klog.KObj(e.job))
	}
}

// lost suspends a Job again that was resumed, if it has lost all its pods, and others wait for
// quota in their place: it then waits for its turn without them.
func (r *Resumer) lost(ctx context.Context, e *entry, now time.Time) {
	if !r.Quota.Lost(e.job.UID) {
		return
	}
	err := r.write(ctx, e, map[string]any{api.AnnotationResumed: nil}, map[string]any{"suspend": true})
	if err != nil {
		r.failed(ctx, e, err, now)
		return
	}
	r.tell(e, SuspendedAgain, "Suspending", "suspended until its turn, as there is no quota for its pods, and none of them has a node")
}

// resume writes that a Job goes on, with as many pods at once. evicts is that these are to have others
// evicted.
func (r *Resumer) resume(ctx context.Context, e *entry, count int, evicts bool, now time.Time) error {
	j := e.job
	notes := map[string]any{api.AnnotationResumed: now.UTC().Format(time.RFC3339)}
	spec := map[string]any{"suspend": false}
	whole := len(e.ask.Pods)
	said := fmt.Sprintf("there are quota and nodes for its %d pods", count)
	if count == 1 {
		said = "there are quota and a node for its pod"
	}
	switch before, shrunk := j.Annotations[api.AnnotationParallelism]; {
	case e.waits.Resizes && count < whole:
		spec["parallelism"] = count
		if !shrunk {
			notes[api.AnnotationParallelism] = strconv.Itoa(parallelism(j))
		}
		said = fmt.Sprintf("there are quota and nodes for %d of its %d pods", count, whole)
	case shrunk:
		if n, err := strconv.ParseInt(before, 10, 32); err == nil {
			spec["parallelism"] = n
		}
		notes[api.AnnotationParallelism] = nil
	}
	if evicts {
		said = "others are evicted to give its pods the quota and the nodes that they may have"
	}
	if err := r.write(ctx, e, notes, spec); err != nil {
		return err
	}
	r.tell(e, Resumed, "Resuming", "resumed in its turn: "+said)
	return nil
}

// write changes annotations and the spec of a Job, if it is still as it was seen last.
func (r *Resumer) write(ctx context.Context, e *entry, notes, spec map[string]any) error {
	j := e.job
	raw, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": j.UID, "resourceVersion": j.ResourceVersion, "annotations": notes}, "spec": spec,
	})
	if err != nil {
		return err
	}
	written, err := r.Client.BatchV1().Jobs(j.Namespace).Patch(ctx, j.Name, types.MergePatchType, raw, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("write Job %s/%s: %w", j.Namespace, j.Name, err)
	}
	e.job = written
	return nil
}

// tell makes an event on a Job.
func (r *Resumer) tell(e *entry, reason, action, text string) {
	if r.Events == nil {
		return
	}
	j := e.job
	r.Events.Eventf(&batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: e.waits.APIVersion, Kind: e.waits.Kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: j.Namespace, Name: j.Name, UID: j.UID, ResourceVersion: j.ResourceVersion},
	}, nil, v1.EventTypeNormal, reason, action, "%s", text)
}

func parallelism(j *batchv1.Job) int {
	if j.Spec.Parallelism == nil {
		return 1
	}
	return int(*j.Spec.Parallelism)
}

// room is the nodes at the moment of a pass, with what was promised in it.
type room struct {
	r       *Resumer
	cluster *explain.Cluster // nil until it is asked for
}

func (m *room) now() *explain.Cluster {
	if m.cluster == nil {
		m.cluster = m.without(nil)
	}
	return m.cluster
}

// without is the nodes without some pods, which are to be evicted. Pods of Jobs that were resumed a moment ago
// take room there also before they have a node. If the nodes cannot be counted there are none.
func (m *room) without(gone map[types.UID]bool) *explain.Cluster {
	come := map[types.UID]int{} // pods to come, and pods without a node, of Jobs; read before pods are: nothing is missed
	for uid, e := range m.r.line.entries {
		if !e.until.IsZero() {
			come[uid] = m.r.Quota.Awaited(uid)
		}
	}
	held, pods := m.r.Held(), m.r.Pods()
	pods = slices.DeleteFunc(slices.Clone(pods), func(p *v1.Pod) bool { return gone[p.UID] })
	for i, p := range pods {
		if p.Spec.NodeName != "" {
			continue
		}
		if node := held[p.UID]; node != "" {
			pods[i] = p.DeepCopy()
			pods[i].Spec.NodeName = node
		} else if ref := metav1.GetControllerOfNoCopy(p); ref != nil {
			come[ref.UID]++
		}
	}
	c, err := explain.NewCluster(m.r.Nodes(), pods)
	if err != nil {
		klog.Background().Error(err, "Nodes cannot be counted, so no Job is resumed")
		c, _ = explain.NewCluster(nil, nil)
	}
	for uid, e := range m.r.line.entries {
		if !e.until.IsZero() && come[uid] > 0 {
			c.Room(e.waits, come[uid])
		}
	}
	return c
}
