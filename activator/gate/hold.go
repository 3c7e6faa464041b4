package gate

import "time"

// hold puts a request among those that wait, in the order of arrival, and calls wake if
// that is due.
func (g *Gate) hold(t *Ticket, now time.Time) {
	at := g.waiting.Back()
	for at != nil && at.Value.(*Ticket).number > t.number {
		at = at.Prev()
	}
	if at == nil {
		t.place = g.waiting.PushFront(t)
	} else {
		t.place = g.waiting.InsertAfter(t, at)
	}
	g.held++
	g.bytes += t.bytes
	g.callWake(now)
	g.schedule(now)
}

// callWake calls wake if it was not called for a while.
func (g *Gate) callWake(now time.Time) {
	if g.held > 0 && now.Sub(g.woken) >= wakeEvery {
		g.woken = now
		g.wake()
	}
}

// drop removes a request from those that wait.
func (g *Gate) drop(t *Ticket) {
	g.waiting.Remove(t.place)
	t.place = nil
	g.held--
	g.bytes -= t.bytes
	if g.held == 0 {
		g.woken = time.Time{} // the next one that is held is news
	}
}

// refuse ends a request that waits, and returns the call that says so.
func (g *Gate) refuse(t *Ticket, why *Refusal) func() {
	g.drop(t)
	g.refused++
	g.meter.leave(time.Now())
	return func() { t.decided(why) }
}

// dispatch sends those that wait to backends with room, the oldest first, and refuses
// those whose time is over. It returns the calls that say so.
func (g *Gate) dispatch(now time.Time) []func() {
	var calls []func()
	for e := g.waiting.Front(); e != nil; e = g.waiting.Front() {
		t := e.Value.(*Ticket)
		if !now.Before(t.deadline) {
			calls = append(calls, g.refuse(t, tooLong(g.limits)))
			continue
		}
		if !g.give(t, now) {
			break
		}
		g.drop(t)
		t.bytes = 0 // what is kept of it is sent on
		calls = append(calls, func() { t.decided(nil) })
	}
	g.callWake(now)
	g.schedule(now)
	return calls
}

// schedule sets the timer to when something is due: the oldest request has waited for
// too long, a backend has rested, or wake is to be called again.
func (g *Gate) schedule(now time.Time) {
	if g.held == 0 || g.closed != nil {
		return
	}
	due := g.waiting.Front().Value.(*Ticket).deadline
	for _, other := range []time.Time{g.nextRest(now), g.woken.Add(wakeEvery)} {
		if other.After(now) && other.Before(due) {
			due = other
		}
	}
	if g.timer == nil {
		g.timer = time.AfterFunc(due.Sub(now), g.tick)
	} else {
		g.timer.Reset(due.Sub(now))
	}
}

func (g *Gate) tick() {
	g.mu.Lock()
	g.unlock(g.dispatch(time.Now()))
}

// unlock unlocks, and then makes the calls.
func (g *Gate) unlock(calls []func()) {
	g.mu.Unlock()
	for _, f := range calls {
		f()
	}
}
