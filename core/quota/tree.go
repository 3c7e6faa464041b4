package quota

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth.dev/berth/core/sharing"
)

// Tree is the queues of a cluster with what each may hold. It does not change.
//
// Every queue has a pool for each resource: its nominal quota, or where it states none
// the sum of those of its children, less what queues below it keep for themselves (their
// pools beyond their lending limits). What a queue holds beyond what it keeps for itself
// comes from the pool of its parent.
type Tree struct {
	specs     []Spec // parents before their children, siblings by name
	index     map[string]int
	parent    []int // -1 is none
	children  [][]int
	root      []int // of each queue
	resources []Resource
	problems  []Problem
	fatal     []bool
	// own is set for the part of a queue with children that serves its own pods: a child
	// with what the other children leave of its nominal quota.
	own []bool
	ask map[string]int // where the pods of a queue count

	// Of queue i and resource r at i*len(resources)+r.
	total  []int64 // nominal
	kept   []int64 // that others cannot borrow
	pool   []int64
	borrow []int64
	limits []bool // some queue of its tree states the resource
	keeps  []bool // some queue below it keeps quota that others cannot borrow

	profiles []string // of each resource, the MIG profile that it counts

	ways []sharing.Ways // of each queue, those that it and all above it allow
}

// NewTree returns the Tree of queues. One whose parent does not exist, or that is its own
// ancestor, is a root that admits nothing; Problems says so.
func NewTree(specs []Spec) *Tree {
	t := &Tree{index: map[string]int{}, ask: map[string]int{}}
	byName := map[string]Spec{}
	for _, s := range slices.SortedFunc(slices.Values(specs), func(a, b Spec) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), a.Created.Compare(b.Created))
	}) {
		if _, twice := byName[s.Name]; !twice {
			byName[s.Name] = s
		}
	}
	t.plant(byName)
	seen := map[Resource]bool{}
	for i := range t.specs {
		for _, q := range t.specs[i].Quotas {
			seen[q.Resource] = true
		}
		for _, l := range slices.Concat(t.specs[i].PerUser, t.specs[i].PerPod) {
			seen[l.Resource] = true
		}
	}
	t.resources = slices.Sorted(maps.Keys(seen))
	for _, r := range t.resources {
		t.profiles = append(t.profiles, r.Profile())
	}
	t.number()
	t.narrow()
	return t
}

// plant puts the queues in order, parents first.
func (t *Tree) plant(byName map[string]Spec) {
	below, cut := map[string][]string{}, map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		parent := byName[name].Parent
		switch _, there := byName[parent]; {
		case parent == "":
		case !there:
			t.wrong(name, "spec.parent", fmt.Sprintf("there is no Queue %q", parent))
			cut[name] = true
		case cyclic(byName, name):
			t.wrong(name, "spec.parent", fmt.Sprintf("the queue would be its own ancestor: %s", circle(byName, name)))
			cut[name] = true
		}
		if parent == "" || cut[name] {
			below[""] = append(below[""], name)
		} else {
			below[parent] = append(below[parent], name)
		}
	}
	var enter func(name string, parent int)
	enter = func(name string, parent int) {
		i := t.node(byName[name], parent, cut[name])
		t.index[name], t.ask[name] = i, i
		if len(below[name]) > 0 {
			s := byName[name]
			rest := Spec{Name: name, Ceiling: s.Ceiling, FairUsers: s.FairUsers, MinRunTime: s.MinRunTime, HalfLife: s.HalfLife}
			t.ask[name] = t.node(rest, i, false)
			t.own[t.ask[name]] = true
		}
		for _, child := range below[name] {
			enter(child, i)
		}
	}
	for _, name := range below[""] {
		enter(name, -1)
	}
}

// node adds a queue, and returns its position.
func (t *Tree) node(s Spec, parent int, fatal bool) int {
	i, root := len(t.specs), len(t.specs)
	if parent >= 0 {
		root, fatal = t.root[parent], fatal || t.fatal[parent]
		t.children[parent] = append(t.children[parent], i)
	}
	t.specs, t.parent, t.root = append(t.specs, s), append(t.parent, parent), append(t.root, root)
	t.children, t.fatal, t.own = append(t.children, nil), append(t.fatal, fatal), append(t.own, false)
	return i
}

// whole is the queue that i is the own part of, or i.
func (t *Tree) whole(i int) int {
	if t.own[i] {
		return t.parent[i]
	}
	return i
}

// cyclic reports whether a queue is its own ancestor.
func cyclic(byName map[string]Spec, name string) bool {
	at := byName[name].Parent
	for range byName {
		if at == name {
			return true
		}
		if at = byName[at].Parent; at == "" {
			return false
		}
	}
	return false
}

