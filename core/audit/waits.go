package audit

import (
	"cmp"
	"slices"
	"time"
)

// Waited is how long the pods of a queue waited from when they asked until they got GPUs.
type Waited struct {
	Queue                 string        // "" is none
	Pods                  int           // that got GPUs
	Median, Most, Longest time.Duration // Most is what 9 of 10 pods waited at most
	Waiting               int           // pods that asked, and have got and released nothing
}

// WaitsOf adds up rows by queue, those first that waited the longest. Pods of which the rows do not have when they asked are left out.
func WaitsOf(rows []Row) (out []Waited) {
	asked, waits, waiting := map[string]*Row{}, map[string][]time.Duration{}, map[string]int{}
	for i := range rows {
		r := &rows[i]
		ask := asked[r.UID]
		switch {
		case r.Act == Asked:
			asked[r.UID] = r
			waiting[r.Queue]++
		case ask == nil:
		case r.Act == Granted:
			waits[ask.Queue] = append(waits[ask.Queue], r.At.Sub(ask.At))
			waiting[ask.Queue]--
			delete(asked, r.UID)
		case r.Act == Released:
			waiting[ask.Queue]--
			delete(asked, r.UID)
		}
	}
	for queue := range waiting {
		w := Waited{Queue: queue, Pods: len(waits[queue]), Waiting: waiting[queue]}
		if list := waits[queue]; len(list) > 0 {
			slices.Sort(list)
			w.Median, w.Most, w.Longest = list[len(list)/2], list[min(len(list)-1, len(list)*9/10)], list[len(list)-1]
		}
		out = append(out, w)
	}
	slices.SortFunc(out, func(a, b Waited) int {
		return cmp.Or(cmp.Compare(b.Median, a.Median), cmp.Compare(b.Longest, a.Longest), cmp.Compare(a.Queue, b.Queue))
	})
	return out
}
