package gang

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/core/gang"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/scheduler/state"
)

// Happened feeds an event to the machine and does what it says.
func (b *Manager) Happened(e gang.Event) gang.Answer {
	b.mu.Lock()
	do := b.step(e)
	b.mu.Unlock()
	b.do(&do)
	return do.Answer
}

// actions are what the machine says, with the pods to wake.
type actions struct {
	gang.Actions
	wake, evict []*v1.Pod
	ranked      []*v1.Pod // see queue.Lines.Ranked
}

// step feeds an event to the machine, with mu held. What it returns is to be done
// once mu is free.
func (b *Manager) step(e gang.Event) actions {
	do := actions{Actions: b.machine.Step(e, time.Now())}
	for _, r := range do.Ranks {
		do.ranked = append(do.ranked, b.rank(r)...)
	}
	for _, uid := range do.Wake {
		if pod := b.pods[types.UID(uid)]; pod != nil {
			do.wake = append(do.wake, pod)
		}
	}
	if do.Evict != nil {
		do.evict = b.running(do.Evict)
	}
	if do.Changed {
		b.conditions.Changed()
	}
	b.setTimer(do.WakeAt)
	return do
}

// do does what the machine says, without mu.
func (b *Manager) do(a *actions) {
	for _, uid := range a.Permit {
		b.let(types.UID(uid))
	}
	for _, uid := range a.Release {
		b.state.Release(types.UID(uid))
	}
	for _, uid := range a.Leave {
		b.state.Waiting.Leave(types.UID(uid))
	}
	if len(a.ranked) > 0 {
		b.state.Waiting.Ranked(a.ranked)
	}
	for _, back := range a.Return {
		b.state.Waits.Note(types.UID(back.UID), queue.Gang)
		b.reject(types.UID(back.UID), back.Reason)
	}
	if len(a.wake) > 0 {
		b.wake(a.wake)
	}
	if a.Evict != nil {
		b.release(a.Evict, a.evict)
	}
	for _, key := range a.Ended {
		if b.room != nil {
			b.room.GangEnded(key)
		}
	}
}

// setTimer has the timer fire at a time, with mu held; zero is never.
func (b *Manager) setTimer(at time.Time) {
	if at.Equal(b.wakeAt) {
		return
	}
	if b.timer != nil {
		b.timer.Stop()
	}
	if b.timer, b.wakeAt = nil, at; !at.IsZero() {
		b.timer = time.AfterFunc(time.Until(at), b.timeReached)
	}
}

// timeReached is what the timer does.
func (b *Manager) timeReached() {
	b.mu.Lock()
	b.setTimer(time.Time{})
	do := b.step(gang.Time{})
	b.mu.Unlock()
	b.do(&do)
}

// rank notes where a member stands in the queue, with mu held, and returns the pods that are, or were, first in its line.
func (b *Manager) rank(r gang.Rank) (moved []*v1.Pod) {
	uid := types.UID(r.UID)
	if r.Ends {
		if _, had := b.ranks.LoadAndDelete(uid); had {
			b.ranked.Add(-1)
		}
		return nil
	}
	if _, had := b.ranks.Swap(uid, r); !had {
		b.ranked.Add(1)
	}
	if b.state != nil {
		moved = b.state.Waiting.Rank(uid)
	}
	return moved
}

// rankedLater is what do does for ranks, where locks are held that it must not have.
func (b *Manager) rankedLater(a *actions) {
	if len(a.ranked) > 0 {
		time.AfterFunc(0, func() { b.state.Waiting.Ranked(a.ranked) })
	}
}

// answered notes that a binding of a pod came to nothing, and why. It returns the name of
// the gang that runs without the pod until it is sent again, or "", and why the gang is not
// released if it should be.
func (b *Manager) answered(uid types.UID, why error) (name, also string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	name, keeps := b.machine.Keeps(string(uid), time.Now())
	if !keeps {
		return "", ""
	}
	do := b.step(gang.Answered{UID: string(uid), Refused: state.Refused(why), Reason: why.Error()})
	b.rankedLater(&do)
	if !b.machine.Runs(string(uid)) {
		return "", ""
	}
	if stuck := b.machine.Stuck(string(uid)); stuck != "" {
		also = ", and " + stuck
	}
	return name, also
}

// Unkept notes that places are free that were kept for others.
func (b *Manager) Unkept() { b.Happened(gang.Unkept{}) }

// Broken notes that what was held for a pod went to others.
func (b *Manager) Broken(uid types.UID) { b.Happened(gang.HoldLost{UID: string(uid)}) }

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
