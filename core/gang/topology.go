package gang

// Place is where a node is. An empty name is not known: the node then shares no
// domain of that level with any other.
type Place struct {
	Fabric string // NVLink fabric over several nodes
	Rack   string // unique in its zone
	Zone   string
}

// Topology is which nodes of a Snapshot share a fabric, a rack and a zone.
type Topology struct {
	domains [levels][][]int32 // nodes of each domain, both in the order of the nodes
	of      [levels][]int32   // the domain of each node; -1 is none
}

// NewTopology makes the Topology of nodes that are at places, in the order of
// the Snapshot.
func NewTopology(places []Place) *Topology {
	t := &Topology{}
	for l, name := range map[Level]func(p *Place) string{
		Fabric: func(p *Place) string { return p.Fabric },
		Rack: func(p *Place) string {
			if p.Rack == "" {
				return ""
			}
			return p.Zone + "\x00" + p.Rack
		},
		Zone: func(p *Place) string { return p.Zone },
	} {
		known := map[string]int32{}
		t.of[l] = make([]int32, len(places))
		for i := range places {
			key := name(&places[i])
			if key == "" {
				t.of[l][i] = -1
				continue
			}
			d, ok := known[key]
			if !ok {
				d = int32(len(known))
				known[key] = d
				t.domains[l] = append(t.domains[l], nil)
			}
			t.of[l][i] = d
			t.domains[l][d] = append(t.domains[l][d], int32(i))
		}
	}
	return t
}

// at gives the domain of node i at level l, or -1.
func (t *Topology) at(l Level, i int) int32 {
	if t == nil || i < 0 || i >= len(t.of[l]) {
		return -1
	}
	return t.of[l][i]
}

// nodes gives the nodes of each domain of level l.
func (t *Topology) nodes(l Level) [][]int32 {
	if t == nil {
		return nil
	}
	return t.domains[l]
}

// Domains returns the nodes of each domain of a level from Node up, both in the order of
// the nodes. A node that is in none is left out.
func (t *Topology) Domains(l Level, nodes int) [][]int32 {
	if l > Node && l < Cluster {
		return t.nodes(l)
	}
	var out [][]int32
	for i := range nodes {
		if l == Node || i == 0 {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], int32(i))
	}
	return out
}

// Share says whether nodes i and j are of one domain of level l. A node shares
// every level with itself.
func (t *Topology) Share(l Level, i, j int) bool {
	if i == j || l >= Cluster {
		return true
	}
	return l > Node && t.at(l, i) >= 0 && t.at(l, i) == t.at(l, j)
}
