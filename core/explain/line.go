package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"berth.dev/berth/core/queue"
)

// shownExactly is up to which place in line, and of how many, numbers are exact.
// Behind it they are rounded down to a step, so that one that leaves a line of a
// thousand changes what is said of some twenty, not of all.
const shownExactly = 20

// Place is where a workload stands among those that wait for the same resource.
// The zero Place is that it does not stand in line yet.
type Place struct {
	At, Of   int // from 1; rounded down, see step
	Resource string
}

// String is the place as people say it: "3rd of 7 that wait for nvidia.com/gpu".
func (p Place) String() string {
	switch {
	case p.At == 0:
		return "to be placed"
	case p.At > shownExactly:
		return fmt.Sprintf("behind at least %d others that wait for %s", p.At-1, p.Resource)
	case p.Of > shownExactly:
		return fmt.Sprintf("%s of more than %d that wait for %s", ordinal(p.At), p.Of-1, p.Resource)
	case p.Of == 1:
		return "the only one that waits for " + p.Resource
	}
	return fmt.Sprintf("%s of %d that wait for %s", ordinal(p.At), p.Of, p.Resource)
}

func ordinal(n int) string {
	switch {
	case n%100 >= 11 && n%100 <= 13:
	case n%10 == 1:
		return fmt.Sprint(n, "st")
	case n%10 == 2:
		return fmt.Sprint(n, "nd")
	case n%10 == 3:
		return fmt.Sprint(n, "rd")
	}
	return fmt.Sprint(n, "th")
}

// step rounds a number from 21 up down to 21, 51, 101, 201, 501, 1001 and so on.
func step(n int) int {
	if n <= shownExactly {
		return n
	}
	best := shownExactly
	for ten := 10; ten < n; ten *= 10 {
		for _, d := range []int{1, 2, 5} {
			if d*ten < n {
				best = max(best, d*ten)
			}
		}
	}
	return best + 1
}

// Member is a workload's pod in a line, or one that holds what others wait for.
type Member struct {
	Namespace, Name string
	Resource        string       // what it stands in line for; "" is for nothing
	Count           int64        // of Resource
	Waits           bool         // it has been looked at and has no node; without it, it holds Count
	queue.Ticket                 // of the pod
	Reach           *queue.Reach // where it could go; nil is not known
}

// ID names the workload: "namespace/name".
func (m *Member) ID() string { return m.Namespace + "/" + m.Name }

// ahead orders a line.
func ahead(a, b *Member) int { return queue.Compare(a.Ticket, b.Ticket) }

// Lines are the workloads that wait and hold, by resource. It is not safe for
// concurrent use.
type Lines struct {
	members map[string]*Member
	lines   map[string]*line
	reaches []*queue.Reach // of members, each once, so that equal ones are the same pointer
}

// line is one resource's.
type line struct {
	waits   []*Member // in order
	holders map[string]*Member
	dirty   bool
	shown   map[string]Place // by ID, what Changed has given last
}

// NewLines makes Lines of nobody.
func NewLines() *Lines {
	return &Lines{members: map[string]*Member{}, lines: map[string]*line{}}
}

// Put says what is true of a workload now, and whether any line has changed.
func (l *Lines) Put(m Member) (changed bool) {
	m.Reach = l.once(m.Reach)
	had := l.members[m.ID()]
	if had != nil && *had == m {
		return false
	}
	if had == nil && m.Resource == "" {
		return false
	}
	l.Drop(m.ID())
	if m.Resource == "" {
		return true
	}
	l.members[m.ID()] = &m
	at := l.lines[m.Resource]
	if at == nil {
		at = &line{holders: map[string]*Member{}, shown: map[string]Place{}}
		l.lines[m.Resource] = at
	}
	if !m.Waits {
		at.holders[m.ID()] = &m
		return true
	}
	i, _ := slices.BinarySearchFunc(at.waits, &m, ahead)
	at.waits = slices.Insert(at.waits, i, &m)
	at.dirty = true
	return true
}

// mostReaches is how many reaches are kept before those of nobody are dropped.
const mostReaches = 64

