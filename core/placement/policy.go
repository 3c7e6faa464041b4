// Package placement decides which devices of which node a request gets. A
// Policy scores nodes; Index keeps those scores and finds the best node without
// scoring all of them again. It does not queue, admit or preempt, and it never
// refuses a request that fits.
package placement

import "berth.dev/berth/core/cluster"

// Score orders nodes for one request: higher is better. Only the values from
// -MaxScore to MaxScore are told apart; what is beyond counts as the nearest.
type Score int64

// MaxScore bounds a Score.
const MaxScore Score = 1<<43 - 1

// Policy says where requests go. A Policy belongs to one run on one Snapshot
// and need not be safe for concurrent use. Equal calls in equal order give
// equal answers, except for what Setup.Rand draws. In Arrive and
// Refuse it sees neither units of a node (Request.Units) nor classes, in Score and
// Devices requests that are resolved for the node (cluster.Snapshot.Resolve).
type Policy interface {
	// Arrive tells of a request before it is placed, whether or not it then
	// fits. It says true if scores given before no longer hold.
	Arrive(r *cluster.Request) (stale bool)

	// Refuse tells, at most once for each Arrive, that r fitted nowhere when it
	// came.
	Refuse(r *cluster.Request)

	// Score says how good it is to place r on node i of s, where it fits
	// (Fit). Between two calls of Arrive that say true it depends on nothing
	// but r and node i, with the verdict on it of r's class.
	Score(s *cluster.Snapshot, i int, r *cluster.Request) Score

	// Devices chooses devices of node i for r, which fits there: one for each
	// of r.GPUs, appended to out.
	Devices(s *cluster.Snapshot, i int, r *cluster.Request, out []cluster.Device) []cluster.Device

	// Ties says how nodes of equal score are told apart.
	Ties() Ties
}

// Ties says which of several nodes with the best score is taken.
type Ties uint8

const (
	// TiesByRank takes the one of lowest rank, always.
	TiesByRank Ties = iota
	// TiesRandom takes one at random, each equally likely.
	TiesRandom
)

// Setup is what a policy may know before the first request.
type Setup struct {
	Cluster *cluster.Snapshot // read only; the Snapshot that the run will change
	// Typical is the mix of requests to expect, for policies that are defined
	// on a mix known in advance (fgd). Berth's own does not read it.
	Typical []Class
	// Rand gives a number from 0 up to n-1. Only random needs it.
	Rand func(n int) int
	// Tuning, if not nil, is given each tuning of a policy that tunes itself, so
	// that its cost can be measured apart. It must call tune before it returns.
	Tuning func(tune func())
}

// Class is a request shape and how common it is.
type Class struct {
	Request cluster.Request
	Weight  float64 // any positive number; only proportions count
}

// Maker makes a Policy for one run.
type Maker func(Setup) Policy
