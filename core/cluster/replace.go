package cluster

import (
	"fmt"
	"slices"
)

// SetBase says what is taken of node i beside all placements, in place of what
// was said before: what runs there and is not placed by the callers of this package.
// What is more than there is counts as all there is.
func (s *Snapshot) SetBase(i int, cpuMilli, memoryBytes int64, pods int32) {
	n := &s.nodes[i]
	b := base{
		max(0, min(cpuMilli, n.FreeCPUMilli+n.base.cpuMilli)),
		max(0, min(memoryBytes, n.FreeMemoryBytes+n.base.memoryBytes)),
		max(0, min(pods, n.FreePods+n.base.pods)),
	}
	if b == n.base {
		return
	}
	s.remember(i, nil)
	n.FreeCPUMilli += n.base.cpuMilli - b.cpuMilli
	n.FreeMemoryBytes += n.base.memoryBytes - b.memoryBytes
	n.FreePods += n.base.pods - b.pods
	n.base = b
	s.changed(i)
}

// Replace sets the sizes and GPUs of node i in place of those it has, with
// nothing held and nothing taken beside. It is for what changes while a node
// stays: its health, its sharing, its allocatable. A caller that knows of placements
// there assumes them again.
//
// It refuses, and changes nothing, another name, another number of GPUs, a
// product that no node had, and what New refuses: build a new Snapshot then.
// It panics while a mark is open; that is a bug in the caller.
func (s *Snapshot) Replace(i int, spec *Spec) error {
	if s.marks > 0 {
		panic("cluster: Replace inside a mark")
	}
	old := &s.nodes[i]
	switch {
	case spec.Name != old.Name:
		return fmt.Errorf("replace node %s: it cannot become %s", old.Name, spec.Name)
	case spec.CPUMilli < 0 || spec.MemoryBytes < 0:
		return fmt.Errorf("replace node %s: %d milli-CPU and %d bytes of memory: sizes must not be negative", old.Name, spec.CPUMilli, spec.MemoryBytes)
	case len(spec.GPUs) != int(old.count):
		return fmt.Errorf("replace node %s: %d GPUs in place of %d", old.Name, len(spec.GPUs), old.count)
	}
	node := Node{
		Name: spec.Name, CPUMilli: spec.CPUMilli, MemoryBytes: spec.MemoryBytes, FreeCPUMilli: spec.CPUMilli, FreeMemoryBytes: spec.MemoryBytes,
		Pods: limit(spec.Pods), FreePods: limit(spec.Pods), Shares: max(1, spec.Shares), SharesDo: spec.SharesDo, first: old.first, count: old.count,
	}
	cards, gpus := make([]Card, old.count), make([]GPU, old.count)
	for j := range spec.GPUs {
		g := &spec.GPUs[j]
		p := slices.IndexFunc(s.static.products, func(p product) bool { return p.name == g.Product })
		if p < 0 {
			return fmt.Errorf("replace node %s: GPU product %q: no node has it", old.Name, g.Product)
		}
		var err error
		if cards[j], gpus[j], err = s.record(&node, spec, g, p); err != nil {
			return fmt.Errorf("replace node %s: %w", old.Name, err)
		}
	}
	s.recard(old, cards, gpus)
	copy(s.gpus[old.first:], gpus)
	products := old.Products != node.Products
	*old = node
	if s.ends != nil {
		s.ends[i] = nil
	}
	for _, c := range s.classes {
		c.counted = c.counted && !products
	}
	s.changed(i)
	return nil
}

// recard puts cards in place of those of a node. Clones go on with the old ones.
func (s *Snapshot) recard(n *Node, cards []Card, gpus []GPU) {
	moved := false
	for j := range gpus {
		moved = moved || gpus[j].Product != s.gpus[n.first+int32(j)].Product
	}
	if !moved && slices.Equal(cards, s.static.cards[n.first:n.first+n.count]) {
		return
	}
	next := *s.static
	next.cards, next.products = slices.Clone(next.cards), slices.Clone(next.products)
	for j := range gpus {
		next.products[s.gpus[n.first+int32(j)].Product].gpus--
		next.products[gpus[j].Product].gpus++
	}
	copy(next.cards[n.first:], cards)
	s.static = &next
}
