package placement

import "berth.dev/berth/core/cluster"

// Tuning says how much a Tuned tries, and what it looks for. The zero value is
// not useful: start from DefaultTuning.
type Tuning struct {
	// First is after how many arrivals it tunes for the first time; then again
	// whenever there have come Again times as many, Times times in all.
	First, Again, Times int
	// Trials is how many simulations of the whole cluster one tuning may use;
	// Sequences how many orders of arrivals each candidate is tried on; Rounds
	// how many rounds the worth of holes is learned for.
	Trials, Sequences, Rounds int
	// Load is what the arrivals of a trial ask for, as a part of the cluster.
	Load float64
	// Nodes is how many nodes, at most, a trial is made with: every second,
	// every third, ... is taken of larger clusters.
	Nodes int
	// Reference is the policy that a candidate is compared with; nil is bestfit.
	Reference Maker
	// Prices are what each point is worth by which a class fails more than with
	// Reference, in points of GPU allocated: of requests for no GPU, for shares below
	// and from 500 milli-GPUs, and for 1, 2-3, 4-7 and 8 or more GPUs. A class
	// of which Rare have come in all trials counts half, rarer ones less.
	Prices [trialClasses]float64
	Rare   float64
	// Behind is by how many points a candidate may be behind before its trials
	// end.
	Behind float64
	Seed   uint64
}

// DefaultTuning was found on seeds 1-20 of the openb workloads. On their
// cluster (1,213 nodes, 10,900 arrivals a trial) one tuning takes 2 to 5
// CPU-seconds, and a run of the FGD protocol has three.
func DefaultTuning() Tuning {
	return Tuning{
		First: 1000, Again: 3, Times: 3,
		Trials: 120, Sequences: 3, Rounds: 5, Load: 1.3, Nodes: 1500,
		Prices: [trialClasses]float64{0.3, 0.1, 0.1, 0.1, 0.1, 0.1, 0.2}, Rare: 50,
		Behind: 0.1, Seed: 1,
	}
}

// Tuned is Berth with constants that it finds by itself: from time to time it
// simulates arrivals like those that have come on an emptied copy of the
// cluster, with other constants, and keeps the best. Arrivals are drawn from
// the mix seen so far with a seed of its own, so no decision depends on what
// comes later, and equal arrivals give equal decisions.
//
// Trials leave out node memory and cliques, as Mix does, and departures.
type Tuned struct {
	*Berth
	t     Tuning
	empty *cluster.Snapshot
	next  int // arrivals at which it tunes
	times int // tunings so far
	run   func(tune func())
}

// NewTuned makes a Tuned that starts with the given constants. It panics if
// they are not valid: a bug in the caller.
func NewTuned(setup Setup, params Params, t Tuning) *Tuned {
	b := &Tuned{Berth: NewBerth(setup, params), t: t, next: t.First, run: setup.Tuning}
	if b.t.Reference == nil {
		b.t.Reference = NewBestFit
	}
	if b.run == nil {
		b.run = func(tune func()) { tune() }
	}
	b.empty = setup.Cluster.Emptied((setup.Cluster.Len() + t.Nodes - 1) / max(1, t.Nodes))
	return b
}

// Arrive implements Policy. It tunes first if it is time.
func (b *Tuned) Arrive(r *cluster.Request) bool {
	stale := b.Berth.Arrive(r)
	if b.times >= b.t.Times || b.arrived < b.next {
		return stale
	}
	b.times++
	b.next = b.arrived * b.t.Again
	b.run(func() {
		if best, ok := tune(&b.t, b.empty, b.mix, b.p); ok {
			b.use(best)
			stale = true
		}
	})
	return stale
}

// Params are the constants in use now.
func (b *Tuned) Params() Params { return b.p }

// use goes on with other constants. It makes all scores stale.
func (b *Tuned) use(p Params) {
	b.p, b.feed = p, newFeed(p.K)
	b.rebuild()
}
