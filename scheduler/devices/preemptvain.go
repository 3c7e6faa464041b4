package devices

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/preemption"
)

// vain is the searches that found nothing, so that none is repeated while nothing
// has changed: ten thousand pods that wait in vain cost one search, and not one
// each.
type vain struct {
	mu    sync.Mutex
	found map[vainKey]vainSearch
}

const (
	mostVain = 1024        // searches remembered
	vainFor  = time.Minute // how long, as what keeps pods from being evicted is not all seen to change
)

// vainKey is what a search was for: equal for all pods of one shape and priority.
type vainKey struct {
	request   cluster.Request
	priority  int32
	pods, min int
	gang      types.UID // of the first pod of several; "" for one pod
}

// worldState is equal as long as nothing has changed that a search looks at.
type worldState struct {
	snapshot  *cluster.Snapshot
	now       cluster.Cursor
	nodes     int64 // the latest generation of a NodeInfo: labels and ends of pods change no device
	budgets   int64
	evictions int64
}

// vainSearch is the last search for a key.
type vainSearch struct {
	state   worldState
	text    string
	against obstacles
	at      time.Time
}

func newVain() *vain { return &vain{found: map[vainKey]vainSearch{}} }

// before gives the last search for key, if nothing has changed since.
func (v *vain) before(key vainKey, state worldState, now time.Time) (vainSearch, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s, ok := v.found[key]
	return s, ok && s.state == state && now.Sub(s.at) < vainFor
}

// note remembers a search that found nothing.
func (v *vain) note(key vainKey, s vainSearch) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.found) >= mostVain {
		clear(v.found)
	}
	v.found[key] = s
}

// key is what w's search is for.
func (w *wish) key(asked *preemption.Preemptor) vainKey {
	k := vainKey{request: asked.Members[0], priority: asked.Priority, pods: len(w.pods), min: w.minCount}
	if len(w.pods) > 1 {
		k.gang = w.pods[0].UID
	}
	return k
}

// state is the state of what searches look at.
func (m *making) state(pl *planner) worldState {
	s, latest := pl.placer().Snapshot(), int64(0)
	for _, at := range pl.w.sites {
		latest = max(latest, at.generation)
	}
	return worldState{snapshot: s, now: s.Now(), nodes: latest, budgets: m.budgets.any.Load(), evictions: m.changes()}
}
