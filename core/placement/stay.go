package placement

import (
	"slices"
	"time"

	"berth.dev/berth/core/cluster"
)

// Stay is how long a request stays where it is placed now, as it declares. The zero Stay is not known.
type Stay struct {
	Ends int64 // when it ends at the latest, in seconds since 1970
	Run  int64 // in how many seconds that is; above 0 where it is known
}

// StayOf returns how long requests stay that are placed now and run as long as most says: until the last of them has ended. It is not
// known if it is 0 for one of them.
func StayOf(now time.Time, most ...time.Duration) Stay {
	if len(most) == 0 || slices.Min(most) <= 0 {
		return Stay{}
	}
	longest := slices.Max(most)
	return Stay{Ends: now.Add(longest).Unix(), Run: max(1, int64(longest/time.Second))}
}

// slack is what a node costs that is in use longer than a request by the request's whole run, or more: as a part of
// what an idle node costs.
const slack = 0.05

// Prolonger is a Policy that also looks at how long requests stay.
type Prolonger interface {
	Policy
	// Prolong says how much less node i of s is worth to a request for GPUs, which stays as st says, as the node is in use
	// longer then: in steps of Score, 0 at least. It depends on the ends of what the node holds
	// (cluster.Snapshot.Ends), and changes otherwise only as Score does.
	Prolong(s *cluster.Snapshot, i int, st Stay) Score
}

// prolong is Prolong of a policy that has it, where it is known how long r stays; else 0.
func prolong(p Policy, s *cluster.Snapshot, i int, r *cluster.Request, st Stay) Score {
	if q, ok := p.(Prolonger); ok && st.Run > 0 && r.GPUs > 0 {
		return q.Prolong(s, i, st)
	}
	return 0
}

// Prolong implements Prolonger. A node is idle again when all that it holds has ended. So a request goes
// where others end no earlier than it does, and of such nodes where they end soonest, as the others take
// longer requests. Where few GPUs are free, it matters more that none is left over.
func (b *Berth) Prolong(s *cluster.Snapshot, i int, st Stay) Score {
	node := b.p.Prolong * min(1, 4*b.free) * cluster.Whole * float64(len(s.GPUs(i)))
	return Score(floor64(node*prolonged(s, i, st)/b.p.Quantum)) << 16
}

// prolonged is by which part of its run, from 0 to 1, a request keeps node i in use longer. Each of those whose ends are not known
// is as likely to be the last as the request is.
func prolonged(s *cluster.Snapshot, i int, st Stay) float64 {
	part, ends := 1.0, s.Ends(i)
	if len(ends) > 0 {
		part = min(float64(st.Ends-ends[len(ends)-1])/float64(st.Run), 1)
		if part < 0 {
			part = slack * min(-part, 1)
		}
	}
	return part / float64(1+s.HeldGPUs(i)-len(ends))
}
