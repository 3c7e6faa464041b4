package resume

import (
	"slices"
	"time"

	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"berth.dev/berth/api"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/request"
	schedulerquota "berth.dev/berth/scheduler/quota"
)

const (
	// kept is how long quota is kept for the pods of an object that was resumed.
	kept = time.Minute
	// lookAgain is after how long nodes are looked at again for objects that wait for room; lookSoon
	// is how often at most they are where pods end.
	lookAgain = 10 * time.Second
	lookSoon  = time.Second
	// writeAgain is after how long a write that failed is tried again.
	writeAgain = 5 * time.Second
)

// see takes an object as the API has it now; nil is that it is gone.
func (r *Resumer) see(at key, o metav1.Object, now time.Time) {
	l := &r.line
	if uid := l.names[at]; uid != "" && (o == nil || o.GetUID() != uid) {
		r.forget(at, uid)
	}
	if o == nil {
		return
	}
	e := l.entries[o.GetUID()]
	switch {
	case e != nil && older(o, e.object): // than what the scheduler has written
		return
	case !queues.AsksForTurn(o):
		if e != nil {
			r.forget(at, o.GetUID())
		}
		return
	}
	read := r.read(o)
	waits, _ := read.InTurn()
	switch {
	case waits && (e == nil || e.goes || !e.waits.Alike(read)):
		e = r.enter(at, read)
		e.due = true
	case waits:
		e.object = o
	case e != nil && e.goes && read.Resumed():
		e.object = o
	case e != nil:
		r.forget(at, o.GetUID())
	case read.Resumed(): // by the scheduler before this one
		e = r.enter(at, read)
		e.goes = true
		count := 0
		if until := resumedAt(o).Add(kept); now.Before(until) {
			e.until, count = quota.Sooner(until, now.Add(kept)), read.Creates
		}
		r.Quota.Await(e.ask, count, e.until)
	}
}

// older reports whether one state of an object is from before another.
func older(a, b metav1.Object) bool {
	order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && order < 0
}

func (r *Resumer) forget(at key, uid types.UID) {
	delete(r.line.entries, uid)
	delete(r.line.names, at)
	r.Quota.Forget(uid)
}

// resumedAt is when an object was resumed in its turn; zero is never.
func resumedAt(o metav1.Object) time.Time {
	at, err := time.Parse(time.RFC3339, o.GetAnnotations()[api.AnnotationResumed])
	if err != nil {
		return time.Time{}
	}
	return at
}

// read reads what an object asks for.
func (r *Resumer) read(o metav1.Object) *queues.Suspended {
	list, _ := r.classes.List(labels.Everything()) // a store of this process
	classes := make([]schedulingv1.PriorityClass, len(list))
	for i, c := range list {
		classes[i] = *c
	}
	return queues.Of(o, &queues.PriorityClasses{List: classes, Default: r.Quota.DefaultClass})
}

// enter makes the entry of an object.
func (r *Resumer) enter(at key, s *queues.Suspended) *entry {
	pods, need := s.Pods()
	e := &entry{kind: at.kind, object: s.Object, waits: s, ask: &schedulerquota.Ask{Lead: pods[0], Pods: pods, Need: need, Ticket: request.TicketOf(pods[0]), Object: s}}
	r.line.entries[s.Object.GetUID()], r.line.names[at] = e, s.Object.GetUID()
	return e
}

// due lists the objects that are to be asked about now, in the order of their turns, and returns when
// the next is; zero is when something changes.
func (r *Resumer) due(now time.Time, freed bool) (list []*entry, next time.Time) {
	l := &r.line
	for _, uid := range r.Quota.Turns() {
		if e := l.entries[uid]; e != nil {
			e.due = true
		}
	}
	look := l.looked.Add(lookAgain)
	if freed {
		look = l.looked.Add(lookSoon)
	}
	looks := false
	for _, e := range l.entries {
		switch {
		case e.goes && now.Before(e.until): // what its pods lack is looked at then
			next = quota.Sooner(next, e.until)
			continue
		case e.goes && !e.until.IsZero():
			e.until, e.due = time.Time{}, true
		case !e.again.IsZero() && !now.Before(e.again):
			e.due = true
		case e.lack == quota.LackOfRoom && !now.Before(look):
			e.due = true
		case e.lack == quota.LackOfRoom:
			next = quota.Sooner(next, look)
		}
		if e.due {
			list = append(list, e)
			looks = looks || e.lack == quota.LackOfRoom
		} else {
			next = quota.Sooner(next, e.again)
		}
	}
	if looks {
		l.looked = now
	}
	turns := make(map[*entry]queue.Ticket, len(list))
	for _, e := range list {
		turns[e] = r.Quota.Turn(e.ask)
	}
	slices.SortFunc(list, func(a, b *entry) int { return queue.Compare(turns[a], turns[b]) })
	return list, next
}
