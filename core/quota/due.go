package quota

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Rule is how long workloads of a queue, and of those below it, run.
type Rule struct {
	Drain bool          // none runs: it is evicted
	Most  time.Duration // each runs so long at most; 0 is unlimited
}

// Ending is a workload that is to be evicted, whole, for a rule of a queue.
type Ending struct {
	Workload string
	Pods     []string // sorted; those that end anyway are not among them
	Queue    string   // whose rule it is
	Drain    bool     // the queue is drained; else the workload has run for Most
	Most     time.Duration
	Began    time.Time // when its first pod began to run
	At       time.Time // when it is evicted; zero for Drain, which is at once
}

// The warning before the end of a run time: a tenth of the time, at most ten minutes.
const (
	warnPart = 10
	warnMost = 10 * time.Minute
)

// Endings returns the workloads that are to be evicted now by the rules of their queues or of one
// above, and those that are to be warned that they will be, both by workload. next is when
// something else is due; zero is never, without a change.
//
// Of several rules the one that ends the workload first applies. A workload runs from the start of
// the first of its pods that it still has.
func Endings(now time.Time, t *Tree, holders []Holder, rules map[string]Rule) (evict, warn []Ending, next time.Time) {
	works := map[string][]Holder{}
	for _, h := range holders {
		if !h.Leaving {
			works[h.Workload] = append(works[h.Workload], h)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(works)) {
		e, ok := ending(t, works[id], rules)
		if !ok {
			continue
		}
		before := min(e.Most/warnPart, warnMost)
		switch {
		case e.Drain || !now.Before(e.At):
			evict = append(evict, e)
		case !now.Before(e.At.Add(-before)):
			warn = append(warn, e)
			next = Sooner(next, e.At)
		default:
			next = Sooner(next, e.At.Add(-before))
		}
	}
	return evict, warn, next
}

// ending is when a workload ends, of which these are the pods; ok is false if it does not.
func ending(t *Tree, pods []Holder, rules map[string]Rule) (out Ending, ok bool) {
	slices.SortFunc(pods, func(a, b Holder) int { return cmp.Compare(a.ID, b.ID) })
	e := Ending{Workload: pods[0].Workload}
	for _, h := range pods {
		e.Pods, e.Began = append(e.Pods, h.ID), Sooner(e.Began, h.Start)
	}
	path := t.Path(pods[0].Queue)
	if i := slices.IndexFunc(path, func(name string) bool { return rules[name].Drain }); i >= 0 {
		e.Queue, e.Drain = path[i], true
		return e, true
	}
	if e.Most, e.Queue = MostRunTime(t, pods[0].Queue, rules); e.Most == 0 || e.Began.IsZero() {
		return e, false
	}
	e.At = e.Began.Add(e.Most)
	return e, true
}

// MostRunTime returns how long workloads of a queue run at most, by its rule or by one of a queue above it, and whose rule
// that is; 0 is unlimited.
func MostRunTime(t *Tree, queue string, rules map[string]Rule) (most time.Duration, of string) {
	for _, name := range t.Path(queue) {
		if rule := rules[name]; rule.Most > 0 && (most == 0 || rule.Most < most) {
			most, of = rule.Most, name
		}
	}
	return most, of
}
