package metrics

import (
	"maps"

	"berth.dev/berth/core/quota"
)

// The reasons of berth_queue_evictions_total.
const (
	EvictedForQuota    = quota.ReasonReclaimed
	EvictedForPriority = "Preempted"
)

// Tally is what has happened in one queue and those below it, in pods.
type Tally struct {
	Admitted uint64
	Evicted  map[string]uint64 // by reason
}

// Tallies are what has happened in each queue and those below it since this scheduler began to count
// it, by name. They are guarded by the lock of their owner.
type Tallies map[string]*Tally

// of returns the tally of a queue, which begins with 0 of everything.
func (t Tallies) of(name string) *Tally {
	if t[name] == nil {
		t[name] = &Tally{Evicted: map[string]uint64{EvictedForQuota: 0, EvictedForPriority: 0}}
	}
	return t[name]
}

// Admit counts a pod that was bound, in these queues.
func (t Tallies) Admit(queues []string) {
	for _, name := range queues {
		t.of(name).Admitted++
	}
}

// Evict counts a pod that was evicted for a reason, in these queues.
func (t Tallies) Evict(queues []string, reason string) {
	for _, name := range queues {
		t.of(name).Evicted[reason]++
	}
}

// Keep forgets the queues that do not exist.
func (t Tallies) Keep(tree *quota.Tree) {
	there := map[string]bool{}
	for _, name := range tree.Names() {
		there[name] = true
	}
	maps.DeleteFunc(t, func(name string, _ *Tally) bool { return !there[name] })
}

// Copy returns a copy of the tally of a queue.
func (t Tallies) Copy(queue string) Tally {
	of := t.of(queue)
	return Tally{of.Admitted, maps.Clone(of.Evicted)}
}
