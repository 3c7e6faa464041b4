// Package queue decides whose turn it is among pods that wait for devices.
package queue

import (
	"cmp"
	"time"
)

// Age says which of two pods came first.
type Age struct {
	Created time.Time // as the API server keeps it: whole seconds; what is below is ignored
	UID     string    // of the pod: decides between pods of one second
}

// Compare is negative if a came before b, and 0 only for the same pod. It depends
// on nothing that changes while a pod lives, so every process at any time gives the
// same answer.
func (a Age) Compare(b Age) int {
	return cmp.Or(cmp.Compare(a.Created.Unix(), b.Created.Unix()), cmp.Compare(a.UID, b.UID))
}

// AsOldAs returns the age of a pod that belongs to a job created at since. The pods of a job that moves are new, and the
// job keeps its place in line. Zero is that there is no such job, or that its age is not known.
func (a Age) AsOldAs(since time.Time) Age {
	if !since.IsZero() && since.Before(a.Created) {
		a.Created = since
	}
	return a
}

// Ticket is what decides when it is a pod's turn.
type Ticket struct {
	Age
	Priority int32
	// Gang is the age of the oldest pod of its gang; zero for a pod of none. So the
	// pods of a gang follow one another.
	Gang Age
	// Order is its place among the pods of its gang, where a plan has given it one: 1
	// is the first.
	Order int
	// Partial is set for a gang of which some pods have their nodes, but fewer than
	// its minimum: it wastes what they hold until the rest follows.
	Partial bool
	// Over is how many milli-GPUs the gang would have beyond its minimum with this
	// pod; 0 is a pod that its gang needs, or of no gang. So gangs of equal priority
	// share what is over their minimums.
	Over int64
}

// Compare orders pods by whose turn comes first: the higher priority, of equal
// priority the gangs that have fewer pods than they need, then those that would have
// least beyond a minimum, then the older gang or pod; the pods of one gang as it was
// planned. It is a total order: 0 only for the same pod.
func Compare(a, b Ticket) int {
	return cmp.Or(
		cmp.Compare(b.Priority, a.Priority), partialFirst(a, b), cmp.Compare(a.Over, b.Over), a.since().Compare(b.since()),
		cmp.Compare(a.Order, b.Order), a.Age.Compare(b.Age),
	)
}

func partialFirst(a, b Ticket) int {
	switch {
	case a.Partial == b.Partial:
		return 0
	case a.Partial:
		return -1
	}
	return 1
}

// since is the age that counts against others.
func (t Ticket) since() Age {
	if t.Gang.UID == "" {
		return t.Age
	}
	return t.Gang
}