// circle writes the queues of a cycle, as "a, b, a".
func circle(byName map[string]Spec, name string) string {
	names := []string{name}
	for at := byName[name].Parent; ; at = byName[at].Parent {
		names = append(names, at)
		if at == name || at == "" {
			return strings.Join(names, ", ")
		}
	}
}

func (t *Tree) wrong(queue, field, text string) {
	t.problems = append(t.problems, Problem{Queue: queue, Field: field, Text: text, Fatal: true})
}

// number works out the amounts of every queue, children before parents.
func (t *Tree) number() {
	n := len(t.resources)
	size := len(t.specs) * n
	t.total, t.kept, t.pool, t.borrow = make([]int64, size), make([]int64, size), make([]int64, size), make([]int64, size)
	t.limits, t.keeps = make([]bool, size), make([]bool, size)
	stated, lend := make([]bool, size), make([]int64, size)
	for i := range t.specs {
		for r := range n {
			t.borrow[i*n+r], lend[i*n+r] = Unlimited, Unlimited
		}
		for k, q := range t.specs[i].Quotas {
			at := i*n + t.resource(q.Resource)
			field := fmt.Sprintf("spec.quotas[%d]", k)
			if stated[at] {
				t.wrong(t.specs[i].Name, field, fmt.Sprintf("%s is stated twice; the first counts", q.Resource))
				continue
			}
			stated[at] = true
			if q.Nominal < 0 || q.Borrowing < 0 || q.Lending < 0 {
				t.wrong(t.specs[i].Name, field, "an amount is negative")
				t.fatal[i] = true
			}
			t.total[at], t.borrow[at], lend[at] = max(0, q.Nominal), max(0, q.Borrowing), max(0, q.Lending)
			t.limits[t.root[i]*n+at-i*n] = true
		}
	}
	for i := range slices.Backward(t.specs) {
		for r := range n {
			t.sum(i, r, stated[i*n+r], lend)
		}
	}
	for i := range t.specs {
		for r := range n {
			t.limits[i*n+r] = t.limits[t.root[i]*n+r]
		}
	}
}

// sum works out one amount of a queue whose children are done.
func (t *Tree) sum(i, r int, stated bool, lend []int64) {
	n := len(t.resources)
	at, children, kept := i*n+r, int64(0), int64(0) // kept: by queues below, however far
	for _, c := range t.children[i] {
		p := c*n + r
		children, kept = add(children, t.total[p]), add(kept, t.total[p]-t.pool[p]+t.kept[p])
		t.keeps[at] = t.keeps[at] || t.keeps[p] || t.kept[p] > 0
	}
	switch {
	case !stated:
		t.total[at] = children
	case len(t.children[i]) > 0 && children <= t.total[at]:
		rest := t.children[i][0]*n + r
		t.total[rest], t.pool[rest] = t.total[at]-children, t.total[at]-children
	case children > t.total[at]:
		t.problems = append(t.problems, Problem{
			Queue: t.specs[i].Name, Field: "spec.quotas",
			Text: fmt.Sprintf("the queues below have a nominal quota of %s %s together, more than the %s of this one", Text(children), t.resources[r], Text(t.total[at])),
		})
	}
	t.pool[at] = max(0, t.total[at]-kept)
	t.kept[at] = max(0, t.pool[at]-lend[at])
}

// resource returns the position of a resource.
func (t *Tree) resource(r Resource) int {
	i, _ := slices.BinarySearch(t.resources, r)
	return i
}

// Problems lists what is wrong with the queues, by name.
func (t *Tree) Problems() []Problem {
	out := slices.Clone(t.problems)
	slices.SortStableFunc(out, func(a, b Problem) int { return cmp.Compare(a.Queue, b.Queue) })
	return out
}

// Len returns how many queues there are.
func (t *Tree) Len() int { return len(t.index) }

// Spec returns a queue by name.
func (t *Tree) Spec(name string) (Spec, bool) {
	i, ok := t.index[name]
	if !ok {
		return Spec{}, false
	}
	return t.specs[i], true
}

// Adds reports whether t has a queue that another tree has not.
func (t *Tree) Adds(to *Tree) bool {
	return slices.ContainsFunc(t.Names(), func(name string) bool {
		i, there := to.index[name]
		return !there || to.own[i]
	})
}

// Names returns the queues, parents before their children and siblings by name.
func (t *Tree) Names() []string {
	out := make([]string, 0, len(t.index))
	for i := range t.specs {
		if !t.own[i] {
			out = append(out, t.specs[i].Name)
		}
	}
	return out
}

// Resources returns the resources that some queue states, sorted.
func (t *Tree) Resources() []Resource { return slices.Clone(t.resources) }

// Path returns a queue and its ancestors, the root last; nil where there is no such queue.
func (t *Tree) Path(name string) []string {
	var out []string
	i, ok := t.index[name]
	for ; ok && i >= 0; i = t.parent[i] {
		out = append(out, t.specs[i].Name)
	}
	return out
}
