package placement

import (
	"slices"

	"berth.dev/berth/core/cluster"
)

// typical is what a policy learns of r: its class becomes the products that the
// class leaves, and units of a node whole GPUs or shares as the first node with
// GPUs has them.
func typical(s *cluster.Snapshot, r *cluster.Request) cluster.Request {
	out := *r
	if r.Units {
		if first := s.FirstWithGPUs(); first >= 0 {
			out = s.Resolve(first, r)
		}
		out.Units, out.SharesDo = false, false // a policy need not know that several may be of one GPU
	}
	if r.Class == 0 {
		return out
	}
	out.Class = 0
	switch left := s.ClassProducts(r.Class); {
	case left == 0:
	case out.Products == 0:
		out.Products = left
	default:
		if out.Products &= left; out.Products == 0 {
			out.Products = cluster.NoProduct
		}
	}
	return out
}

// scoreOf is the score of node i for r, which fits there. For several GPUs a node
// that has only shares for them comes after every node with GPUs, and one where
// some of the shares would be of one GPU after those, whatever the policy likes.
func scoreOf(p Policy, s *cluster.Snapshot, i int, r *cluster.Request) Score {
	if !r.Units {
		return p.Score(s, i, r)
	}
	q := s.Resolve(i, r)
	score := p.Score(s, i, &q)
	switch {
	case r.GPUs < 2 || r.SharesDo:
		return score
	case !s.SharesLast(i, r):
		return max(score, -band)
	}
	score = max(-band, min(band, score)) - 3*band
	if spread(s, i, &q) < r.GPUs {
		score -= 3 * band
	}
	return score
}

// band is half of what the scores of nodes of one kind may differ by, where nodes
// of another kind come after all of them.
const band = MaxScore / 8

// spread counts the GPUs of node i that have room for one of r's devices.
func spread(s *cluster.Snapshot, i int, r *cluster.Request) int32 {
	n := int32(0)
	for j := range s.Cards(i) {
		if roomOn(s, i, j, r) == roomBoth {
			n++
		}
	}
	return n
}

// ScoreOn returns the score of node i for r, which stays as st says, and whether r fits there.
func ScoreOn(p Placer, i int, r *cluster.Request, st Stay) (Score, bool) {
	s := p.Snapshot()
	if Fit(s, i, r) != Fits {
		return 0, false
	}
	return scoreOf(p.Policy(), s, i, r) - prolong(p.Policy(), s, i, r, st), true
}

// Count is how many nodes a request does not fit for one reason.
type Count struct {
	Reason Reason
	Why    uint8 // of Excluded: the reason of the class, cluster.Verdict.Reason
	Nodes  int
}

// Foremost returns the reason that excludes the most nodes; of as many, the first.
// What classes exclude comes last: Excluded if nothing else excludes a node.
func Foremost(counts []Count) Reason {
	best := Count{Reason: Excluded}
	for _, c := range counts {
		if c.Reason != Excluded && c.Nodes > best.Nodes {
			best = c
		}
	}
	return best.Reason
}

// reasons are all that Fit gives, in the order in which it asks; what is
// Excluded has a number of its own for each reason of the class, from excluded
// on.
var reasons = [...]Reason{
	Fits, TooManyPods, NotEnoughCPU, NotEnoughMemory, WrongProduct, NotEnoughGPUs, NotEnoughGPUMemory, NoMIGPlacement, NotOneClique,
}

const excluded = 64

// misfits is why one shape does not fit each node, and how often.
type misfits struct {
	codes  []uint8 // by node: position in reasons, or excluded and more
	counts [256]int32
}

// note counts node i again.
func (m *misfits) note(s *cluster.Snapshot, i int, r *cluster.Request, why Reason) {
	code := uint8(0)
	if why == Excluded {
		code = uint8(min(255, excluded+int(s.Verdict(r.Class, i).Reason)))
	} else {
		for reasons[code] != why {
			code++
		}
	}
	if was := m.codes[i]; was != code {
		m.counts[was]--
		m.counts[code]++
		m.codes[i] = code
	}
}

// Reasons counts the nodes that r does not fit, by reason: what classes exclude
// first, then in the order in which Fit asks. Nodes that it fits are not in it.
// Asking again costs what has changed since. Reasons of classes above 191 are
// counted together, as 191.
func (x *Index) Reasons(r *cluster.Request) []Count {
	h := x.shape(r)
	x.bringUp(h)
	if h.misfits == nil {
		h.misfits = &misfits{codes: make([]uint8, x.s.Len())}
		h.misfits.counts[0] = int32(x.s.Len())
		for i := range h.misfits.codes {
			h.misfits.note(x.s, i, r, Fit(x.s, i, r))
		}
	}
	var out []Count
	for why := range 256 - excluded {
		if n := h.misfits.counts[excluded+why]; n > 0 {
			out = append(out, Count{Excluded, uint8(why), int(n)})
		}
	}
	for code, reason := range reasons {
		if n := h.misfits.counts[code]; n > 0 && reason != Fits {
			out = append(out, Count{Reason: reason, Nodes: int(n)})
		}
	}
	return slices.Clip(out)
}