// once gives the reach that is kept for equal ones.
func (l *Lines) once(r *queue.Reach) *queue.Reach {
	if r == nil {
		return nil
	}
	if i := slices.IndexFunc(l.reaches, r.Equal); i >= 0 {
		return l.reaches[i]
	}
	if len(l.reaches) >= mostReaches {
		l.reaches = slices.DeleteFunc(l.reaches, func(old *queue.Reach) bool {
			for _, m := range l.members {
				if m.Reach == old {
					return false
				}
			}
			return true
		})
	}
	l.reaches = append(l.reaches, r)
	return r
}

// Drop takes a workload out, and says whether it was in.
func (l *Lines) Drop(id string) bool {
	m := l.members[id]
	if m == nil {
		return false
	}
	delete(l.members, id)
	at := l.lines[m.Resource]
	if !m.Waits {
		delete(at.holders, id)
	} else if i := slices.Index(at.waits, m); i >= 0 {
		at.waits = slices.Delete(at.waits, i, i+1)
		delete(at.shown, id)
		at.dirty = true
	}
	if len(at.waits) == 0 && len(at.holders) == 0 {
		delete(l.lines, m.Resource)
	}
	return true
}

// Place is where a workload stands among those that it competes with; zero where it
// does not wait.
func (l *Lines) Place(id string) Place {
	m := l.members[id]
	if m == nil || !m.Waits {
		return Place{}
	}
	at := l.lines[m.Resource]
	before, of := 0, 0
	rivals := newRivalry()
	for i, other := range at.waits {
		if rivals.compete(m.Reach, other.Reach) {
			of++
			if ahead(at.waits[i], m) < 0 {
				before++
			}
		}
	}
	return place(before, of, m.Resource)
}

// place is behind so many of so many.
func place(before, of int, resource string) Place {
	p := Place{At: step(before + 1), Of: step(of), Resource: resource}
	if p.At > shownExactly {
		p.Of = 0 // of how many would change for all of them at once
	}
	return p
}

// Changed gives the workloads whose place is another than when Changed gave it
// last, in no order.
func (l *Lines) Changed() []string {
	var out []string
	for resource, at := range l.lines {
		if !at.dirty {
			continue
		}
		at.dirty = false
		rivals, all, before := newRivalry(), map[*queue.Reach]int{}, map[*queue.Reach]int{}
		for _, m := range at.waits {
			all[m.Reach]++
		}
		for _, m := range at.waits {
			p := place(rivals.count(m.Reach, before), rivals.count(m.Reach, all), resource)
			if before[m.Reach]++; at.shown[m.ID()] != p {
				at.shown[m.ID()] = p
				out = append(out, m.ID())
			}
		}
	}
	return out
}

// rivalry is which reaches compete, each pair looked at once.
type rivalry map[[2]*queue.Reach]bool

func newRivalry() rivalry { return rivalry{} }

func (r rivalry) compete(a, b *queue.Reach) bool {
	if a == b {
		return true
	}
	yes, known := r[[2]*queue.Reach{a, b}]
	if !known {
		yes = queue.Compete(a, b)
		r[[2]*queue.Reach{a, b}], r[[2]*queue.Reach{b, a}] = yes, yes
	}
	return yes
}

// count is how many of those of each reach compete with a.
func (r rivalry) count(a *queue.Reach, of map[*queue.Reach]int) int {
	sum := 0
	for b, n := range of {
		if r.compete(a, b) {
			sum += n
		}
	}
	return sum
}

// mostNamed is how many holders are named before the rest is counted.
const mostNamed = 3

// Rivals are the workloads that hold a resource, seen from a namespace.
func (l *Lines) Rivals(namespace, resource string) Rivals {
	var r Rivals
	at := l.lines[resource]
	if at == nil {
		return r
	}
	var here []*Member
	for _, m := range at.holders {
		if m.Namespace == namespace {
			here = append(here, m)
		} else {
			r.Elsewhere += m.Count
		}
	}
	slices.SortFunc(here, func(a, b *Member) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name)) })
	var named []string
	rest := int64(0)
	for i, m := range here {
		if i < mostNamed {
			named = append(named, fmt.Sprintf("%s (%d)", m.Name, m.Count))
			continue
		}
		rest += m.Count
	}
	if rest > 0 {
		named = append(named, fmt.Sprintf("others of this namespace (%d)", rest))
	}
	r.Here = strings.Join(named, ", ")
	return r
}
