package cost

import (
	"cmp"
	"slices"
	"time"

	"berth.dev/berth/core/usage"
)

// Lows is when the GPUs of pods did next to nothing, by UID of pods, in the order of time.
type Lows map[string][]usage.Low

// Idler is a pod that holds GPUs and does next to nothing with them.
type Idler struct {
	Pod           Pod
	Node, Product string
	Parts         int64 // of GPUs
	Since         time.Time
	Micros        int64  // what it has been charged since
	HourMicros    int64  // what an hour costs at the price of now
	Currency      string // "" is that no price is known
	Shared        bool   // other pods use the GPUs too, and do nothing either
}

// Idlers returns the pods that hold GPUs at a time and have done next to nothing with them for so long at least, those first that
// have cost the most since, and the longest. Facts are those from the hour in which the first began.
func Idlers(f *Facts, lows Lows, least time.Duration, now time.Time) []Idler {
	found := map[string]*Idler{}
	from := now
	for i := range f.Nodes {
		n := &f.Nodes[i]
		for _, h := range n.Holds {
			low := open(lows[h.Pod])
			if low == nil || !h.To.IsZero() || now.Sub(low.From) < least {
				continue
			}
			one := &Idler{Pod: f.Pods[h.Pod], Node: n.Name, Product: n.Product, Parts: h.Parts, Since: low.From, Shared: low.Shared}
			one.Pod.UID = h.Pod
			one.HourMicros, one.Currency = n.rate(h.Parts)
			found[h.Pod] = one
			if low.From.Before(from) {
				from = low.From
			}
		}
	}
	since := Lows{}
	for uid, one := range found {
		since[uid] = []usage.Low{{Pod: uid, From: one.Since}}
	}
	s := splitter{lows: since}
	for e := range Account(f, from, now) {
		if one := found[e.Pod.UID]; one != nil {
			_, micros := s.idle(e)
			one.Micros += micros
		}
	}
	out := make([]Idler, 0, len(found))
	for _, one := range found {
		out = append(out, *one)
	}
	slices.SortFunc(out, func(a, b Idler) int {
		return cmp.Or(cmp.Compare(b.Micros, a.Micros), a.Since.Compare(b.Since), cmp.Compare(a.Pod.Namespace, b.Pod.Namespace), cmp.Compare(a.Pod.Name, b.Pod.Name))
	})
	return out
}

// open returns the one that goes on; nil is none.
func open(lows []usage.Low) *usage.Low {
	if n := len(lows); n > 0 && lows[n-1].To.IsZero() {
		return &lows[n-1]
	}
	return nil
}

// rate is what parts of a node cost an hour, by its last price.
func (n *NodeFacts) rate(parts int64) (micros int64, currency string) {
	if len(n.Prices) == 0 || len(n.Ups) == 0 {
		return 0, ""
	}
	price, up := n.Prices[len(n.Prices)-1], n.Ups[len(n.Ups)-1]
	if price.Source == Unpriced || up.Parts <= 0 || parts > up.Parts {
		return 0, ""
	}
	return ShareOf(price.Micros, parts, up.Parts), price.Currency
}

// ShareOf returns what parts of a node cost an hour, in millionths, where the whole node costs micros and has so many
// parts; 0 if it has fewer.
func ShareOf(micros, parts, whole int64) int64 {
	if parts > whole {
		return 0
	}
	return usage.Divide(micros, []int64{parts, whole - parts})[0]
}

// splitter divides charges into those for the time in which a pod did next to nothing, and the others.
type splitter struct {
	lows  Lows
	grace time.Duration // for which a pod may do nothing each time before it counts
	node  *NodeFacts
	holds map[string][]usage.Hold // of the node, by UID of pods
}

// idle returns the parts of an entry that are for a time in which its pod did next to nothing.
func (s *splitter) idle(e *Entry) (partMillis, micros int64) {
	lows := s.lows[e.Pod.UID]
	if e.Line.Pod == "" || len(lows) == 0 {
		return 0, 0
	}
	var idle, held int64
	for _, h := range s.of(e) {
		from, to := latest(h.From, e.From), end(h.To, e.To)
		held += h.Parts * millis(from, to)
		for _, l := range lows {
			idle += h.Parts * millis(latest(from, l.From.Add(s.grace)), end(l.To, to))
		}
	}
	if held == 0 {
		return 0, 0
	}
	weights := []int64{min(idle, held), max(0, held-idle)}
	return usage.Divide(e.PartMillis, weights)[0], usage.Divide(e.Micros, weights)[0]
}

// of returns what the pod of an entry held of its node.
func (s *splitter) of(e *Entry) []usage.Hold {
	if s.node != e.Node {
		s.node, s.holds = e.Node, map[string][]usage.Hold{}
		for _, h := range e.Node.Holds {
			s.holds[h.Pod] = append(s.holds[h.Pod], h)
		}
	}
	return s.holds[e.Pod.UID]
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// end is the end of what ends at to, or goes on, within a time.
func end(to, until time.Time) time.Time {
	if to.IsZero() {
		return until
	}
	return earlier(to, until)
}

func millis(from, to time.Time) int64 { return max(0, to.Sub(from).Milliseconds()) }
