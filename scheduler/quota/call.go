package quota

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// trial is how long quota is kept for a pod that is called and does not come.
const trial = 30 * time.Second

// change does what may let others go on, and calls them.
func (q *Quota) change(do func()) {
	q.changeIf(func() (bool, *v1.Pod) {
		do()
		return true, nil
	})
}

// changeIf is change where do reports whether anything that pods hold has changed, and who else is to be called; nil is none.
func (q *Quota) changeIf(do func() (changed bool, also *v1.Pod)) {
	q.mu.Lock()
	changed, also := do()
	if !changed {
		q.mu.Unlock()
		return
	}
	q.version++
	call := append(q.next(), also)
	q.mu.Unlock()
	q.wake(call)
}

func (q *Quota) wake(call []*v1.Pod) {
	q.wakeObjects()
	if call = slices.DeleteFunc(call, func(pod *v1.Pod) bool { return pod == nil }); len(call) > 0 {
		q.call(call)
	}
}

// next lists the pods to call, with mu held. Quota that is kept for them ends after a while.
func (q *Quota) next() (call []*v1.Pod) {
	if q.book == nil {
		return nil
	}
	now := time.Now()
	q.book.SetNow(now)
	q.book.Expire(now)
	for _, w := range q.book.Next(now.Add(trial)) {
		if !q.objects.Turn(types.UID(w.ID)) {
			q.called[w.ID] = true
			call = append(call, q.leads[w.ID])
		}
	}
	for _, w := range q.book.Claims() {
		if !q.objects.Turn(types.UID(w.ID)) && !q.retried[w.ID] {
			q.retried[w.ID] = true
			call = append(call, q.leads[w.ID])
		}
	}
	if next := q.book.Expire(now); !next.Equal(q.wakes) {
		if q.timer != nil {
			q.timer.Stop()
		}
		if q.wakes, q.timer = next, nil; !next.IsZero() {
			q.timer = time.AfterFunc(time.Until(next), q.expire)
		}
	}
	return call
}

// expire ends what is kept until now.
func (q *Quota) expire() {
	q.change(func() { q.wakes = time.Time{} }) // the next is another timer
}

// wakeObjects makes the calls of ObjectsFrom that are due, without mu.
func (q *Quota) wakeObjects() {
	if !q.On() {
		return
	}
	q.mu.Lock()
	open, call := q.objects.Due()
	q.mu.Unlock()
	if open != nil {
		open()
	}
	if call != nil {
		call()
	}
}
