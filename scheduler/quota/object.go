package quota

import (
	"maps"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/core/quota"
)

// ObjectsFrom has open called once, when there are Queues, and then call each time when Turns has
// something to say or pods have ended. Both must be quick.
func (q *Quota) ObjectsFrom(open, call func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.objects.From(open, call)
}

// Turns returns the objects whose turn may have come since the last call, sorted. For some of them
// quota is kept for a while: each is to be asked about by Stand.
func (q *Quota) Turns() []types.UID {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.objects.Turns()
}

// Standing is how it stands with an object that asks for pods.
type Standing struct {
	Queue string // that it stands in; "" is none
	// Count is for how many of its pods there is quota now; it is kept for a while. 0 is for fewer
	// than it needs: then it waits in line, and Refused says why.
	Count   int
	Refused string
	// Reclaims is that evictions would give it the quota that it needs. Later is when that may
	// become so, if only time is missing.
	Reclaims bool
	Later    time.Time
}

// Stand asks the quotas for the pods of an object, which do not exist yet. Where there is not enough
// the object waits in the line of its queue, and Turns names it when it may go on. It is to be
// asked about until Forget or Await is called.
func (q *Quota) Stand(a *Ask) (s Standing) {
	if !q.On() {
		return s
	}
	q.change(func() {
		id := a.id()
		q.objects.Stand(types.UID(id))
		w := q.workload(a)
		if w == nil {
			if q.book != nil {
				q.book.Leave(id)
				q.book.Release(id)
			}
			return
		}
		s.Queue = w.Queue
		v := q.book.Try(w)
		if v.Cause == quota.None {
			q.book.Leave(id)
			q.book.Release(id)
			q.book.Keep(w, w.Pods[:v.Count], v.CountedAs(w), time.Now().Add(trial))
			q.admit(w, v.Choices)
			s.Count = v.Count
			return
		}
		q.book.Wait(w)
		q.admit(w, nil)
		s.Refused = v.Sentence("it", w.User)
		if claim := q.claim(a, w); v.Cause.Passes() && q.book.MayReclaim(claim) {
			_, s.Later, s.Reclaims = q.book.Victims(claim, nil)
		}
	})
	return s
}

// Yields returns the pods that may be evicted for an object.
func (q *Quota) Yields(a *Ask) map[types.UID]bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	w := q.workload(a)
	if w == nil {
		return nil
	}
	claim, out := q.claim(a, w), map[types.UID]bool{}
	for _, h := range q.book.Holders() {
		if role, _ := q.book.RoleOf(claim, &h); role != quota.Stays {
			out[types.UID(h.ID)] = true
		}
	}
	return out
}

// Waive releases the quota that is kept for an object.
func (q *Quota) Waive(object types.UID) {
	q.change(func() {
		if q.book != nil {
			q.book.Release(string(object))
		}
	})
}

// Forget has an object stand in no line, and keeps nothing for it.
func (q *Quota) Forget(object types.UID) {
	q.change(func() {
		q.objects.Forget(object)
		maps.DeleteFunc(q.allowed, func(uid types.UID, _ *quota.Selection) bool {
			return strings.HasPrefix(string(uid), string(object)+"/")
		})
		if q.book != nil {
			q.book.Leave(string(object))
			q.book.Release(string(object))
		}
	})
}
