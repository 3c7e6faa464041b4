package cluster

// States counts the physical GPUs of a Snapshot by what is left of them. Every
// GPU is in one of the four.
type States struct {
	Allocated int // nothing is free: no milli-GPUs, no memory, or no whole compute slice of a MIG GPU
	Shared    int // a part is held and a part is free
	Free      int // nothing is held
	Unhealthy int
}

// States counts the GPUs of s.
func (s *Snapshot) States() States {
	var n States
	for j := range s.gpus {
		g, memory := &s.gpus[j], s.static.cards[j].MemoryBytes
		switch {
		case !g.Healthy:
			n.Unhealthy++
		case g.FreeMilli == Whole && g.FreeBytes == memory:
			n.Free++
		case g.FreeMilli <= 0, memory > 0 && g.FreeBytes <= 0,
			g.MIG && int(g.FreeMilli)*s.ComputeSlices(int(g.Product)) < Whole:
			n.Allocated++
		default:
			n.Shared++
		}
	}
	return n
}
