package cluster

import "slices"

// Ends returns when the requests for GPUs that node i holds end at the latest, of those of which it
// is known (Placement.Ends): in seconds since 1970, in order. It is the Snapshot's own: read it, do not change it.
func (s *Snapshot) Ends(i int) []int64 {
	if s.ends == nil {
		return nil
	}
	return s.ends[i]
}

// HeldGPUs is how many requests for GPUs, or parts of them, node i holds.
func (s *Snapshot) HeldGPUs(i int) int {
	n := 0
	for _, held := range s.nodes[i].Held[SizeShare:] {
		n += int(held)
	}
	return n
}

// begin notes the end of what node i holds from now on. Lists of ends are shared by clones
// and by what a mark remembers: they are never changed in place.
func (s *Snapshot) begin(i int, ends int64) {
	if ends == 0 {
		return
	}
	if s.ends == nil {
		s.ends = make([][]int64, len(s.nodes))
	}
	was := s.ends[i]
	at, _ := slices.BinarySearch(was, ends)
	s.ends[i] = slices.Concat(was[:at], []int64{ends}, was[at:])
}

// end takes back what begin noted.
func (s *Snapshot) end(i int, ends int64) {
	if ends == 0 || s.ends == nil {
		return
	}
	was := s.ends[i]
	if at, found := slices.BinarySearch(was, ends); found {
		s.ends[i] = slices.Concat(was[:at], was[at+1:])
	}
}
