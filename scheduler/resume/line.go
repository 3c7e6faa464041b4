package resume

import (
	"maps"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/equality"
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
	// kept is how long quota is kept for the pods of a Job that was resumed.
	kept = time.Minute
	// lookAgain is after how long nodes are looked at again for Jobs that wait for room; lookSoon
	// is how often at most they are where pods end.
	lookAgain = 10 * time.Second
	lookSoon  = time.Second
	// writeAgain is after how long a write that failed is tried again.
	writeAgain = 5 * time.Second
)

// line is the Jobs that wait for their turn, and those that were resumed a moment ago.
type line struct {
	entries map[types.UID]*entry
	names   map[string]types.UID // of entries, by namespace/name
	looked  time.Time            // when nodes were last looked at for those that wait for room
}

func newLine() line { return line{entries: map[types.UID]*entry{}, names: map[string]types.UID{}} }

// entry is one Job.
type entry struct {
	job   *batchv1.Job
	waits *queues.Suspended
	ask   *schedulerquota.Ask
	due   bool       // it is to be asked about now
	lack  quota.Lack // what it waits for
	again time.Time  // when it is to be asked about again; zero: when something changes
	goes  bool       // it was resumed
	until time.Time  // until when quota is kept for its pods, if it was; zero: it is not
}

// see takes a Job as the API has it now; nil is that it is gone.
func (r *Resumer) see(name string, j *batchv1.Job, now time.Time) {
	l := &r.line
	if uid := l.names[name]; uid != "" && (j == nil || j.UID != uid) {
		r.forget(name, uid)
	}
	if j == nil {
		return
	}
	e := l.entries[j.UID]
	if e != nil && older(j, e.job) {
		return // than what the scheduler has written
	}
	waits, _ := queues.JobInTurn(j)
	switch {
	case waits && (e == nil || e.goes || !sameAsk(e.job, j)):
		e = r.entryOf(j)
		e.due = true
		l.entries[j.UID], l.names[name] = e, j.UID
	case waits:
		e.job = j
	case e != nil && e.goes && queues.JobResumed(j):
		e.job = j
	case e != nil:
		r.forget(name, j.UID)
	case queues.JobResumed(j): // by the scheduler before this one
		e = r.entryOf(j)
		e.goes = true
		l.entries[j.UID], l.names[name] = e, j.UID
		count := 0
		if until := resumedAt(j).Add(kept); now.Before(until) {
			e.until, count = quota.Sooner(until, now.Add(kept)), min(len(e.ask.Pods), parallelism(j))
		}
		r.Quota.Await(e.ask, count, e.until)
	}
}

// older reports whether one state of a Job is from before another.
func older(a, b *batchv1.Job) bool {
	order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	return err == nil && order < 0
}

func (r *Resumer) forget(name string, uid types.UID) {
	delete(r.line.entries, uid)
	delete(r.line.names, name)
	r.Quota.Forget(uid)
}

// resumedAt is when a Job was resumed in its turn; zero is never.
func resumedAt(j *batchv1.Job) time.Time {
	at, err := time.Parse(time.RFC3339, j.Annotations[api.AnnotationResumed])
	if err != nil {
		return time.Time{}
	}
	return at
}

// sameAsk reports whether two states of a Job ask for the same.
func sameAsk(a, b *batchv1.Job) bool {
	return a.Generation == b.Generation && a.Status.Succeeded == b.Status.Succeeded && (a.Status.Active > 0) == (b.Status.Active > 0) &&
		maps.Equal(a.Annotations, b.Annotations) && maps.Equal(a.Labels, b.Labels) && equality.Semantic.DeepEqual(a.Spec, b.Spec)
}

// entryOf reads what a Job asks for.
func (r *Resumer) entryOf(j *batchv1.Job) *entry {
	list, _ := r.classes.List(labels.Everything()) // a store of this process
	classes := make([]schedulingv1.PriorityClass, len(list))
	for i, c := range list {
		classes[i] = *c
	}
	waits := queues.OfJob(j, &queues.PriorityClasses{List: classes, Default: r.Quota.DefaultClass})
	pods, need := waits.Pods()
	return &entry{job: j, waits: waits, ask: &schedulerquota.Ask{Lead: pods[0], Pods: pods, Need: need, Ticket: request.TicketOf(pods[0]), Object: waits}}
}

// due lists the Jobs that are to be asked about now, in the order of their turns, and returns when
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
