package quota

import (
	"maps"
	"slices"
	"time"
)

// kept is quota that is kept for a pod which is about to be placed, or for which others
// are evicted.
type kept struct {
	workload, queue, user string
	pieces                []Piece
	kind                  Kind      // as which pieces count whose kind is not known
	until                 time.Time // zero: until it is released
}

// Keep keeps quota for pods of a workload until a time, or until they hold it; zero is
// until Release. Pieces count as of kind where their own is not known.
func (b *Book) Keep(w *Workload, pods []Pod, kind Kind, until time.Time) {
	for _, p := range pods {
		b.unkeep(p.ID)
		if _, holds := b.holders[p.ID]; holds {
			continue
		}
		if !until.IsZero() {
			b.ending++
		}
		b.kept[p.ID] = &kept{workload: w.ID, queue: w.Queue, user: w.userOf(&p), pieces: p.Pieces, kind: kind, until: until}
		if b.works[w.ID] == nil {
			b.works[w.ID] = map[string]bool{}
		}
		b.works[w.ID][p.ID] = true
		b.count(w.Queue, w.userOf(&p), p.Pieces, kind, 1)
	}
}

// Promise keeps quota for pods of a workload that have places, until Release. If there is less than they
// ask for, pods that are being evicted hold the rest, and it is owed to them: Try does not count it
// against others for which quota is kept, as it is not taken from what is free now.
func (b *Book) Promise(w *Workload, pods []Pod) {
	owed := b.Try(w).Cause != None
	b.Release(w.ID)
	b.Keep(w, pods, Kind{}, time.Time{})
	if !owed {
		return
	}
	for pod := range b.works[w.ID] {
		b.owed[b.kept[pod]] = true
	}
}

// Release ends what is kept for a workload.
func (b *Book) Release(workload string) {
	for _, pod := range slices.Sorted(maps.Keys(b.works[workload])) {
		b.unkeep(pod)
	}
}

// unkeep ends what is kept for a pod.
func (b *Book) unkeep(pod string) {
	k := b.kept[pod]
	if k == nil {
		return
	}
	b.discard(pod, k)
	b.count(k.queue, k.user, k.pieces, k.kind, -1)
}

// discard forgets what is kept for a pod, and leaves it in the count.
func (b *Book) discard(pod string, k *kept) {
	delete(b.kept, pod)
	delete(b.owed, k)
	if !k.until.IsZero() {
		b.ending--
	}
	if delete(b.works[k.workload], pod); len(b.works[k.workload]) == 0 {
		delete(b.works, k.workload)
	}
}

// Expire ends what is kept until now or earlier, and returns when the next of the
// others ends; zero is never.
func (b *Book) Expire(now time.Time) (next time.Time) {
	if b.ending == 0 {
		return next
	}
	var over []string
	for pod, k := range b.kept {
		switch until := k.until; {
		case until.IsZero():
		case !now.Before(until):
			over = append(over, pod)
		default:
			next = Sooner(next, until)
		}
	}
	slices.Sort(over)
	for _, pod := range over {
		b.unkeep(pod)
	}
	return next
}

// Kept returns the pods of a workload for which quota is kept, sorted.
func (b *Book) Kept(workload string) []string { return slices.Sorted(maps.Keys(b.works[workload])) }
