// Package cluster holds a Snapshot: the nodes, their GPUs and what is free of
// them at one moment. A Snapshot can be cloned, changed by assuming placements,
// and rolled back. It makes no choice: which node and which GPU is the business
// of package placement.
package cluster

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"berth.dev/berth/core/gpu"
)

// MaxProducts is the most GPU products in one Snapshot, and MaxNodes the most
// nodes.
const (
	MaxProducts = 63
	MaxNodes    = 1 << 20
)

// Snapshot is the nodes of a cluster at one moment. Nodes keep the order in
// which they were given, and are named by their position. It is not safe for
// concurrent use; Clone gives each user one of its own.
type Snapshot struct {
	nodes []Node
	gpus  []GPU
	open  []int16   // Open of all GPUs; apart from gpus because scoring reads nothing else
	ends  [][]int64 // Ends of each node; nil while none is known

	static *static // shared by clones

	classes   map[uint32]*class
	lastID    uint32 // the class asked for last, and its number
	lastClass *class

	undo   []undo // what to restore, while marks > 0
	marks  int
	log    []int32 // nodes changed, oldest first
	logged int64   // changes dropped from the front of log
}

// static is what no decision changes.
type static struct {
	cards    []Card
	products []product
	byName   map[string]int
}

// product is one GPU product of a Snapshot.
type product struct {
	name          string
	profiles      []gpu.Profile
	computeSlices int
	gpus          int
}

// New makes a Snapshot of nodes, with nothing held. It refuses a node without a
// name or with another's, negative sizes, more than 127 GPUs on a node, more
// than MaxProducts products or MaxNodes nodes, and MIG devices that are not of
// the GPU's profiles.
func New(nodes []Spec) (*Snapshot, error) {
	if len(nodes) > MaxNodes {
		return nil, fmt.Errorf("%d nodes: a snapshot holds %d at most", len(nodes), MaxNodes)
	}
	s := &Snapshot{static: &static{byName: map[string]int{}}, nodes: make([]Node, 0, len(nodes))}
	products := map[string]int{}
	for i := range nodes {
		n := &nodes[i]
		if _, dup := s.static.byName[n.Name]; dup || n.Name == "" {
			return nil, fmt.Errorf("node %d: its name %q is empty or taken; give each node a name of its own", i, n.Name)
		}
		s.static.byName[n.Name] = i
		if err := s.add(n, products); err != nil {
			return nil, fmt.Errorf("node %s: %w", n.Name, err)
		}
	}
	return s, nil
}

// add appends n; products numbers the products seen.
func (s *Snapshot) add(n *Spec, products map[string]int) error {
	if n.CPUMilli < 0 || n.MemoryBytes < 0 {
		return fmt.Errorf("%d milli-CPU and %d bytes of memory: sizes must not be negative", n.CPUMilli, n.MemoryBytes)
	}
	if len(n.GPUs) > 127 {
		return fmt.Errorf("%d GPUs: a node holds 127 at most", len(n.GPUs))
	}
	node := Node{
		Name: n.Name, CPUMilli: n.CPUMilli, MemoryBytes: n.MemoryBytes,
		FreeCPUMilli: n.CPUMilli, FreeMemoryBytes: n.MemoryBytes,
		Pods: limit(n.Pods), FreePods: limit(n.Pods), Shares: max(1, n.Shares), SharesDo: n.SharesDo,
		first: int32(len(s.gpus)), count: int32(len(n.GPUs)),
	}
	for i := range n.GPUs {
		g := &n.GPUs[i]
		p, ok := products[g.Product]
		if !ok {
			if p = len(products); p == MaxProducts {
				return fmt.Errorf("GPU product %q: a snapshot holds %d products at most", g.Product, MaxProducts)
			}
			products[g.Product] = p
			s.static.products = append(s.static.products, newProduct(g.Product, n.Profiles))
		}
		s.static.products[p].gpus++
		card, rec, err := s.record(&node, n, g, p)
		if err != nil {
			return err
		}
		s.static.cards = append(s.static.cards, card)
		s.gpus = append(s.gpus, rec)
		s.open = append(s.open, 0)
	}
	s.nodes = append(s.nodes, node)
	s.refresh(len(s.nodes) - 1)
	return nil
}

// record makes what is kept of GPU g of node n, whose product has number p, and
// counts it in node.
func (s *Snapshot) record(node *Node, n *Spec, g *gpu.GPU, p int) (Card, GPU, error) {
	node.Products |= 1 << p
	card := Card{
		UUID: g.UUID, Index: g.Index, MemoryBytes: max(g.MemoryBytes, 0),
		Clique: g.Clique, NUMANode: g.NUMANode, Recut: n.Recut,
	}
	rec := GPU{FreeBytes: card.MemoryBytes, FreeMilli: Whole, Product: uint8(p), Healthy: g.Healthy, MIG: g.MIGEnabled}
	if err := s.cut(&rec, g.MIG); err != nil {
		return card, rec, fmt.Errorf("GPU %d: %w", g.Index, err)
	}
	node.hasMIG = node.hasMIG || rec.MIG || card.Recut != RecutNever && len(s.static.products[p].profiles) > 0
	return card, rec, nil
}

