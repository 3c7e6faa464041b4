package gang

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/core/gang"
)

// done is a pod that has done its work: its gang, and its name.
type done struct{ gang, name string }

// evictsBy notes what evicts the members of gangs that are released.
func (b *Manager) evictsBy(room Room) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.room == nil {
		b.room = room
	}
}

// running lists the pods that are to be evicted, with mu held.
func (b *Manager) running(e *gang.Evict) []*v1.Pod {
	var out []*v1.Pod
	for _, uid := range e.Members {
		if pod := b.pods[types.UID(uid)]; pod != nil {
			out = append(out, pod)
		}
	}
	return out
}

// release evicts the pods of a gang, without mu. A gang of which a pod has completed ends by
// itself, one pod after the other.
func (b *Manager) release(e *gang.Evict, pods []*v1.Pod) {
	b.mu.Lock()
	room, ended := b.room, ""
	for _, d := range b.completed {
		if d.gang == e.Gang && (ended == "" || d.name < ended) {
			ended = d.name
		}
	}
	b.mu.Unlock()
	kept := func(why string) { b.Happened(gang.NotEvicted{Gang: e.Gang, Why: why}) }
	switch {
	case ended != "":
		kept(fmt.Sprintf("its pod %s has completed", ended))
	case room == nil:
		kept("the scheduler's configuration has no plugin that evicts pods")
	default:
		room.EvictGang(b.ctx, e, pods, kept)
	}
}

// also is what else is to be said of a gang that does not fit: what the API server rejects of it,
// and why it is not released although it runs with fewer pods than it needs; or "".
func (b *Manager) also(uid types.UID) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if why := b.machine.Stuck(string(uid)); why != "" {
		return "; others of the gang run, and " + why
	}
	if why := b.machine.Rejected(string(uid)); why != "" {
		return "; " + why
	}
	return ""
}
