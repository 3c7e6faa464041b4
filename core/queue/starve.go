package queue

import (
	"cmp"
	"slices"
	"time"
)

// The limits of reservations.
const (
	mostClaims  = 4 // at once
	firstLease  = time.Minute
	lastLease   = time.Hour // at most; each lease of a waiter is twice as long as the one before
	leasePause  = 10 * time.Second
	mostBinds   = 256     // remembered
	mostWaiters = 1 << 12 // without a claim, remembered
)

// Waiter is a pod, or the leader of a gang, that was refused.
type Waiter struct {
	Ticket
	ID    string    // the pod's UID, or what names its gang
	Line  string    // equal for waiters that ask for the same
	Since time.Time // when it was first refused
	// Uses reports whether it could use a node if it were free.
	Uses func(node string) bool
}

// Reservation is what a waiter with a claim gets: places are kept free of pods that come after its waiter, of
// equal or lower priority, until the lease ends.
type Reservation struct {
	Ticket
	ID, Line string
	Until    time.Time
	// Avoid are the nodes that the waiter's last claim was for, in vain.
	Avoid []string
}

// Reserver decides which of those that wait get a reservation: one that has waited for
// some time, and that a pod which comes after it has overtaken on a node that it could
// use. So the smaller requests that fit where it does not cannot pass it without end.
//
// A claim has a lease, so what is kept for one that does not come is used again. Of
// those that ask for the same one has a claim at a time, and few have one at all.
//
// A Reserver is a value: it has no clock and no lock, does nothing itself, and equal
// calls give equal claims. Each binding takes the same time however many wait.
type Reserver struct {
	after   time.Duration
	waiters map[string]*claimant // by line
	lines   map[string]string    // of those in waiters, by ID
	claims  []*claimant          // those that have a claim, the first to get it first
	binds   [mostBinds]bind
	serial  int // bindings so far
}

// bind is a pod that has got a node.
type bind struct {
	Ticket
	id, node string
}

// claimant is the one of a line that waits for a claim, or has it.
type claimant struct {
	Waiter
	seen      int  // bindings that were looked at
	overtaken bool // a pod that comes after it has started where it could have
	lease     time.Duration
	began     time.Time // its claim
	promised  time.Time // when what is kept was expected to be complete, the earliest time so far; zero is not known
	until     time.Time // of its claim; zero is that it has none
	rests     time.Time // no claim before
	nodes     []string  // that its claim is for
	avoid     []string
}

// NewReserver returns a Reserver for waiters that have waited for at least after; 0 gives
// no reservations.
func NewReserver(after time.Duration) *Reserver {
	return &Reserver{after: after, waiters: map[string]*claimant{}, lines: map[string]string{}}
}

// Refused takes a waiter that fits nowhere now, and returns its claim if it has or gets
// one.
func (r *Reserver) Refused(w *Waiter, now time.Time) (Reservation, bool) {
	if r.after <= 0 {
		return Reservation{}, false
	}
	c := r.waiters[w.Line]
	switch {
	case c == nil, c.ID != w.ID && c.until.IsZero() && Compare(w.Ticket, c.Ticket) < 0:
		c = r.enter(w, c)
	case c.ID != w.ID:
		return Reservation{}, false // another of its line comes first
	}
	since := c.Since
	if c.Waiter = *w; since.Before(c.Since) {
		c.Since = since
	}
	long := now.Sub(c.Since) >= r.after
	if long && c.until.IsZero() {
		c.look(r)
	}
	if long && c.until.IsZero() && c.overtaken && !now.Before(c.rests) && len(r.claims) < mostClaims {
		c.lease = min(lastLease, max(firstLease, 2*c.lease))
		c.began, c.promised, c.until = now, time.Time{}, now.Add(c.lease)
		r.claims = append(r.claims, c)
	}
	return c.claim(), !c.until.IsZero()
}

// enter notes a waiter in the place of old, which may be nil.
func (r *Reserver) enter(w *Waiter, old *claimant) *claimant {
	if old != nil {
		delete(r.lines, old.ID)
	}
	if line, had := r.lines[w.ID]; had {
		r.drop(line)
	}
	if len(r.waiters) >= mostWaiters {
		for line, c := range r.waiters {
			if c.until.IsZero() {
				r.drop(line)
			}
		}
	}
	c := &claimant{Waiter: *w, seen: r.serial}
	r.waiters[w.Line], r.lines[w.ID] = c, w.Line
	return c
}

