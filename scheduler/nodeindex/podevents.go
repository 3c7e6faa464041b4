package nodeindex

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Seen takes a pod as the API has it now, and before. One that waits and asks
// for something else now is tried again.
func (d *Cluster) Seen(old, now *v1.Pod) {
	if d.Saw(now) {
		d.Resolved()
	}
	if now.Spec.NodeName != "" { // also where somebody else has bound it
		d.Release(now.UID)
	}
	if !d.Waiting.Knows(now.UID) {
		return
	}
	same := old != nil && old.UID == now.UID && maps.Equal(old.Labels, now.Labels) && maps.Equal(old.Annotations, now.Annotations) &&
		len(old.Spec.Tolerations) == len(now.Spec.Tolerations) && slices.Equal(old.Spec.SchedulingGates, now.Spec.SchedulingGates) && old.Generation == now.Generation
	if now.Spec.NodeName == "" && same {
		return
	}
	d.Waiting.Leave(now.UID)
	if now.Spec.NodeName == "" {
		d.Waiting.Call(now)
	}
}

// Gone forgets a pod that is deleted.
func (d *Cluster) Gone(uid types.UID) {
	d.Waits.Clear(uid)
	held := d.Forget(uid)
	if d.Waiting.Leave(uid); held {
		d.Resolved()
	}
}

// Resolved calls those who may have what was held or in doubt until now.
func (d *Cluster) Resolved() {
	d.Waiting.Wake()
	for _, pod := range d.Refused.Which(func(o Obstacles) bool { return o.doubt }) {
		d.Waiting.Call(pod)
	}
}

// Still reports whether a pod exists of which something was just noted: what is held for
// it, or that it waits. Where it was deleted while it was being decided about, its
// delete event may have come before the note, and none comes after it: so it is
// forgotten again. The note is made first, and the watch is asked then: of a pod that
// the watch still has, the event is yet to come.
func (d *Cluster) Still(pod *v1.Pod) bool {
	if d.Deleted == nil || !d.Deleted(pod) {
		return true
	}
	d.Gone(pod.UID)
	return false
}
