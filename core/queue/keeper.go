package queue

import (
	"cmp"
	"slices"
	"time"
)

// Keeper is a Reserver together with the places that are kept for those who have a claim. P
// is how its caller names a pod. Like a Reserver it is a value, and equal calls give equal
// answers.
//
// Methods report whether places are free that were kept before: then those who wait are to
// be called.
type Keeper[P any] struct {
	reserver *Reserver
	kept     map[string]Kept[P]      // by who has the claim
	entering map[string]*entering[P] // by pod
}

// entering is pods that have got what was kept for others, and have not started.
type entering[P any] struct {
	left   int      // of the pods
	lost   []P      // those whose places they have got
	claims []string // of these
	leads  []P      // who are tried for these claims
}

// Kept is the places that are kept for one claim.
type Kept[P any] struct {
	Ticket
	ID   string // who has the claim, as Waiter.ID
	Lead P      // the pod, or the leader of the gang, which is tried when the places are free
	Pods []P    // each has a place
	// Ends are those whose end is waited for.
	Ends []P
	// At is until when others may use the places: see Reserver.Expected. Zero is that they may not.
	At time.Time
}

// NewKeeper returns a Keeper of no places, for waiters that have waited for at least after.
// With 0 there are no reservations.
func NewKeeper[P any](after time.Duration) *Keeper[P] {
	return &Keeper[P]{reserver: NewReserver(after), kept: map[string]Kept[P]{}, entering: map[string]*entering[P]{}}
}

// Tries returns, one after the other, the nodes to be left out when a place is looked for:
// first those that were kept in vain, then none.
func (c *Reservation) Tries() [][]string {
	if len(c.Avoid) == 0 {
		return [][]string{nil}
	}
	return [][]string{c.Avoid, nil}
}

// Refused takes a waiter that fits nowhere: see Reserver.Refused.
func (k *Keeper[P]) Refused(w *Waiter, now time.Time) (Reservation, bool) {
	return k.reserver.Refused(w, now)
}

// Next is when the next lease ends; zero is that there is none.
func (k *Keeper[P]) Next() time.Time { return k.reserver.Next() }

// Claims returns the claims that there are, in the order of their turns.
func (k *Keeper[P]) Claims() []Reservation { return k.reserver.Claims() }

// Keep notes what is kept for a claim: the pods that lead leads have places on nodes,
// which are free when ends have ended, at a time that is zero if it is not known.
func (k *Keeper[P]) Keep(c *Reservation, lead P, pods, ends []P, nodes []string, at time.Time) {
	k.reserver.Kept(c.ID, nodes)
	k.kept[c.ID] = Kept[P]{Ticket: c.Ticket, ID: c.ID, Lead: lead, Pods: slices.Clone(pods), Ends: slices.Clone(ends), At: k.reserver.Expected(c.ID, at)}
}

// Ends returns those whose end is waited for to free the places of a claim. When a place is
// looked for again, these come first: what has come free beside them is not given up for
// what may come free sooner.
func (k *Keeper[P]) Ends(id string) []P { return k.kept[id].Ends }

// Lapsed notes that no place is kept for a claim any longer.
func (k *Keeper[P]) Lapsed(id string) (free bool) {
	_, free = k.kept[id]
	delete(k.kept, id)
	return free
}

// Enter notes that pods, by UID, have got places that were kept for others and are open to them: lost have lost theirs. These look for
// places again when all of the pods have started, and their ends can be waited for: then Arrived says so.
func (k *Keeper[P]) Enter(pods []string, open []Kept[P], lost []P) {
	e := &entering[P]{left: len(pods), lost: slices.Clone(lost)}
	for i := range open {
		e.claims, e.leads = append(e.claims, open[i].ID), append(e.leads, open[i].Lead)
	}
	for _, pod := range pods {
		k.entering[pod] = e
	}
}

