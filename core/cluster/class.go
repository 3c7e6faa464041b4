package cluster

import "slices"

// Verdict is what a class says of one node.
type Verdict struct {
	// Reason says why requests of the class may not use the node: a number that
	// the maker of the class gives a meaning. 0 is that they may.
	Reason uint8
	// Bonus is how much better the node is for them than its devices say, in
	// milli-GPUs; below 0 it is worse. Policies may leave it out.
	Bonus int32
}

// class is a set of requests that may use the same nodes.
type class struct {
	verdicts []Verdict // by node
	products Products
	counted  bool // products is right
}

func (c *class) clone() *class {
	out := *c
	out.verdicts = slices.Clone(c.verdicts)
	return &out
}

// SetClass says what the class of a number from 1 up allows: a verdict for each
// node, in their order. It panics if there are more or fewer; that is a bug in
// the caller. Requests of the number see the change at once, so give a class
// that says something else another number while some still ask.
func (s *Snapshot) SetClass(number uint32, verdicts []Verdict) {
	if len(verdicts) != len(s.nodes) || number == 0 {
		panic("cluster: a class is not 0 and has a verdict for every node")
	}
	if s.classes == nil {
		s.classes = map[uint32]*class{}
	}
	known := s.classes[number] != nil
	s.classes[number] = &class{verdicts: verdicts}
	s.lastID, s.lastClass = 0, nil
	if known {
		for i := range s.nodes {
			s.changed(i)
		}
	}
}

// SetVerdict changes what a class says of node i. A class that is not set stays
// so.
func (s *Snapshot) SetVerdict(number uint32, i int, v Verdict) {
	c := s.classes[number]
	if c == nil || c.verdicts[i] == v {
		return
	}
	c.verdicts[i], c.counted = v, false
	s.changed(i)
}

// DropClass forgets a class.
func (s *Snapshot) DropClass(number uint32) {
	delete(s.classes, number)
	s.lastID, s.lastClass = 0, nil
}

// Verdict returns what a class says of node i. Class 0, and one that is not set,
// allow every node.
func (s *Snapshot) Verdict(number uint32, i int) Verdict {
	if c := s.class(number); c != nil {
		return c.verdicts[i]
	}
	return Verdict{}
}

func (s *Snapshot) class(number uint32) *class {
	switch {
	case number == 0:
		return nil
	case number != s.lastID:
		s.lastID, s.lastClass = number, s.classes[number]
	}
	return s.lastClass
}

// ClassProducts returns the GPU products of the nodes that a class allows:
// NoProduct if they have none, and the empty set, which is any, if they have
// all that there are.
func (s *Snapshot) ClassProducts(number uint32) Products {
	c := s.class(number)
	switch {
	case c == nil:
		return 0
	case c.counted:
		return c.products
	}
	var all Products
	c.products, c.counted = 0, true
	for i := range s.nodes {
		all |= s.nodes[i].Products
		if c.verdicts[i].Reason == 0 {
			c.products |= s.nodes[i].Products
		}
	}
	switch c.products {
	case all:
		c.products = 0
	case 0:
		c.products = NoProduct
	default: // just these
	}
	return c.products
}