// limit is a limit on requests held, where 0 is none.
func limit(pods int32) int32 {
	if pods <= 0 {
		return math.MaxInt32
	}
	return pods
}

// newProduct finds what is known of a product; unknown ones have profiles.
func newProduct(name string, profiles []gpu.Profile) product {
	p := product{name: name, profiles: profiles}
	if known, ok := gpu.Find(name); ok {
		p.profiles, p.computeSlices = known.Profiles, known.ComputeSlices
	}
	for _, f := range p.profiles {
		p.computeSlices = max(p.computeSlices, f.Slices)
	}
	return p
}

// Len is the number of nodes.
func (s *Snapshot) Len() int { return len(s.nodes) }

// Node returns node i. It is the Snapshot's own: read it, do not change it.
func (s *Snapshot) Node(i int) *Node { return &s.nodes[i] }

// Find returns the position of the node with the given name.
func (s *Snapshot) Find(name string) (int, bool) {
	i, ok := s.static.byName[name]
	return i, ok
}

// GPUs returns what is free of each GPU of node i, in the order of its Spec. It
// is the Snapshot's own: read it, do not change it.
func (s *Snapshot) GPUs(i int) []GPU {
	n := &s.nodes[i]
	return s.gpus[n.first : n.first+n.count : n.first+n.count]
}

// Cards returns what does not change about each GPU of node i. Read it only.
func (s *Snapshot) Cards(i int) []Card {
	n := &s.nodes[i]
	return s.static.cards[n.first : n.first+n.count : n.first+n.count]
}

// Open returns, for each GPU of node i, the milli-GPUs that whole requests and
// shares may take: 0 to 1000, where 1000 is an idle GPU. Unhealthy GPUs and
// those cut into MIG devices offer 0. Read it only.
func (s *Snapshot) Open(i int) []int16 {
	n := &s.nodes[i]
	return s.open[n.first : n.first+n.count : n.first+n.count]
}

// TotalGPUs is the number of GPUs of all nodes, healthy or not.
func (s *Snapshot) TotalGPUs() int { return len(s.gpus) }

// ProductNames returns the products of all GPUs, by number.
func (s *Snapshot) ProductNames() []string {
	names := make([]string, len(s.static.products))
	for i := range names {
		names[i] = s.static.products[i].name
	}
	return names
}

// ProductGPUs is the number of GPUs of the product with the given number.
func (s *Snapshot) ProductGPUs(product int) int { return s.static.products[product].gpus }

// Profiles returns the MIG profiles of the product with the given number.
func (s *Snapshot) Profiles(product int) []gpu.Profile { return s.static.products[product].profiles }

// ComputeSlices is how many compute slices the product with the given number
// has for MIG devices.
func (s *Snapshot) ComputeSlices(product int) int { return s.static.products[product].computeSlices }

// Products returns the set of the named products. The error names one that no
// node has.
func (s *Snapshot) Products(names ...string) (Products, error) {
	var set Products
	for _, name := range names {
		i := slices.IndexFunc(s.static.products, func(p product) bool { return p.name == name })
		if i < 0 {
			return 0, fmt.Errorf("GPU product %q: no node has it", name)
		}
		set |= 1 << i
	}
	return set, nil
}

// ProductsWith returns the products of which a GPU of some node has so many bytes of
// memory at least; NoProduct if there are none.
func (s *Snapshot) ProductsWith(memoryBytes int64) Products {
	var set Products
	for i := range s.Len() {
		for j, c := range s.Cards(i) {
			if c.MemoryBytes >= memoryBytes {
				set |= 1 << s.GPUs(i)[j].Product
			}
		}
	}
	if set == 0 {
		return NoProduct
	}
	return set
}

// Clone returns a copy that shares nothing that changes. Marks and the log of
// changes are not copied.
func (s *Snapshot) Clone() *Snapshot {
	classes := maps.Clone(s.classes)
	for number, c := range classes {
		classes[number] = c.clone()
	}
	return &Snapshot{
		nodes: slices.Clone(s.nodes), gpus: slices.Clone(s.gpus), open: slices.Clone(s.open), ends: slices.Clone(s.ends), static: s.static, classes: classes,
	}
}

// Equal reports whether s and t have the same nodes in the same state.
func (s *Snapshot) Equal(t *Snapshot) bool {
	for i := range s.nodes {
		if i < len(t.nodes) && !slices.Equal(s.Ends(i), t.Ends(i)) {
			return false
		}
	}
	return slices.Equal(s.nodes, t.nodes) && slices.Equal(s.gpus, t.gpus) &&
		slices.Equal(s.static.cards, t.static.cards) && slices.Equal(s.ProductNames(), t.ProductNames())
}

// FirstWithGPUs is the first node that has any, or -1.
func (s *Snapshot) FirstWithGPUs() int {
	for i := range s.nodes {
		if s.nodes[i].count > 0 {
			return i
		}
	}
	return -1
}