// Lends reports whether places of a claim are with pods that have not started.
func (k *Keeper[P]) Lends(id string) bool {
	for _, e := range k.entering {
		if slices.Contains(e.claims, id) {
			return true
		}
	}
	return false
}

// Arrived takes a pod that has started, or is gone, and returns those that have lost places to it, and who leads them: these are to be
// tried again.
func (k *Keeper[P]) Arrived(pod string) (leads, lost []P) {
	e := k.entering[pod]
	if e == nil {
		return nil, nil
	}
	delete(k.entering, pod)
	if e.left--; e.left > 0 {
		return nil, nil
	}
	return e.leads, e.lost
}

// Vain ends the claim of a waiter for which nothing can be kept: see Reserver.Vain. One whose places are given to others
// that have not started stays.
func (k *Keeper[P]) Vain(id string, now time.Time) (free bool) {
	if k.Lends(id) {
		return false
	}
	k.reserver.Vain(id, now)
	return k.Lapsed(id)
}

// Bound takes a pod that got a node, perhaps another than was kept for it: see
// Reserver.Bound.
func (k *Keeper[P]) Bound(t Ticket, id, node string) (free bool) {
	k.reserver.Bound(t, id, node)
	return k.Lapsed(id)
}

// Left takes a waiter that waits no longer: see Reserver.Left.
func (k *Keeper[P]) Left(id string) (free bool) {
	k.reserver.Left(id)
	return k.Lapsed(id)
}

// Expire ends the claims whose lease is over, and returns what was kept for them: these
// places are to be released, and those who lead to be tried again.
func (k *Keeper[P]) Expire(now time.Time) []Kept[P] {
	var out []Kept[P]
	for _, c := range k.reserver.Expire(now) {
		if kept, is := k.kept[c.ID]; is {
			out = append(out, kept)
			delete(k.kept, c.ID)
		}
	}
	return out
}

// All returns what is kept, in the order of turns.
func (k *Keeper[P]) All() []Kept[P] {
	out := make([]Kept[P], 0, len(k.kept))
	for _, kept := range k.kept {
		out = append(out, kept)
	}
	slices.SortFunc(out, func(a, b Kept[P]) int { return cmp.Or(Compare(a.Ticket, b.Ticket), cmp.Compare(a.ID, b.ID)) })
	return out
}

// Any reports whether something is kept.
func (k *Keeper[P]) Any() bool { return len(k.kept) > 0 }

// Open returns what is not kept from a pod whose turn t says, and which is expected to have ended by a time, zero if that is
// not known: the claims that it comes before, and those whose other pods end later than it. These it uses as a guest.
func (k *Keeper[P]) Open(t Ticket, ends time.Time) (out []Kept[P], guest bool) {
	for _, kept := range k.All() {
		switch {
		case Compare(t, kept.Ticket) < 0:
			out = append(out, kept)
		case !ends.IsZero() && !ends.After(kept.At):
			out, guest = append(out, kept), true
		}
	}
	return out, guest
}

// Hosts returns those claims of what is open that come before a pod whose turn t says, and of which some pod has lost its
// place, as lost reports.
func Hosts[P any](t Ticket, open []Kept[P], lost func(P) bool) (out []Kept[P]) {
	for i := range open {
		if Compare(t, open[i].Ticket) > 0 && slices.ContainsFunc(open[i].Pods, lost) {
			out = append(out, open[i])
		}
	}
	return out
}

// Pods returns the pods with places of some of what is kept.
func Pods[P any](list []Kept[P]) (out []P) {
	for i := range list {
		out = append(out, list[i].Pods...)
	}
	return out
}

// AllEnded returns when pods have ended that are expected to at some times. It is zero if nothing is known of one of them, as
// is the case of one that should have ended by now.
func AllEnded(ends []time.Time, now time.Time) (at time.Time) {
	for _, end := range ends {
		if !end.After(now) {
			return time.Time{}
		}
		if end.After(at) {
			at = end
		}
	}
	return at
}
