package quota

import (
	"slices"
	"strconv"
	"strings"

	"berth.dev/berth/core/cost"
)

// Kind is what tells GPUs apart that quotas count.
type Kind struct {
	Product string // as its label has it; "" is not known
	// Labels are those labels of the GPU's node that resources name, as "a=b,c=d", sorted.
	Labels string
}

// Is reports whether GPUs of the kind count as a resource: a product, or GPUs of nodes with a label.
func (k Kind) Is(r Resource) bool {
	return k.Product != "" && string(r) == k.Product || labeled(k.Labels, string(r))
}

// labeled reports whether labels, as in Kind, have one.
func labeled(labels, one string) bool {
	for rest := labels; rest != ""; {
		var label string
		if label, rest, _ = strings.Cut(rest, ","); label == one {
			return true
		}
	}
	return false
}

// Label returns the node label that a resource names, as "workload=training"; "" is none.
func (r Resource) Label() string {
	if strings.Contains(string(r), "=") {
		return string(r)
	}
	return ""
}

// anyKind is the step of a workload of which it is not known what it may use.
var anyKind = [][]Kind{{{}}}

// steps returns the kinds that a workload of queue i may use, of those that matter to the tree, in
// the order in which the queue prefers them. Kinds of one step are equally good.
func (t *Tree) steps(w *Workload, i int) [][]Kind {
	prefer := t.prefers(i)
	switch {
	case len(w.Kinds) == 0:
		return anyKind
	case len(prefer) == 0 && !t.byKind():
		return [][]Kind{w.Kinds[:1]}
	case len(prefer) == 0:
		return [][]Kind{w.Kinds}
	}
	out := make([][]Kind, len(prefer)+1)
	for _, k := range w.Kinds {
		at := slices.IndexFunc(prefer, k.Is)
		if at < 0 {
			at = len(prefer)
		}
		out[at] = append(out[at], k)
	}
	return slices.DeleteFunc(out, func(kinds []Kind) bool { return len(kinds) == 0 })
}

// stepsOf are the steps of a workload; all is that they have all kinds that it may use. One more pod of a
// gang gets what the gang has, as far as that is known.
func (b *Book) stepsOf(w *Workload, i int) (steps [][]Kind, all bool) {
	steps = b.tree.steps(w, i)
	if w.Joins == "" || len(steps) < 2 {
		return steps, true
	}
	has := map[Kind]bool{}
	for _, h := range b.holders {
		if h.Workload == w.Joins {
			for _, p := range h.Pieces {
				has[Kind{p.Product, p.Labels}] = true
			}
		}
	}
	of := slices.DeleteFunc(slices.Clone(steps), func(step []Kind) bool {
		return !slices.ContainsFunc(step, func(k Kind) bool { return has[k] })
	})
	if len(of) == 0 {
		return steps, true
	}
	return of, len(of) == len(steps)
}

// prefers is the order of preference of queue i: its own, else that of the nearest above it; nil
// is none.
func (t *Tree) prefers(i int) []Resource {
	for ; i >= 0; i = t.parent[i] {
		if p := t.specs[i].Prefers; len(p) > 0 {
			return p
		}
	}
	return nil
}

// byKind reports whether what counts of a pod depends on the kind of its GPUs.
func (t *Tree) byKind() bool {
	return slices.ContainsFunc(t.resources, func(r Resource) bool { return r != GPUs && r.Profile() == "" })
}

// Alternatives returns the kinds that a workload may use, in the order in which its queue prefers them. Kinds
// of one count the same, so what is to be evicted for the workload can be looked for way by
// way. It is nil where all count the same.
func (b *Book) Alternatives(w *Workload) (ways [][]Kind) {
	i, ok := b.tree.ask[w.Queue]
	if !ok || len(w.Kinds) == 0 {
		return nil
	}
	steps, all := b.stepsOf(w, i)
	for _, step := range steps {
		at := map[string]int{}
		for _, k := range step {
			key := b.tree.counts(k)
			if _, had := at[key]; !had {
				at[key] = len(ways)
				ways = append(ways, nil)
			}
			ways[at[key]] = append(ways[at[key]], k)
		}
	}
	if all && len(ways) == 1 {
		return nil
	}
	return ways
}

// counts is equal for kinds that count the same.
func (t *Tree) counts(k Kind) string {
	var b strings.Builder
	for _, r := range t.resources {
		switch {
		case k.Is(r):
			b.WriteByte('+')
		case r == Equivalents && k.Product != "":
			b.WriteString(strconv.FormatInt(cost.Weight(k.Product), 10))
		}
		b.WriteByte(',')
	}
	return b.String()
}

// needs is what a workload needs at least, of each kind that it may use; kinds that count the same are
// one.
func (b *Book) needs(w *Workload) []need {
	kinds := w.Kinds
	switch {
	case len(kinds) == 0:
		kinds = anyKind[0]
	case !b.tree.byKind():
		kinds = kinds[:1]
	}
	out := make([]need, 0, len(kinds))
	for _, k := range kinds {
		number := b.number(k)
		if !slices.ContainsFunc(out, func(n need) bool { return n.kind == number }) {
			out = append(out, need{number, b.needed(w, k)})
		}
	}
	return out
}

// number is equal for kinds that count the same.
func (b *Book) number(k Kind) int {
	n, known := b.kinds[k]
	if known {
		return n
	}
	key := b.tree.counts(k)
	if n, known = b.counted[key]; !known {
		n = len(b.least)
		b.counted[key] = n
		b.least = append(b.least, slices.Repeat([]int64{Unlimited}, len(b.use)))
	}
	b.kinds[k] = n
	return n
}
