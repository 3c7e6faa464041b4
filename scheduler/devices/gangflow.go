package devices

import (
	"fmt"
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/core/queue"
	"berth.dev/berth/kube"
)

// admit says why a pod must not enter the queue yet; "" lets it in.
func (b *gangBook) admit(pod *v1.Pod) string {
	if ref, err := kube.GangOf(pod); ref == nil && err == nil {
		return ""
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	t, m := b.see(pod)
	if m == nil || m.stage != stagePending && m.stage != stageWrong {
		return ""
	}
	text := b.heldBack(t, m)
	if m.held = text != ""; m.held {
		b.voice.changed()
	} else {
		b.rank(t, pod.UID)
	}
	return text
}

// missing says what is not there yet for member m to be planned, with mu held; ""
// is nothing.
func (b *gangBook) missing(t *team, m *member) string {
	if m.wrong != "" {
		return m.wrong
	}
	least, why := b.least(t)
	if here := t.ready() + t.count[stagePending]; why == "" && here < least {
		return fmt.Sprintf("waiting for %s of gang %s (%d of %d exist)", more(least-here), t.gang.Name, here, least)
	}
	return why
}

// heldBack says why member m must not enter the queue, with mu held. Where nobody
// leads the gang, m does from now on.
func (b *gangBook) heldBack(t *team, m *member) string {
	if text := b.missing(t, m); text != "" {
		return text
	}
	uid := m.pod.UID
	switch least, _ := b.least(t); {
	case t.planned(uid), t.ready() >= least:
		return ""
	case t.plan != nil:
		return fmt.Sprintf("waiting for the rest of gang %s to be placed", t.gang.Name)
	}
	if t.since.UID == "" {
		t.since = t.oldest()
	}
	if !t.led() {
		t.leader, t.whole = uid, true
	}
	if t.leader == uid && !time.Now().Before(t.retry) {
		return ""
	}
	return t.waits()
}

// more says how many pods are missing.
func more(n int) string {
	if n == 1 {
		return "1 more pod"
	}
	return fmt.Sprintf("%d more pods", n)
}

// waits is what those say that wait for the leader.
func (t *team) waits() string {
	l := t.members[t.leader]
	if t.refused == nil || l == nil {
		return fmt.Sprintf("waiting for gang %s to be placed", t.gang.Name)
	}
	return fmt.Sprintf("waiting for gang %s: its pods do not fit together now, and pod %s says why", t.gang.Name, l.pod.Name)
}

// oldest is the age of the oldest member.
func (t *team) oldest() queue.Age {
	var out queue.Age
	for _, m := range t.members {
		if age := kube.AgeOf(m.pod); out.UID == "" || age.Compare(out) < 0 {
			out = age
		}
	}
	return out
}

// saw takes a pod as the watch has it.
func (b *gangBook) saw(pod *v1.Pod) {
	b.mu.Lock()
	old := b.of[pod.UID]
	if ref, err := kube.GangOf(pod); old == nil && ref == nil && err == nil {
		b.mu.Unlock()
		return
	}
	t, m := b.see(pod)
	var after aftermath
	if t == nil || pod.Spec.NodeName != "" || m.stage == stageWrong { // also where others have bound it
		after.free = append(after.free, pod.UID)
	}
	if old != nil && old != t {
		after.add(b.turn(old))
	}
	if t != nil {
		after.add(b.turn(t))
	}
	b.mu.Unlock()
	b.do(after)
}

// forget takes a pod that is gone.
func (b *gangBook) forget(uid types.UID) {
	b.mu.Lock()
	t := b.of[uid]
	if t == nil {
		b.mu.Unlock()
		return
	}
	b.leave(t, uid)
	after := b.turn(t)
	b.mu.Unlock()
	b.do(after)
}

// aftermath is what is to be done once mu is free.
type aftermath struct {
	wake []*v1.Pod
	free []types.UID          // holds
	back map[types.UID]string // who is to be sent back from Permit, and what they are told
}

func (a *aftermath) add(b aftermath) {
	a.wake, a.free = append(a.wake, b.wake...), append(a.free, b.free...)
	if a.back == nil {
		a.back = b.back
		return
	}
	maps.Copy(a.back, b.back)
}

func (b *gangBook) do(a aftermath) {
	for _, uid := range a.free {
		b.desk.release(uid)
	}
	for uid, text := range a.back {
		b.desk.waits.note(uid, queue.Gang)
		b.reject(uid, text)
	}
	if len(a.wake) > 0 {
		b.wake(a.wake)
	}
}

// turn looks at what has become of t, with mu held: a plan that can no longer be
// fulfilled is given up; who can go on is to be woken, once for each change.
func (b *gangBook) turn(t *team) (after aftermath) {
	least, why := b.least(t)
	if why == "" && t.plan != nil {
		here := t.count[stageBound]
		for uid := range t.plan.nodes {
			if t.members[uid] == nil {
				t.fulfil(uid)
				after.free = append(after.free, uid)
				continue
			}
			here++
		}
		if t.plan != nil && !t.plan.passed && here < least {
			after.add(b.giveUp(t, fmt.Sprintf("waiting for %s of gang %s (%d of %d exist)", more(least-here), t.gang.Name, here, least)))
		}
	}
	ready := t.ready()
	whole := why == "" && t.plan == nil && t.count[stagePending] > 0 && ready+t.count[stagePending] >= least
	runs := why == "" && ready >= least
	switch {
	case runs && !t.runs:
		for _, pod := range t.waiting() {
			if !t.planned(pod.UID) {
				after.wake = append(after.wake, pod)
			}
		}
	case whole && !runs && (!t.whole || !t.led()):
		after.wake = append(after.wake, t.lead()...)
	}
	t.whole, t.runs = whole, runs
	b.voice.changed()
	return after
}

// led says whether there is a leader who can plan.
func (t *team) led() bool {
	l := t.members[t.leader]
	return l != nil && l.stage == stagePending
}

// lead gives the member to wake for a plan, and makes one the leader where nobody
// is.
func (t *team) lead() []*v1.Pod {
	if t.led() {
		return []*v1.Pod{t.members[t.leader].pod}
	}
	if pods := t.waiting(); len(pods) > 0 {
		t.leader = pods[0].UID
		return pods[:1]
	}
	return nil
}

// giveUp drops a plan that has not passed, with mu held. What it held may do for
// other gangs.
func (b *gangBook) giveUp(t *team, text string) aftermath {
	after := aftermath{back: map[types.UID]string{}}
	for uid := range t.plan.nodes {
		if m := t.members[uid]; m != nil && m.stage == stageReserved {
			after.back[uid] = text
		} else {
			after.free = append(after.free, uid)
		}
	}
	t.plan = nil
	for _, other := range b.teams {
		if other != t && other.refused != nil && other.plan == nil {
			b.wakeIn(other, leastPause)
		}
	}
	return after
}

// again wakes the leader of t after a time, and lets nobody plan before, with mu
// held.
func (b *gangBook) again(t *team, after time.Duration) {
	t.retry = time.Now().Add(after)
	b.wakeIn(t, after)
}

// wakeIn wakes the leader of t after a time, unless that is to be sooner already,
// with mu held.
func (b *gangBook) wakeIn(t *team, after time.Duration) {
	at := time.Now().Add(after)
	if t.timer != nil {
		if !t.wakes.After(at) {
			return
		}
		t.timer.Stop()
	}
	t.wakes = at
	t.timer = time.AfterFunc(after, func() {
		b.mu.Lock()
		var pods []*v1.Pod
		if t.timer = nil; b.teams[t.gang.Key] == t && t.plan == nil {
			if early := time.Until(t.retry); early > 0 {
				b.wakeIn(t, early)
			} else {
				pods = t.lead()
			}
		}
		b.mu.Unlock()
		if len(pods) > 0 {
			b.wake(pods)
		}
	})
}

// The times between two plans of a gang that was refused: by a filter, from the
// first to the last; else such a multiple of what planning it costs.
const (
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
	costFactor = 40
	leastPause = 50 * time.Millisecond
	refresh    = 10 * time.Second // where something was given back, and not enough: so that the reason is that of today
)

// pause is the time after a number of plans that something refused.
func pause(rounds int) time.Duration {
	return min(lastRetry, firstRetry<<min(max(rounds-1, 0), 5))
}

// arrived notes that a member has passed every filter and has its place. goes
// says that it need not wait; then nobody of its gang does. text says why it has
// to go back.
func (b *gangBook) arrived(uid types.UID) (goes bool, text string) {
	b.mu.Lock()
	t := b.of[uid]
	if t == nil {
		b.mu.Unlock()
		return true, ""
	}
	m := t.members[uid]
	least, why := b.least(t)
	if !t.planned(uid) {
		defer b.mu.Unlock()
		if m.stage == stageKept || why == "" && t.ready() >= least {
			b.move(t, m, stageReserved)
			return true, ""
		}
		return false, fmt.Sprintf("the plan of gang %s was given up", t.gang.Name)
	}
	b.move(t, m, stageReserved)
	if t.plan.passed || why != "" || t.ready() < least {
		if goes = t.plan.passed; goes {
			t.sent(uid)
		}
		b.mu.Unlock()
		return goes, ""
	}
	t.plan.passed, t.refused, t.rounds, t.avoid = true, nil, 0, map[types.UID][]string{}
	var others []types.UID
	for other := range t.plan.nodes {
		if o := t.members[other]; other != uid && o != nil && o.stage == stageReserved {
			others = append(others, other)
		}
	}
	t.sent(append(others, uid)...)
	after := b.turn(t)
	b.mu.Unlock()
	for _, other := range others {
		b.let(other)
	}
	b.do(after)
	return true, ""
}

// unreserved notes that what was reserved for a member came to nothing. If its
// gang does not run yet, the plan is given up: the others go back, and it is
// planned anew later. If it runs, the member keeps its place for a while.
func (b *gangBook) unreserved(uid types.UID) {
	b.mu.Lock()
	t := b.of[uid]
	if t == nil || t.members[uid].stage == stageBound {
		b.mu.Unlock()
		return
	}
	m := t.members[uid]
	var after aftermath
	switch {
	case t.planned(uid) && !t.plan.passed:
		b.move(t, m, stagePending)
		delete(t.plan.nodes, uid)
		after = b.giveUp(t, fmt.Sprintf("gang %s waits: pod %s did not get its place", t.gang.Name, m.pod.Name))
		t.rounds++
		b.again(t, pause(t.rounds))
	case m.place.lasts():
		b.keep(t, m)
	case m.place.node != "":
		t.fulfil(uid)
		after.free = b.lose(t, m)
		t.rounds++
		b.again(t, pause(t.rounds))
	default:
		b.move(t, m, stagePending)
		t.fulfil(uid)
	}
	after.add(b.turn(t))
	b.mu.Unlock()
	b.do(after)
}
