package cluster

import "slices"

// Cursor is a position in the log of changes of one Snapshot.
type Cursor int64

// Now is the position after the last change.
func (s *Snapshot) Now() Cursor { return Cursor(s.logged + int64(len(s.log))) }

// Changed gives the nodes changed since c, oldest first, some of them more than
// once. all is true where c is so old that the log no longer says: then every
// node may have changed. The slice is good until the next change.
func (s *Snapshot) Changed(c Cursor) (nodes []int32, all bool) {
	if int64(c) < s.logged {
		return nil, true
	}
	return s.log[int64(c)-s.logged:], false
}

// changed logs a change of node i and brings its summary up to date. The log
// keeps four times as many changes as there are nodes, at least 1024.
func (s *Snapshot) changed(i int) {
	s.refresh(i)
	if len(s.log) >= max(1024, 4*len(s.nodes)) {
		half := len(s.log) / 2
		s.logged += int64(half)
		s.log = slices.Delete(s.log, 0, half)
	}
	s.log = append(s.log, int32(i))
}

// refresh computes Open and the summary of node i from its GPUs.
func (s *Snapshot) refresh(i int) {
	n := &s.nodes[i]
	n.OpenMilli, n.MostOpen, n.Idle = 0, 0, 0
	for j := n.first; j < n.first+n.count; j++ {
		o := s.gpus[j].offer(&s.static.cards[j])
		s.open[j] = o
		n.OpenMilli += int32(o)
		n.MostOpen = max(n.MostOpen, int32(o))
		if o == Whole {
			n.Idle++
		}
	}
}
