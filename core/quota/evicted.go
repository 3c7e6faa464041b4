package quota

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

const (
	// MostEvictions is how often a workload is evicted to return quota before it is spared.
	MostEvictions = 3
	// evictedFor is how long evictions count after the last one.
	evictedFor = 7 * 24 * time.Hour
)

// Evicted is how often a workload has been evicted to return quota: all pods that one object has,
// one after the other, such as the pods of a Job.
type Evicted struct {
	Owner string // the object's UID
	Queue string // of the pods
	By    string // the queue that took quota back the last time
	Pods  int    // evicted so far
	Of    int    // the most pods that it had when some were evicted
	Last  time.Time
}

// Counts reports whether the evictions still count.
func (e *Evicted) Counts(now time.Time) bool { return e.Pods > 0 && now.Sub(e.Last) < evictedFor }

// Sentence says it for people, some time after the last eviction: "2m", "3h".
func (e *Evicted) Sentence(ago string) string {
	what, times := "the pod of its owner was", "once"
	if e.Of > 1 {
		what = fmt.Sprintf("pods of its owner, which had up to %d, were", e.Of)
	}
	if e.Pods > 1 {
		times = fmt.Sprintf("%d times", e.Pods)
	}
	text := fmt.Sprintf("%s evicted %s in the last 7 days to return quota, the last time %s ago: queue %s took back nominal quota that queue %s had borrowed", what, times, ago, e.By, e.Queue)
	if e.Pods >= MostEvictions*max(1, e.Of) {
		text += "; it is evicted again only if no other pods can return the quota"
	}
	return text
}

// SetEvicted takes what was recorded of a workload, unless the Book knows of a later eviction.
func (b *Book) SetEvicted(e Evicted) {
	if e.Last.After(b.evicted[e.Owner].Last) {
		b.evicted[e.Owner] = e
	}
}

// Evict counts the eviction of one pod, to return quota, of a workload that had so many pods before. It
// does not take the pod out of the count of what is held.
func (b *Book) Evict(owner string, r Reclaim, of int, now time.Time) {
	e := b.evicted[owner]
	if !e.Counts(now) {
		e = Evicted{Owner: owner}
	}
	e.Queue, e.By, e.Pods, e.Of, e.Last = r.From, r.By, e.Pods+1, max(e.Of, of), now
	b.evicted[owner] = e
}

// EvictedOf returns the workloads of a queue whose evictions count, at most so many: those that were evicted
// last, by owner. The Book forgets the others of the queue.
func (b *Book) EvictedOf(queue string, most int, now time.Time) (out []Evicted) {
	for _, e := range b.evicted {
		if e.Queue == queue && e.Counts(now) {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(x, y Evicted) int { return cmp.Or(y.Last.Compare(x.Last), cmp.Compare(x.Owner, y.Owner)) })
	out = out[:min(len(out), most)]
	kept := make(map[string]bool, len(out))
	for i := range out {
		kept[out[i].Owner] = true
	}
	maps.DeleteFunc(b.evicted, func(owner string, e Evicted) bool { return e.Queue == queue && !kept[owner] })
	slices.SortFunc(out, func(x, y Evicted) int { return cmp.Compare(x.Owner, y.Owner) })
	return out
}

// OwnerOf returns the owner of a pod that holds, and how many pods of that owner hold; "" and 0 for
// one that does not.
func (b *Book) OwnerOf(pod string) (owner string, pods int) {
	h := b.holders[pod]
	if h == nil {
		return "", 0
	}
	return h.owner(), max(1, b.owned[h.Owner])
}

// owner is what the evictions of a pod are counted under.
func (h *Holder) owner() string { return cmp.Or(h.Owner, h.ID) }

// spared reports whether a workload has been evicted as often as it may be, while others may go: each of
// the pods that it has now, or had before, MostEvictions times.
func (b *Book) spared(h *Holder, now time.Time) bool {
	e, known := b.evicted[h.owner()]
	return known && e.Counts(now) && e.Pods >= MostEvictions*max(1, e.Of, b.owned[h.Owner])
}
