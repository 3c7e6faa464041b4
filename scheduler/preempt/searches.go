package preempt

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/preemption"
	"berth.dev/berth/scheduler/nodeindex"
)

// searches is the searches that found nothing, so that none is repeated while nothing
// has changed: ten thousand pods that wait in vain cost one search, and not one
// each.
type searches struct {
	mu    sync.Mutex
	found map[searchKey]search
}

const (
	mostVain = 1024        // searches remembered
	vainFor  = time.Minute // how long, as what keeps pods from being evicted is not all seen to change
)

// searchKey is what a search was for: equal for all pods of one shape and priority.
type searchKey struct {
	request   cluster.Request
	priority  int32
	pods, min int
	pod       types.UID // the first of several; "" for one pod
	gang      string    // of which they are members
	after     int       // reserved places that they come before
}

// clusterState is equal as long as nothing has changed that a search looks at.
type clusterState struct {
	snapshot  *cluster.Snapshot
	now       cluster.Cursor
	nodes     int64 // the latest generation of a NodeInfo: labels and ends of pods change no device
	budgets   int64
	evictions int64
}

// search is the last search for a key.
type search struct {
	state   clusterState
	text    string
	short   int64
	against nodeindex.Obstacles
	at      time.Time
}

func newSearches() *searches { return &searches{found: map[searchKey]search{}} }

// before gives the last search for key, if nothing has changed since.
func (v *searches) before(key searchKey, state clusterState, now time.Time) (search, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s, ok := v.found[key]
	return s, ok && s.state == state && now.Sub(s.at) < vainFor
}

// note remembers a search that found nothing.
func (v *searches) note(key searchKey, s search) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.found) >= mostVain {
		clear(v.found)
	}
	v.found[key] = s
}

// key is what w's search is for.
func (w *preemptor) key(asked *preemption.Preemptor) searchKey {
	k := searchKey{request: asked.Members[0], priority: asked.Priority, pods: len(w.pods), min: w.minCount, gang: w.gang, after: len(w.after)}
	if len(w.pods) > 1 {
		k.pod = w.pods[0].UID
	}
	return k
}

// state is the state of what searches look at.
func (m *preemptions) state(pl *nodeindex.Planner) clusterState {
	s, latest := pl.Placer().Snapshot(), int64(0)
	for _, at := range pl.W.Nodes {
		latest = max(latest, at.Generation)
	}
	return clusterState{snapshot: s, now: s.Now(), nodes: latest, budgets: m.budgets.Any.Load(), evictions: m.Changes()}
}
