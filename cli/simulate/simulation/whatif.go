package simulation

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gpu"
)

// What a node that is added has for each GPU where no node of the cluster has
// GPUs of that model.
const (
	addedCPUMilli    = 12_000
	addedMemoryBytes = 96 << 30
)

// Bounds of what can be added.
const (
	mostAddedNodes = 100_000
	mostNodeGPUs   = 127
)

// Add appends nodes as what says: "4xh100x8" is four nodes of eight H100. They
// get the CPU and memory that nodes of that model have for each GPU, else 12
// cores and 96 GiB. It gives the nodes and a sentence on what was added.
func Add(nodes []cluster.Spec, what string) ([]cluster.Spec, string, error) {
	count, rest, ok := strings.Cut(what, "x")
	at := strings.LastIndex(rest, "x")
	if !ok || at < 0 {
		return nil, "", fmt.Errorf("invalid --add %q: must be NODESxMODELxGPUS, such as 4xh100x8", what)
	}
	n, err1 := strconv.Atoi(count)
	gpus, err2 := strconv.Atoi(rest[at+1:])
	switch {
	case err1 != nil || n < 1 || n > mostAddedNodes:
		return nil, "", fmt.Errorf("invalid --add %q: %q nodes; must be from 1 to %d", what, count, mostAddedNodes)
	case err2 != nil || gpus < 1 || gpus > mostNodeGPUs:
		return nil, "", fmt.Errorf("invalid --add %q: %q GPUs per node; must be from 1 to %d", what, rest[at+1:], mostNodeGPUs)
	}
	one, err := nodeOf(nodes, rest[:at], gpus)
	if err != nil {
		return nil, "", fmt.Errorf("add %q: %w", what, err)
	}
	taken := map[string]bool{}
	for i := range nodes {
		taken[nodes[i].Name] = true
	}
	serial := 0
	for range n {
		for serial++; taken[addedName(rest[:at], serial)]; serial++ {
		}
		more := one
		more.Name = addedName(rest[:at], serial)
		more.GPUs = slices.Clone(one.GPUs)
		nodes = append(nodes, more)
	}
	return nodes, fmt.Sprintf("added %d nodes of %d %s, each with %.4g cores and %.4g GiB", n, gpus, one.GPUs[0].Product,
		float64(one.CPUMilli)/1000, float64(one.MemoryBytes)/(1<<30)), nil
}

func addedName(model string, serial int) string { return fmt.Sprintf("added-%s-%d", model, serial) }

// nodeOf makes a node like those of nodes that have model, else like a product
// of the catalog.
func nodeOf(nodes []cluster.Spec, model string, count int) (cluster.Spec, error) {
	like := -1
	for i := range nodes {
		if len(nodes[i].GPUs) > 0 && named(nodes[i].GPUs[0].Product, model) && (like < 0 || len(nodes[like].GPUs) != count && len(nodes[i].GPUs) == count) {
			like = i
		}
	}
	if like >= 0 {
		from := &nodes[like]
		have := int64(len(from.GPUs))
		out := cluster.Spec{CPUMilli: from.CPUMilli / have * int64(count), MemoryBytes: from.MemoryBytes / have * int64(count)}
		for i := range count {
			g := from.GPUs[0]
			g.Index, g.UUID, g.Healthy, g.Xid = i, "", true, 0
			g.MIG = slices.Clone(g.MIG)
			out.GPUs = append(out.GPUs, g)
		}
		return out, nil
	}
	var found []gpu.Product
	for _, p := range gpu.Products() {
		if named(p.Name, model) {
			found = append(found, p)
		}
	}
	if len(found) == 0 {
		if near := gpu.Nearest(model); near != "" {
			return cluster.Spec{}, fmt.Errorf("unknown GPU model %q; the nearest is %s", model, near)
		}
		return cluster.Spec{}, fmt.Errorf("unknown GPU model %q; use the name in the nodes' file, or a part of NVIDIA's name such as h100", model)
	}
	// Of several, the one on a baseboard with NVLink: it is what nodes of eight have.
	slices.SortStableFunc(found, func(a, b gpu.Product) int { return b.NVLinks - a.NVLinks })
	out := cluster.Spec{
		CPUMilli: addedCPUMilli * int64(count), MemoryBytes: addedMemoryBytes * int64(count), GPUs: gpu.New("added", found[0], count),
	}
	for i := range out.GPUs {
		out.GPUs[i].UUID = ""
	}
	return out, nil
}

