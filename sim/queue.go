package sim

import (
	"container/heap"
	"iter"
	"slices"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/placement"
)

// departure is a placement that ends at a virtual time.
type departure struct {
	at     float64 // seconds
	serial int     // arrival, so that equal times keep an order
	placed cluster.Placement
}

// departures are what runs now, by end. Use push and pop.
type departures []departure

func (d departures) Len() int { return len(d) }
func (d departures) Less(i, j int) bool {
	return d[i].at < d[j].at || d[i].at == d[j].at && d[i].serial < d[j].serial
}
func (d departures) Swap(i, j int) { d[i], d[j] = d[j], d[i] }

// Push implements heap.Interface.
func (d *departures) Push(x any) { *d = append(*d, x.(departure)) }

// Pop implements heap.Interface.
func (d *departures) Pop() any {
	last := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return last
}

// placements are what runs now, in no order.
func (d departures) placements() iter.Seq[*cluster.Placement] {
	return func(yield func(*cluster.Placement) bool) {
		for i := range d {
			if !yield(&d[i].placed) {
				return
			}
		}
	}
}

func (d *departures) push(x departure) { heap.Push(d, x) }
func (d *departures) pop() departure   { return heap.Pop(d).(departure) }

// waiting are the pods not placed yet, in a line for each shape: where the
// first of a line does not fit, the others do not either.
type waiting struct {
	lines map[cluster.Request]*line
	order []*line // in order of their shape's first arrival

	hopeful []*line // scratch of retry
}

// line is the waiting pods of one shape, oldest first.
type line struct{ pods []arrival }

// arrival is a pod that came at a virtual time.
type arrival struct {
	serial  int
	request cluster.Request
	at, run float64 // seconds
	most    float64 // seconds that it runs at most, as it declares; 0 is not known
}

// stay is what is known of how long a stays that starts now.
func (a *arrival) stay(now float64) placement.Stay {
	if a.most == 0 {
		return placement.Stay{}
	}
	run := max(1, int64(a.most))
	return placement.Stay{Ends: 1 + int64(now) + run, Run: run}
}

func newWaiting() *waiting { return &waiting{lines: map[cluster.Request]*line{}} }

// add puts a at the end of its line.
func (w *waiting) add(a arrival) {
	l := w.lines[a.request]
	if l == nil {
		l = &line{}
		w.lines[a.request] = l
		w.order = append(w.order, l)
	}
	l.pods = append(l.pods, a)
}

// expire takes out the pods that came before the given time, line by line.
func (w *waiting) expire(before float64, gone func(*arrival)) {
	for _, l := range w.order {
		n := 0
		for n < len(l.pods) && l.pods[n].at < before {
			gone(&l.pods[n])
			n++
		}
		l.pods = l.pods[n:]
	}
}

// retry tries the oldest pod first, and of each shape the others only after it
// was placed. may says whether a shape is worth trying, and try whether it
// placed the pod.
func (w *waiting) retry(may func(*cluster.Request) bool, try func(*arrival) (bool, error)) error {
	w.hopeful = w.hopeful[:0]
	for _, l := range w.order {
		if len(l.pods) > 0 && may(&l.pods[0].request) {
			w.hopeful = append(w.hopeful, l)
		}
	}
	for len(w.hopeful) > 0 {
		first := 0
		for i, l := range w.hopeful {
			if l.pods[0].serial < w.hopeful[first].pods[0].serial {
				first = i
			}
		}
		l := w.hopeful[first]
		placed, err := try(&l.pods[0])
		if err != nil {
			return err
		}
		if placed {
			l.pods = l.pods[1:]
		}
		if !placed || len(l.pods) == 0 || !may(&l.pods[0].request) {
			w.hopeful = slices.Delete(w.hopeful, first, first+1)
		}
	}
	return nil
}
