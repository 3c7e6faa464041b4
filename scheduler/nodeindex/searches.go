package nodeindex

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/core/cluster"
)

// Searches are the searches for room that found nothing, so that none is repeated while
// nothing has changed: ten thousand pods that no room can be made for cost one search,
// and not one each. It is safe for concurrent use.
type Searches struct {
	mu    sync.Mutex
	found map[SearchKey]Search
}

const (
	mostVain = 1024        // searches remembered
	vainFor  = time.Minute // how long, as what keeps pods from being evicted is not all seen to change
)

// SearchKey is what a search was for: equal for all pods of one shape and priority.
type SearchKey struct {
	Request   cluster.Request
	Priority  int32
	Pods, Min int
	Pod       types.UID // the first of several; "" for one pod
	Gang      string    // of which they are members
	Open      int       // reserved places that are not kept from them
	Queue     string    // whose quota they count on, and their user
}

// SearchState is equal as long as nothing has changed that a search looks at.
type SearchState struct {
	Snapshot  *cluster.Snapshot
	Now       cluster.Cursor
	Nodes     int64 // the latest generation of a NodeInfo: labels and ends of pods change no device
	Budgets   int64
	Evictions int64
	Quota     int64
}

// Search is a search that found nothing.
type Search struct {
	State   SearchState
	Text    string // why
	Short   int64  // as preemption.Refusal.ShortMilli
	Against Obstacles
	At      time.Time
}

// NewSearches returns Searches of none.
func NewSearches() *Searches { return &Searches{found: map[SearchKey]Search{}} }

// Before returns the last search for key, if nothing has changed since.
func (v *Searches) Before(key SearchKey, state SearchState, now time.Time) (Search, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s, ok := v.found[key]
	return s, ok && s.State == state && now.Sub(s.At) < vainFor
}

// Note remembers a search that found nothing.
func (v *Searches) Note(key SearchKey, s Search) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.found) >= mostVain {
		clear(v.found)
	}
	v.found[key] = s
}
