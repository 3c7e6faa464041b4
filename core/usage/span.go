package usage

import (
	"cmp"
	"slices"
	"time"
)

// Up is a time for which a node was there with so many GPUs.
type Up struct {
	Parts    int64     // of all its GPUs; at least 0
	From, To time.Time // To is zero while it goes on
}

// Hold is parts of a node's GPUs that a pod holds for a time: from when it is bound until it has ended.
type Hold struct {
	Pod      string // its UID
	Parts    int64
	From, To time.Time // To is zero while it goes on
}

// Strand is parts of a node's GPUs that no pod can get for a time.
type Strand struct {
	Reason   Reason
	Parts    int64
	From, To time.Time // To is zero while it goes on
}

// Reason is why GPUs are stranded.
type Reason string

// The reasons, in the order in which parts that several give are counted.
const (
	Cordoned  Reason = "cordoned"  // the node takes no new pods
	Unhealthy Reason = "unhealthy" // the GPU takes none
	Remainder Reason = "remainder" // no MIG device fits into what others leave of its GPU
	NoCPU     Reason = "no-cpu"    // the node has not enough CPU left for the smallest pod
	NoMemory  Reason = "no-memory" // nor memory
)

var reasons = []Reason{Cordoned, Unhealthy, Remainder, NoCPU, NoMemory}

// Text is a reason for people.
func (r Reason) Text() string {
	switch r {
	case NoCPU:
		return "no CPU"
	case NoMemory:
		return "no memory"
	case Cordoned, Unhealthy, Remainder:
	}
	return string(r)
}

// Reasons returns all of them, in that order.
func Reasons() []Reason { return slices.Clone(reasons) }

// Line is what becomes of parts of a node's GPUs in a span: a pod holds them, or they are stranded for a reason, or,
// if both are empty, idle.
type Line struct {
	Pod    string
	Reason Reason
}

// Idle is the Line of parts without a holder that a pod could get.
var Idle = Line{}

// Share is the parts of a Line.
type Share struct {
	Line
	Parts int64
}

// Span is a time in which nothing changes on a node. Its Shares are in the order of their Lines, none is 0, and they
// add up to what the node has.
type Span struct {
	From, To time.Time
	Shares   []Share
	// Over is how many parts pods held beyond what the node has, as where the end of a pod is only known late. Their
	// parts are lowered in proportion.
	Over int64
}

// Spans cuts the time of a node into spans, up to a time. Holds and Strands only count while the node is up. Times are taken as they are given: a Hold or Strand that ends before it begins counts as none.
func Spans(up Up, holds []Hold, strands []Strand, until time.Time) (out []Span) {
	end := endOf(up.To, until)
	if !up.From.Before(end) || up.Parts <= 0 {
		return nil
	}
	s := sweep{up: up, pods: map[string]int64{}, strands: map[Reason]int64{}}
	for i := range holds {
		h := &holds[i]
		s.add(h.From, endOf(h.To, end), func(sign int64) { s.hold(h.Pod, sign*h.Parts) })
	}
	for i := range strands {
		t := &strands[i]
		s.add(t.From, endOf(t.To, end), func(sign int64) { s.strands[t.Reason] += sign * t.Parts })
	}
	slices.SortStableFunc(s.edges, func(a, b edge) int { return a.at.Compare(b.at) })
	from := up.From
	for i := 0; from.Before(end); {
		for ; i < len(s.edges) && !s.edges[i].at.After(from); i++ {
			s.edges[i].do(s.edges[i].sign)
		}
		to := end
		if i < len(s.edges) && s.edges[i].at.Before(end) {
			to = s.edges[i].at
		}
		out = join(out, s.span(from, to))
		from = to
	}
	return out
}

// endOf is the end of what ends at to, or goes on, up to a time.
func endOf(to, until time.Time) time.Time {
	if to.IsZero() || to.After(until) {
		return until
	}
	return to
}

// sweep is a node at a moment.
type sweep struct {
	up      Up
	edges   []edge
	pods    map[string]int64 // parts that each holds; none is 0
	strands map[Reason]int64
}

// edge is a time at which something begins, with sign 1, or ends, with -1.
type edge struct {
	at   time.Time
	sign int64
	do   func(sign int64)
}

func (s *sweep) add(from, to time.Time, do func(int64)) {
	if from.Before(to) {
		s.edges = append(s.edges, edge{from, 1, do}, edge{to, -1, do})
	}
}

func (s *sweep) hold(pod string, parts int64) {
	if s.pods[pod] += parts; s.pods[pod] == 0 {
		delete(s.pods, pod)
	}
}

// span is the node as it is, for a time.
func (s *sweep) span(from, to time.Time) Span {
	out := Span{From: from, To: to}
	held := int64(0)
	for pod, parts := range s.pods {
		out.Shares, held = append(out.Shares, Share{Line{Pod: pod}, parts}), held+parts
	}
	slices.SortFunc(out.Shares, func(a, b Share) int { return cmp.Compare(a.Pod, b.Pod) })
	if out.Over = max(0, held-s.up.Parts); out.Over > 0 {
		weights := make([]int64, len(out.Shares))
		for k := range out.Shares {
			weights[k] = out.Shares[k].Parts
		}
		for k, parts := range Divide(s.up.Parts, weights) {
			out.Shares[k].Parts = parts
		}
		out.Shares = slices.DeleteFunc(out.Shares, func(t Share) bool { return t.Parts == 0 })
	}
	free := max(0, s.up.Parts-held)
	for _, reason := range reasons {
		if parts := min(free, s.strands[reason]); parts > 0 {
			out.Shares, free = append(out.Shares, Share{Line{Reason: reason}, parts}), free-parts
		}
	}
	if free > 0 {
		out.Shares = append(out.Shares, Share{Idle, free})
	}
	return out
}

// join appends a span, or makes the last longer where nothing has changed.
func join(list []Span, next Span) []Span {
	if len(list) > 0 {
		last := &list[len(list)-1]
		if last.Over == next.Over && slices.Equal(last.Shares, next.Shares) {
			last.To = next.To
			return list
		}
	}
	return append(list, next)
}
