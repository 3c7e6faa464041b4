package devices

import (
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
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
	snapshot *cluster.Snapshot
	now      cluster.Cursor
	budgets  int64
}

// vainSearch is the last search for a key.
type vainSearch struct {
	state worldState
	text  string
	at    time.Time
	pod   *v1.Pod // for which it was
}

func newVain() *vain { return &vain{found: map[vainKey]vainSearch{}} }

// before gives what the last search for key said, if nothing has changed since.
func (v *vain) before(key vainKey, state worldState, now time.Time) (string, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s, ok := v.found[key]
	return s.text, ok && s.state == state && now.Sub(s.at) < vainFor
}

// note remembers a search that found nothing, which was for pod.
func (v *vain) note(key vainKey, state worldState, text string, now time.Time, pod *v1.Pod) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.found) >= mostVain {
		clear(v.found)
	}
	v.found[key] = vainSearch{state, text, now, pod}
}

// searched gives the pods that searches were for, one of each shape and priority.
func (v *vain) searched() []*v1.Pod {
	v.mu.Lock()
	defer v.mu.Unlock()
	out := make([]*v1.Pod, 0, len(v.found))
	for _, s := range v.found {
		out = append(out, s.pod)
	}
	return out
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
	s := pl.placer().Snapshot()
	return worldState{snapshot: s, now: s.Now(), budgets: m.budgets.any.Load()}
}
