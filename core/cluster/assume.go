package cluster

import "fmt"

// undo is a record to put back: a node, or a GPU.
type undo struct {
	index int32
	isGPU bool
	gpu   GPU
	node  Node
	ends  []int64 // of the node
}

// Mark is a point to roll back to.
type Mark int

// Mark opens a trial: RollBack to it restores the Snapshot exactly, Keep makes
// the changes since final. Marks nest; close the last one first.
func (s *Snapshot) Mark() Mark {
	s.marks++
	return Mark(len(s.undo))
}

// RollBack undoes every change since m and closes it. The log of changes goes
// on: the nodes put back are logged as changed.
func (s *Snapshot) RollBack(m Mark) {
	for i := len(s.undo) - 1; i >= int(m); i-- {
		u := &s.undo[i]
		if u.isGPU {
			s.gpus[u.index] = u.gpu
		} else {
			s.nodes[u.index] = u.node
			if s.ends != nil {
				s.ends[u.index] = u.ends
			}
			s.changed(int(u.index))
		}
	}
	s.undo = s.undo[:m]
	s.marks--
}

// Keep closes m without undoing anything.
func (s *Snapshot) Keep(m Mark) {
	s.marks--
	if s.marks == 0 {
		s.undo = s.undo[:0]
	}
}

// remember notes node i and its GPU j as they are, if a mark is open.
func (s *Snapshot) remember(i int, gpus []Device) {
	if s.marks == 0 {
		return
	}
	n := s.nodes[i]
	s.undo = append(s.undo, undo{index: int32(i), node: n, ends: s.Ends(i)})
	for _, d := range gpus {
		if j := n.first + d.GPU; d.GPU >= 0 && d.GPU < n.count {
			s.undo = append(s.undo, undo{index: j, isGPU: true, gpu: s.gpus[j]})
		}
	}
}

// Assume counts p as placed. It refuses, and changes nothing, where p takes
// more than is free: of CPU, memory, a GPU, or a MIG slice.
func (s *Snapshot) Assume(p *Placement) error {
	if p.Node < 0 || p.Node >= len(s.nodes) {
		return fmt.Errorf("assume on node %d: there are %d", p.Node, len(s.nodes))
	}
	n := &s.nodes[p.Node]
	r := &p.Request
	switch {
	case r.CPUMilli > n.FreeCPUMilli:
		return fmt.Errorf("assume on node %s: %d milli-CPU asked, %d free", n.Name, r.CPUMilli, n.FreeCPUMilli)
	case r.MemoryBytes > n.FreeMemoryBytes:
		return fmt.Errorf("assume on node %s: %d bytes of memory asked, %d free", n.Name, r.MemoryBytes, n.FreeMemoryBytes)
	case n.FreePods <= 0:
		return fmt.Errorf("assume on node %s: it holds %d requests, and no more", n.Name, n.Pods)
	case len(p.Devices) != int(r.GPUs):
		return fmt.Errorf("assume on node %s: %d GPUs asked, %d given", n.Name, r.GPUs, len(p.Devices))
	}
	m := s.Mark()
	s.remember(p.Node, p.Devices)
	for k := range p.Devices {
		if err := s.take(n, &p.Devices[k]); err != nil {
			s.RollBack(m)
			return fmt.Errorf("assume on node %s: %w", n.Name, err)
		}
	}
	n.FreeCPUMilli -= r.CPUMilli
	n.FreeMemoryBytes -= r.MemoryBytes
	n.FreePods--
	n.Held[r.Size()]++
	if r.GPUs > 0 {
		s.begin(p.Node, p.Ends)
	}
	s.Keep(m)
	s.changed(p.Node)
	return nil
}

// Release gives back what Assume took for p. It refuses, and changes nothing,
// where p is not held. A MIG device stays cut, and free.
func (s *Snapshot) Release(p *Placement) error {
	if p.Node < 0 || p.Node >= len(s.nodes) {
		return fmt.Errorf("release on node %d: there are %d", p.Node, len(s.nodes))
	}
	n := &s.nodes[p.Node]
	r := &p.Request
	if n.FreeCPUMilli+r.CPUMilli > n.CPUMilli || n.FreeMemoryBytes+r.MemoryBytes > n.MemoryBytes || n.FreePods == n.Pods || n.Held[r.Size()] == 0 {
		return fmt.Errorf("release on node %s: more given back than is held", n.Name)
	}
	for k := range p.Devices {
		if !s.holds(n, &p.Devices[k]) {
			return fmt.Errorf("release on node %s: device of GPU %d is not held", n.Name, p.Devices[k].GPU)
		}
	}
	s.remember(p.Node, p.Devices)
	for k := range p.Devices {
		s.give(n, &p.Devices[k])
	}
	n.FreeCPUMilli += r.CPUMilli
	n.FreeMemoryBytes += r.MemoryBytes
	n.FreePods++
	n.Held[r.Size()]--
	if r.GPUs > 0 {
		s.end(p.Node, p.Ends)
	}
	s.changed(p.Node)
	return nil
}

// SetHealthy says whether GPU j of node i may be given out from now on. What
// is held of it stays held.
func (s *Snapshot) SetHealthy(i, j int, healthy bool) {
	s.remember(i, []Device{{GPU: int32(j)}})
	s.gpus[s.nodes[i].first+int32(j)].Healthy = healthy
	s.changed(i)
}
