package nvml

import "strings"

// maxLinks bounds the links of one GPU; there are 18 on Hopper and Blackwell.
const maxLinks = 36

// link finds which GPUs have NVLinks to one another, and numbers the cliques:
// GPUs joined by links, by switches or by one multi-node fabric, however many
// steps apart. Numbers follow the order of the GPUs, from 1; a GPU alone has 0.
func link(gpus []*card) {
	byBus := map[string]int{}
	for i, g := range gpus {
		byBus[busKey(g.facts.BusID)] = i
	}
	switched := make([]int, len(gpus)) // links to switches
	root := make([]int, len(gpus))
	for i := range root {
		root[i] = i
	}
	direct := make([]map[int]int, len(gpus))
	for i, g := range gpus {
		direct[i] = map[int]int{}
		if g.facts.Lost {
			continue
		}
		for n := range maxLinks {
			l, err := g.device.NVLink(n)
			if err != nil {
				break
			}
			if !l.Active {
				continue
			}
			if l.Switch {
				switched[i]++
			} else if j, ok := byBus[busKey(l.Remote)]; ok && j != i {
				direct[i][j]++
				join(root, i, j)
			}
		}
	}
	for i, a := range gpus {
		for j, b := range gpus[:i] {
			n := direct[i][j] + min(switched[i], switched[j])
			fabric := a.facts.Fabric != "" && a.facts.Fabric == b.facts.Fabric
			if n > 0 {
				a.facts.link(b.facts.UUID, n)
				b.facts.link(a.facts.UUID, n)
			}
			if n > 0 || fabric {
				join(root, i, j)
			}
		}
	}
	number(gpus, root)
}

// link notes n links to a GPU.
func (g *GPU) link(uuid string, n int) {
	if g.Links == nil {
		g.Links = map[string]int{}
	}
	g.Links[uuid] = n
}

// number gives the cliques of more than one GPU their numbers.
func number(gpus []*card, root []int) {
	size := map[int]int{}
	for i := range gpus {
		size[top(root, i)]++
	}
	cliques := map[int]int{}
	for i, g := range gpus {
		r := top(root, i)
		g.facts.Clique = 0
		if size[r] < 2 {
			continue
		}
		if cliques[r] == 0 {
			cliques[r] = len(cliques) + 1
		}
		g.facts.Clique = cliques[r]
	}
}

// top and join are a union-find without ranks: there are at most 256 GPUs.
func top(root []int, i int) int {
	for root[i] != i {
		i = root[i]
	}
	return i
}

func join(root []int, i, j int) { root[top(root, i)] = top(root, j) }

// busKey makes PCI addresses comparable: NVML writes domains of four or eight
// digits, in either case.
func busKey(id string) string {
	id = strings.ToLower(id)
	if domain, rest, ok := strings.Cut(id, ":"); ok {
		id = strings.TrimLeft(domain, "0") + ":" + rest
	}
	return id
}
