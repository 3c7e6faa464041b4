package placement

import (
	"fmt"

	"berth.dev/berth/core/cluster"
)

// Placer finds the best node for a request. Index and Scan are the two: equal
// in every answer, unequal in cost.
type Placer interface {
	// BestFor gives the node that the policy likes best for r, which stays as st says, and
	// whether there is one that fits.
	BestFor(r *cluster.Request, st Stay) (node int, ok bool)
	// Arrive tells the policy of a request; see Policy.
	Arrive(r *cluster.Request)
	// Refuse tells the policy that a request fitted nowhere; see Policy.
	Refuse(r *cluster.Request)
	// Snapshot is what Best looks at. Changes to it are noticed.
	Snapshot() *cluster.Snapshot
	// Policy is who decides.
	Policy() Policy
}

// Place finds devices for r and assumes them on p's Snapshot. ok is false where
// r fits no node; then nothing has changed. It does not call Arrive. The error
// is of a policy that chose what is not free: a bug.
func Place(p Placer, r *cluster.Request) (placed cluster.Placement, ok bool, err error) {
	return PlaceFor(p, r, Stay{})
}

// PlaceFor is Place for a request that stays as st says.
func PlaceFor(p Placer, r *cluster.Request, st Stay) (placed cluster.Placement, ok bool, err error) {
	node, ok := p.BestFor(r, st)
	if !ok {
		return cluster.Placement{}, false, nil
	}
	placed = On(p, node, r)
	placed.Ends = st.Ends
	if err := p.Snapshot().Assume(&placed); err != nil {
		return cluster.Placement{}, false, fmt.Errorf("place: %w", err)
	}
	return placed, true, nil
}

// On returns the devices that p's policy chooses of a node for r, which fits there,
// as a placement that is not assumed.
func On(p Placer, node int, r *cluster.Request) cluster.Placement {
	placed := cluster.Placement{Node: node, Request: *r}
	if r.GPUs > 0 {
		q := p.Snapshot().Resolve(node, r)
		placed.Devices = p.Policy().Devices(p.Snapshot(), node, &q, make([]cluster.Device, 0, r.GPUs))
	}
	return placed
}

// Scan is the slow obvious Placer: it scores every node for every request.
// Index is tested against it.
type Scan struct {
	s     *cluster.Snapshot
	p     Policy
	ranks []int32
	rand  func(n int) int
}

// NewScan makes a Scan. The arguments are those of NewIndex.
func NewScan(s *cluster.Snapshot, p Policy, ranks []int32, rand func(n int) int) *Scan {
	return &Scan{s: s, p: p, ranks: ranks, rand: rand}
}

// Best is BestFor where nothing is known of how long r stays.
func (x *Scan) Best(r *cluster.Request) (int, bool) { return x.BestFor(r, Stay{}) }

// BestFor implements Placer.
func (x *Scan) BestFor(r *cluster.Request, st Stay) (int, bool) {
	best, ties := uint64(0), []int(nil)
	for i := range x.s.Len() {
		if Fit(x.s, i, r) != Fits {
			continue
		}
		rank := 0
		if x.p.Ties() == TiesByRank {
			rank = rankOf(x.ranks, i)
		}
		switch k := less(key(scoreOf(x.p, x.s, i, r), rank), prolong(x.p, x.s, i, r, st)); {
		case k > best:
			best, ties = k, append(ties[:0], i)
		case k == best:
			ties = append(ties, i)
		}
	}
	switch {
	case len(ties) == 0:
		return 0, false
	case x.p.Ties() == TiesByRank:
		return ties[0], true
	}
	return ties[x.rand(len(ties))], true
}

// Arrive implements Placer.
func (x *Scan) Arrive(r *cluster.Request) {
	t := typical(x.s, r)
	x.p.Arrive(&t)
}

// Refuse implements Placer.
func (x *Scan) Refuse(r *cluster.Request) {
	t := typical(x.s, r)
	x.p.Refuse(&t)
}

// Snapshot implements Placer.
func (x *Scan) Snapshot() *cluster.Snapshot { return x.s }

// Policy implements Placer.
func (x *Scan) Policy() Policy { return x.p }

// rankOf returns the rank of node i; without ranks nodes rank in their order.
func rankOf(ranks []int32, i int) int {
	if ranks == nil {
		return i
	}
	return int(ranks[i])
}

// less is a key with so much less score.
func less(k uint64, cost Score) uint64 {
	rank := cluster.MaxNodes - 1 - int(k&(cluster.MaxNodes-1))
	return key(Score(k>>20)-MaxScore-1-cost, rank)
}

// key joins a score and a rank (0 to MaxNodes-1) to a number that is higher for
// the better node, and never 0.
func key(score Score, rank int) uint64 {
	score = max(-MaxScore, min(MaxScore, score))
	return uint64(score+MaxScore+1)<<20 | uint64(cluster.MaxNodes-1-rank)
}
