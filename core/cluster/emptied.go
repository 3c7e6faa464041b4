package cluster

import "slices"

// Emptied returns a Snapshot of every every-th node (1 is all) as it would
// be if nothing were held: all of it is free, and GPUs that MIG devices were
// cut from stay cut. Products keep their numbers, so requests made for s hold
// for it too, but classes are not in it. It is for trials: what would come of a
// choice.
func (s *Snapshot) Emptied(every int) *Snapshot {
	every = max(1, every)
	e := &Snapshot{static: &static{byName: map[string]int{}, products: slices.Clone(s.static.products)}}
	for i := range e.static.products {
		e.static.products[i].gpus = 0
	}
	for i := 0; i < len(s.nodes); i += every {
		n := s.nodes[i]
		n.FreeCPUMilli, n.FreeMemoryBytes, n.FreePods, n.base = n.CPUMilli, n.MemoryBytes, n.Pods, base{}
		n.Held, n.memoryShares = [Sizes]uint16{}, 0
		n.first = int32(len(e.gpus))
		for j, g := range s.GPUs(i) {
			c := s.Cards(i)[j]
			g.FreeBytes, g.FreeMilli, g.Held = c.MemoryBytes, Whole, 0
			e.static.products[g.Product].gpus++
			e.static.cards = append(e.static.cards, c)
			e.gpus = append(e.gpus, g)
			e.open = append(e.open, 0)
		}
		e.static.byName[n.Name] = len(e.nodes)
		e.nodes = append(e.nodes, n)
		e.refresh(len(e.nodes) - 1)
	}
	return e
}
