package preemption

import (
	"container/heap"

	"berth.dev/berth/core/cluster"
)

// queue keeps the nodes by what a place for one request costs there: a bound at
// first, and what it really costs as soon as that may be the least.
type queue struct {
	t         *attempt
	r         *cluster.Request
	candidate candidate
	entries   entries
	version   []int // by node: counts its changes
	verdicts  []verdict
	cursor    int // of attempt.touched
}

// entry is one node in a queue.
type entry struct {
	node    int
	cost    Cost
	exact   bool  // cost is that of picks, else a bound
	picks   []int // to be picked in order
	version int   // of the node, when cost was found
	epoch   int   // of the attempt, then
}

// queue returns the queue of r, up to date.
func (t *attempt) queue(r *cluster.Request) *queue {
	q := t.queues[*r]
	if q == nil {
		q = t.queueOf(r)
		t.queues[*r] = q
	}
	for ; q.cursor < len(t.touched); q.cursor++ {
		i := t.touched[q.cursor]
		q.version[i]++
		if at := len(q.entries); q.bound(i) {
			heap.Fix(&q.entries, at)
		}
	}
	return q
}

// queueOf returns a queue of r that is made now.
func (t *attempt) queueOf(r *cluster.Request) *queue {
	n := t.s.Len()
	q := &queue{t: t, r: r, version: make([]int, n), verdicts: make([]verdict, n), entries: make(entries, 0, n), cursor: len(t.touched)}
	for i := range n {
		q.bound(i)
	}
	heap.Init(&q.entries)
	return q
}

// bound appends node i by its bound, out of order, and says whether it did.
func (q *queue) bound(i int) bool {
	cost, v := q.t.bound(&q.candidate, i, q.r)
	if q.verdicts[i] = v; v != possible {
		return false
	}
	q.entries = append(q.entries, entry{node: i, cost: cost, version: q.version[i]})
	return true
}

// cheapest gives the node where r costs least, and which pods to pick there. It does
// not evict for a request unless told to.
func (q *queue) cheapest(evict bool) (node int, picks []int, ok bool) {
	t := q.t
	for len(q.entries) > 0 {
		e := q.entries[0]
		switch {
		case e.version != q.version[e.node]:
			heap.Pop(&q.entries)
		case e.cost == Cost{} && t.allows(e.node):
			return e.node, nil, true
		case !evict:
			return 0, nil, false
		case e.exact && (e.epoch == t.epoch || !t.tied(e.picks)):
			return e.node, e.picks, true
		default:
			heap.Pop(&q.entries)
			q.candidate.node, q.candidate.r = e.node, q.r
			if s, fits := t.search(&q.candidate, e.cost, never); s.found {
				heap.Push(&q.entries, entry{node: e.node, cost: s.best, exact: true, picks: s.picks, version: e.version, epoch: t.epoch})
			} else if q.verdicts[e.node] = protected; !fits {
				q.verdicts[e.node] = tooSmall
			}
		}
	}
	return 0, nil, false
}

// tied reports whether one of picks has a gang or a budget, so that its cost depends
// on victims elsewhere.
func (t *attempt) tied(picks []int) bool {
	for _, n := range picks {
		if h := t.holder(n); h.Gang != "" || len(h.Budgets) > 0 {
			return true
		}
	}
	return false
}

// refusal counts the verdicts.
func (q *queue) refusal() Refusal {
	var out Refusal
	for _, v := range q.verdicts {
		switch v {
		case closed:
			out.Closed++
		case noVictims:
			out.NoVictims++
		case tooSmall:
			out.TooSmall++
		default: // a place that another member has taken, too
			out.Protected++
		}
		out.Nodes++
	}
	return out
}

// entries is a heap: the cheapest first, of equals one whose cost is exact, then
// by node.
type entries []entry

// Len implements heap.Interface.
func (e entries) Len() int { return len(e) }

// Less implements heap.Interface.
func (e entries) Less(i, j int) bool {
	if c := e[i].cost.Compare(e[j].cost); c != 0 {
		return c < 0
	}
	if e[i].node != e[j].node {
		return e[i].node < e[j].node
	}
	return e[i].exact && !e[j].exact
}

// Swap implements heap.Interface.
func (e entries) Swap(i, j int) { e[i], e[j] = e[j], e[i] }

// Push implements heap.Interface.
func (e *entries) Push(x any) { *e = append(*e, x.(entry)) }

// Pop implements heap.Interface.
func (e *entries) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	*e = (*e)[:last]
	return x
}
