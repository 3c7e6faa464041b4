package quota

import "slices"

// Set is equal pods that an object creates once it is started: those of a suspended Job, or the
// replicas of one type of a training job.
type Set struct {
	Count int // how many there are to be
	Spare int // how many of them it may start without, at most all
}

// Needed returns sets of so many pods, of which the first need are needed, in the order of the sets.
func Needed(counts []int, need int) []Set {
	out := make([]Set, len(counts))
	for k, n := range counts {
		out[k] = Set{Count: n, Spare: n - min(n, max(need, 0))}
		need -= n
	}
	return out
}

// Order returns the order in which a workload whose pods do not exist yet asks for them: the set of
// each pod. The first need of them, which are those that each set needs, start together.
func Order(sets []Set) (of []int, need int) {
	for k, s := range sets {
		of = append(of, slices.Repeat([]int{k}, s.Count-s.Spare)...)
	}
	need = len(of)
	for k, s := range sets {
		of = append(of, slices.Repeat([]int{k}, s.Spare)...)
	}
	return of, need
}

// Counts returns how many pods of each set are among the first n of Order.
func Counts(sets []Set, n int) []int {
	out := make([]int, len(sets))
	of, _ := Order(sets)
	for _, k := range of[:n] {
		out[k]++
	}
	return out
}

// Outlook is what is known of a workload whose pods do not exist yet when it is to be decided
// whether it starts.
type Outlook struct {
	Need, Count int // pods: how many it needs to start, and how many there are to be
	// Quota is for how many of them its queue has quota; 0 is for fewer than Need.
	Quota int
	// Reclaims is that evictions would give it the quota for Need pods: see Book.Victims.
	Reclaims bool
	// Room is for how many pods nodes have room now, and Freed is for how many they would have
	// it without the pods that may be evicted for it.
	Room, Freed int
}

// Lack is what a workload that cannot start lacks.
type Lack uint8

// The lacks.
const (
	NoLack Lack = iota
	LackOfQuota
	LackOfRoom
)

// Start returns with how many pods a workload starts now. 0 is that it waits, and lack says
// for what. Pods that are to be evicted for it are evicted when its pods exist, and only for as many
// as it needs.
func (o *Outlook) Start() (count int, lack Lack) {
	quota := o.Quota
	if quota < o.Need {
		if quota = o.Need; !o.Reclaims {
			return 0, LackOfQuota
		}
	}
	switch {
	case o.Room >= o.Need:
		return min(quota, o.Room, o.Count), NoLack
	case o.Freed >= o.Need:
		return o.Need, NoLack
	}
	return 0, LackOfRoom
}

// Take hands over to a new pod what is kept for a pod of workload from that did not exist yet, of the same
// queue and with the same pieces. It is then kept for the pod as a pod of workload. Take reports whether
// there was one, and does nothing for a pod that holds something, or for which something is kept.
func (b *Book) Take(from, workload, queue string, pod Pod) bool {
	if b.holders[pod.ID] != nil || b.kept[pod.ID] != nil {
		return false
	}
	id := ""
	for own := range b.works[from] {
		if k := b.kept[own]; k.queue == queue && slices.Equal(k.pieces, pod.Pieces) && (id == "" || own < id) {
			id = own
		}
	}
	k := b.kept[id]
	if k == nil {
		return false
	}
	delete(b.kept, id)
	if delete(b.works[from], id); len(b.works[from]) == 0 {
		delete(b.works, from)
	}
	k.workload = workload
	b.kept[pod.ID] = k
	if b.works[workload] == nil {
		b.works[workload] = map[string]bool{}
	}
	b.works[workload][pod.ID] = true
	return true
}
