package quota

import "slices"

// Way is a workload that waits for quota which idle notebooks hold.
type Way struct {
	Workload
	Pods []string // of the notebooks that give way for it, in the order of idle
}

// GiveWay returns for which workloads that wait, in the order of their turns, idle notebooks of the
// same tree are to stop, and which. idle are their pods, the one that goes first first. Quota that is free,
// or that a notebook leaves which goes for another workload, serves workloads in their order.
//
// No more notebooks stop than a workload needs, and none for a workload that does not fit even
// then.
func (b *Book) GiveWay(waiting []Workload, idle []string) []Way {
	if len(idle) == 0 || len(waiting) == 0 {
		return nil
	}
	left := b.without(&Claim{Workload: &Workload{}})
	refused := map[string]bool{} // as nothing becomes free that is not used, what did not fit does not
	var out []Way
	for i := range waiting {
		w := &waiting[i]
		key := w.Queue + "\x00" + w.shape()
		if refused[key] {
			continue
		}
		goes, ok := left.makeWay(w, idle)
		if !ok {
			refused[key] = true
			continue
		}
		if len(goes) > 0 {
			out = append(out, Way{*w, goes})
		}
		v := left.try(w)
		left.countVector(b.tree.ask[w.Queue], w.User, left.needed(w, v.CountedAs(w)), 1)
	}
	return out
}

// makeWay removes from the Book those of idle that a workload needs gone, and returns them. If
// it does not fit even without all of them, all stay.
func (b *Book) makeWay(w *Workload, idle []string) (goes []string, ok bool) {
	var gone []*Holder
	back := func(h *Holder) {
		b.holders[h.ID] = h
		b.count(h.Queue, h.User, h.Pieces, Kind{}, 1)
	}
	fits := func() bool { return b.try(w).Cause == None }
	mine, there := b.tree.ask[w.Queue]
	for k := 0; !fits() && k < len(idle); k++ {
		h := b.holders[idle[k]]
		if h == nil || !there {
			continue
		}
		if theirs, known := b.tree.ask[h.Queue]; !known || b.tree.root[theirs] != b.tree.root[mine] {
			continue
		}
		b.drop(h.ID)
		gone = append(gone, h)
	}
	ok = fits()
	for _, h := range slices.Backward(gone) {
		if back(h); ok && !fits() {
			b.drop(h.ID)
			goes = append([]string{h.ID}, goes...)
		}
	}
	return goes, ok
}
