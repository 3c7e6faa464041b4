package queues

import (
	"cmp"
	"math"
	"slices"

	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/cost"
)

// defaultWarnAt is spec.budget.warnAt if it is empty.
var defaultWarnAt = []int{50, 80, 100}

// Budgets returns the budgets of Queues, by queue. Each is also of the queues below its own.
func Budgets(all []*v1alpha1.Queue) (out []cost.Budget) {
	parent := map[string]string{}
	for _, q := range all {
		parent[q.Name] = q.Spec.Parent
	}
	for _, q := range all {
		b := q.Spec.Budget
		if b == nil || !(b.Amount > 0) || b.Amount > math.MaxInt64/1e7 {
			continue // the definition of Queue refuses it
		}
		one := cost.Budget{Queue: q.Name, Micros: max(1, int64(math.Round(b.Amount*1e6))), Currency: cmp.Or(b.Currency, cost.Dollar), WarnAt: defaultWarnAt}
		if len(b.WarnAt) > 0 {
			one.WarnAt = nil
			for _, at := range b.WarnAt {
				one.WarnAt = append(one.WarnAt, int(at))
			}
		}
		for _, other := range all {
			if below(other.Name, q.Name, parent) {
				one.Under = append(one.Under, other.Name)
			}
		}
		slices.Sort(one.Under)
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b cost.Budget) int { return cmp.Compare(a.Queue, b.Queue) })
	return out
}

// Holds reports whether a Queue holds new work as its budget is spent, by its status.
func Holds(q *v1alpha1.Queue) bool {
	return q.Spec.Budget != nil && q.Spec.Budget.HoldNewWork && q.Status.Budget != nil && q.Status.Budget.Percent >= 100
}

// below reports whether a queue is another, or is below it. Queues that are below themselves are below what is on their way.
func below(name, root string, parent map[string]string) bool {
	for steps := 0; name != "" && steps <= len(parent); steps++ {
		if name == root {
			return true
		}
		name = parent[name]
	}
	return false
}
