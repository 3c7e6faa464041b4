package spec

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth.dev/berth/core/gpu"
)

// Count returns the number of nodes and of physical GPUs.
func (f Fleet) Count() (nodes, gpus int) {
	for _, n := range f.Nodes {
		gpus += len(n.GPUs)
	}
	return len(f.Nodes), gpus
}

// Summary is one line for people: nodes, GPUs, and the GPUs by product, the
// most numerous first, such as "3 nodes, 14 GPUs: 8×A100-40GB 4×V100-16GB 2×T4".
func (f Fleet) Summary() string {
	nodes, gpus := f.Count()
	by := map[string]int{}
	for _, n := range f.Nodes {
		for _, g := range n.GPUs {
			by[gpu.ShortName(g.Product)]++
		}
	}
	names := slices.SortedFunc(maps.Keys(by), func(a, b string) int {
		return cmp.Or(cmp.Compare(by[b], by[a]), cmp.Compare(a, b))
	})
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = fmt.Sprintf("%d×%s", by[name], name)
	}
	head := fmt.Sprintf("%s, %s", plural(nodes, "node"), plural(gpus, "GPU"))
	if len(parts) == 0 {
		return head
	}
	return head + ": " + strings.Join(parts, " ")
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
