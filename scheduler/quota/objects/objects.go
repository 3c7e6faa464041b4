// Package objects keeps which objects stand in line for pods that do not exist yet, such as Jobs that are suspended, whose
// turn may have come, and which pods have come of those that were resumed.
package objects

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Objects is the objects that one scheduler knows of. It is guarded by the lock of its owner.
type Objects struct {
	open  func() // called once, when there are Queues
	call  func() // called when Turns has something to say, or pods have ended
	line  map[types.UID]bool
	turns map[types.UID]bool
	ended bool // pods have ended since call
	come  map[types.UID]map[types.UID]bool
}

// New returns Objects without any.
func New() Objects {
	return Objects{line: map[types.UID]bool{}, turns: map[types.UID]bool{}, come: map[types.UID]map[types.UID]bool{}}
}

// From has Due return open once, and then call each time when Turns has something to say or pods have ended.
func (o *Objects) From(open, call func()) { o.open, o.call = open, call }

// Due returns what is to be called now, without the lock of the owner; nil is nothing.
func (o *Objects) Due() (open, call func()) {
	open, call = o.open, o.call
	o.open = nil
	if len(o.turns) == 0 && (len(o.line) == 0 || !o.ended) {
		call = nil
	}
	o.ended = false
	return open, call
}

// Stand notes that an object stands in line.
func (o *Objects) Stand(id types.UID) { o.line[id] = true }

// Turn notes that it may be the turn of an object, and reports whether an ID is of one that stands in line.
func (o *Objects) Turn(id types.UID) bool {
	if o.line[id] {
		o.turns[id] = true
	}
	return o.line[id]
}

// TurnAll is Turn for all objects.
func (o *Objects) TurnAll() {
	maps.Copy(o.turns, o.line)
}

// Turns returns the objects whose turn may have come since the last call, sorted.
func (o *Objects) Turns() []types.UID {
	out := slices.Sorted(maps.Keys(o.turns))
	clear(o.turns)
	return out
}

// Forget drops all about an object.
func (o *Objects) Forget(id types.UID) {
	delete(o.line, id)
	delete(o.turns, id)
	delete(o.come, id)
}

// Resume takes an object out of its line, and notes the pods that come from then on.
func (o *Objects) Resume(id types.UID) {
	o.Forget(id)
	o.come[id] = map[types.UID]bool{}
}

// Come notes that a pod of an object that was resumed has come. first reports whether it was not known; it is false
// for other objects.
func (o *Objects) Come(id, pod types.UID) (first bool) {
	come := o.come[id]
	if come == nil || come[pod] {
		return false
	}
	come[pod] = true
	return true
}

// Pods returns the pods that have come of an object that was resumed. It is for reading.
func (o *Objects) Pods(id types.UID) map[types.UID]bool { return o.come[id] }

// Refused notes that a pod waits for quota: if it is of an object that was resumed, Turns names that.
func (o *Objects) Refused(pod *v1.Pod) {
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil && o.come[ref.UID] != nil {
		o.turns[ref.UID] = true
	}
}

// Gone notes that a pod has ended.
func (o *Objects) Gone(pod *v1.Pod) {
	o.ended = true
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
		delete(o.come[ref.UID], pod.UID)
	}
}