// Cut puts every GPU of a model into MIG mode as what says. "a100=1g.5gb" cuts
// each into as many devices of that profile as it holds,
// "a100=3g.20gb,2g.10gb" into just these. A model whose name has the word given
// but which lacks a profile stays as it is, if another has them all.
func Cut(nodes []cluster.Spec, what string) (string, error) {
	model, list, ok := strings.Cut(what, "=")
	if !ok || model == "" || list == "" {
		return "", fmt.Errorf("invalid --cut %q: must be MODEL=PROFILE, such as a100=1g.5gb", what)
	}
	layouts, refused, changed := map[string][]gpu.MIGDevice{}, map[string]error{}, 0
	var first error
	for i := range nodes {
		for j := range nodes[i].GPUs {
			g := &nodes[i].GPUs[j]
			if !named(g.Product, model) {
				continue
			}
			if _, known := layouts[g.Product]; !known && refused[g.Product] == nil {
				layout, err := layoutOf(g.Product, strings.Split(list, ","))
				if err != nil {
					refused[g.Product] = err
					if first == nil {
						first = err
					}
				} else {
					layouts[g.Product] = layout
				}
			}
			if layout := layouts[g.Product]; layout != nil {
				g.MIGEnabled, g.MIG = true, slices.Clone(layout)
				changed++
			}
		}
	}
	switch {
	case changed > 0:
		return fmt.Sprintf("partitioned %d GPUs into %s", changed, list), nil
	case first != nil:
		return "", fmt.Errorf("cut %q: %w", what, first)
	}
	return "", fmt.Errorf("cut %q: %w", what, unknownHere(nodes, model))
}

// layoutOf places profiles on one GPU; a single one as often as it fits.
func layoutOf(product string, profiles []string) ([]gpu.MIGDevice, error) {
	p, ok := gpu.Find(product)
	if !ok {
		return nil, fmt.Errorf("%s has no known MIG profiles", product)
	}
	if f, ok := p.Profile(profiles[0]); ok && len(profiles) == 1 {
		profiles = slices.Repeat(profiles, max(1, min(f.Max, p.ComputeSlices/max(1, f.Slices))))
	}
	return gpu.Layout(p, profiles)
}

// Share divides every GPU of a model as what says: "t4=4" makes of each T4 four
// GPUs with a quarter of the memory each, as NVIDIA's device plugin offers its
// replicas. A pod that asks for one GPU then gets one of them, and a percentage
// counts each as a GPU.
func Share(nodes []cluster.Spec, what string) (string, error) {
	model, number, ok := strings.Cut(what, "=")
	n, err := strconv.Atoi(number)
	if !ok || model == "" || err != nil || n < 2 || n > 48 {
		return "", fmt.Errorf("invalid --share %q: must be MODEL=SHARES with 2 to 48 shares, such as t4=4", what)
	}
	changed := 0
	for i := range nodes {
		var out []gpu.GPU
		for _, g := range nodes[i].GPUs {
			if !named(g.Product, model) {
				out = append(out, g)
				continue
			}
			if g.MIGEnabled {
				return "", fmt.Errorf("share %q: GPU %d of node %s is partitioned with MIG; use either --share or --cut", what, g.Index, nodes[i].Name)
			}
			changed++
			g.MemoryBytes /= int64(n)
			for range n {
				g.Index = len(out)
				out = append(out, g)
			}
		}
		if len(out) > mostNodeGPUs {
			return "", fmt.Errorf("share %q: node %s would offer %d GPUs; at most %d are possible", what, nodes[i].Name, len(out), mostNodeGPUs)
		}
		nodes[i].GPUs = out
	}
	if changed == 0 {
		return "", fmt.Errorf("share %q: %w", what, unknownHere(nodes, model))
	}
	return fmt.Sprintf("shared %d GPUs by %d each; percentages count each share as a GPU", changed, n), nil
}

// named reports whether a product is meant by a word: by its whole name, or by
// whole parts of it. Case does not count: "h100" means "NVIDIA H100 80GB HBM3".
func named(product, word string) bool {
	if strings.EqualFold(product, word) {
		return true
	}
	split := func(s string) []string {
		return strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return strings.ContainsRune(" -_/", r) })
	}
	have, want := split(product), split(word)
	return len(want) > 0 && !slices.ContainsFunc(want, func(w string) bool { return !slices.Contains(have, w) })
}

// unknownHere says that no node has a model, and which there are.
func unknownHere(nodes []cluster.Spec, model string) error {
	var names []string
	for i := range nodes {
		for j := range nodes[i].GPUs {
			names = append(names, nodes[i].GPUs[j].Product)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if near := gpu.NearestWord(model, names); near != "" {
		return fmt.Errorf("no node has a %q; the nearest is %s", model, near)
	}
	if len(names) == 0 {
		return fmt.Errorf("no node has a GPU")
	}
	return fmt.Errorf("no node has a %q; they have %s", model, strings.Join(names, ", "))
}