// look looks at the bindings since the last time.
func (c *claimant) look(r *Reserver) {
	for k := max(c.seen, r.serial-mostBinds); k < r.serial && !c.overtaken; k++ {
		b := &r.binds[k%mostBinds]
		c.overtaken = b.id != c.ID && Compare(c.Ticket, b.Ticket) < 0 && c.Uses(b.node)
	}
	c.seen = r.serial
}

// claim is the claim that c has.
func (c *claimant) claim() Reservation {
	return Reservation{Ticket: c.Ticket, ID: c.ID, Line: c.Line, Until: c.until, Avoid: c.avoid}
}

// Bound takes a pod that got a node. id is its UID, or what names its gang.
func (r *Reserver) Bound(t Ticket, id, node string) {
	if r.after <= 0 {
		return
	}
	r.binds[r.serial%mostBinds] = bind{t, id, node}
	r.serial++
	r.Left(id)
}

// Left takes a waiter that waits no longer: it has started, or is gone. It reports
// whether it had a claim.
func (r *Reserver) Left(id string) (claimed bool) {
	line, had := r.lines[id]
	if !had {
		return false
	}
	claimed = !r.waiters[line].until.IsZero()
	r.drop(line)
	return claimed
}

// Kept notes the nodes that are kept for a waiter with a claim.
func (r *Reserver) Kept(id string, nodes []string) {
	if c := r.waiters[r.lines[id]]; c != nil {
		c.nodes = slices.Clone(nodes)
	}
}

// Expected notes when what is kept for a waiter with a claim is expected to be complete; zero is not known. Its lease ends a
// minute later at the earliest, if that is within an hour of its begin. It returns until when others may use what is kept: of all
// that was expected since the claim began, the earliest, so these cannot delay it again and again.
func (r *Reserver) Expected(id string, at time.Time) time.Time {
	c := r.waiters[r.lines[id]]
	if c == nil || c.until.IsZero() || at.IsZero() {
		return time.Time{}
	}
	if c.promised.IsZero() || at.Before(c.promised) {
		c.promised = at
	}
	if end := at.Add(firstLease); end.After(c.until) && !end.After(c.began.Add(lastLease)) {
		c.until = end
	}
	return c.promised
}

// Vain ends the claim of a waiter for which nothing can be kept: no pods that it could
// wait for hold what it asks for.
func (r *Reserver) Vain(id string, now time.Time) {
	if c := r.waiters[r.lines[id]]; c != nil && !c.until.IsZero() {
		r.end(c, now)
	}
}

// Expire ends the claims whose lease is over, and returns them.
func (r *Reserver) Expire(now time.Time) []Reservation {
	var out []Reservation
	for _, c := range slices.Clone(r.claims) {
		if !now.Before(c.until) {
			out = append(out, c.claim())
			r.end(c, now)
		}
	}
	return out
}

// end ends c's claim. It gets no other for a while, so others get theirs.
func (r *Reserver) end(c *claimant, now time.Time) {
	c.avoid, c.nodes = c.nodes, nil
	c.until, c.rests = time.Time{}, now.Add(leasePause)
	r.claims = slices.DeleteFunc(r.claims, func(o *claimant) bool { return o == c })
}

// drop forgets the waiter of a line.
func (r *Reserver) drop(line string) {
	c := r.waiters[line]
	delete(r.waiters, line)
	delete(r.lines, c.ID)
	r.claims = slices.DeleteFunc(r.claims, func(o *claimant) bool { return o == c })
}

// Next is when the next lease ends; zero is that there is none.
func (r *Reserver) Next() time.Time {
	var next time.Time
	for _, c := range r.claims {
		if next.IsZero() || c.until.Before(next) {
			next = c.until
		}
	}
	return next
}

// Claims returns the claims that there are, in the order of their turns.
func (r *Reserver) Claims() []Reservation {
	out := make([]Reservation, 0, len(r.claims))
	for _, c := range r.claims {
		out = append(out, c.claim())
	}
	slices.SortFunc(out, func(a, b Reservation) int { return cmp.Or(Compare(a.Ticket, b.Ticket), cmp.Compare(a.ID, b.ID)) })
	return out
}
