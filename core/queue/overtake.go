package queue

import (
	"cmp"
	"slices"
	"time"
)

// Ask is a pod in a queue, or one that has started: what it asks for, and where.
type Ask struct {
	Ticket
	Name     string // "namespace/name"
	Resource string
	Count    int64
	Node     string    // where it has started; "" is that it waits
	Started  time.Time // for one that has
}

// Overtakers are the pods that came after one that waits, and started before it on a
// node within its reach because they ask for less: those that started last come
// first. For the pod that waits they are the reason that the order of the queue does not
// show.
func Overtakers(waits *Ask, reach *Reach, started []Ask) []Ask {
	var out []Ask
	for _, s := range started {
		less := s.Resource != waits.Resource || s.Count < waits.Count
		if s.Node != "" && less && Compare(waits.Ticket, s.Ticket) < 0 && s.Started.After(waits.Created) && reach.Has(s.Node) {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b Ask) int { return cmp.Or(b.Started.Compare(a.Started), a.Age.Compare(b.Age)) })
	return out
}
