package placement

import (
	"math"
	"slices"

	"berth.dev/berth/core/cluster"
)

// search looks for the Params that are best on a few synthetic sequences of one
// mix. It is a random search from the best so far (an evolution strategy with
// one parent and one child), after a few rounds of learning the worth of holes.
type search struct {
	t         *Tuning
	empty     *cluster.Snapshot
	mix       *Mix
	d         dice
	sequences []sequence
	rails     []outcome // of the reference on the first one, two, ... sequences together
	trials    int       // made so far, without the reference's

	best    Params
	worths  []float64 // of best, on the first one, two, ... sequences together
	outcome outcome   // of best, over all sequences
}

// tune returns the best Params found for mix, from start; ok is false where there
// is nothing to find out, since no request asks for GPUs.
func tune(t *Tuning, empty *cluster.Snapshot, mix *Mix, start Params) (best Params, ok bool) {
	f := &search{t: t, empty: empty, mix: mix, d: dice{t.Seed}}
	rail := outcome{}
	for range t.Sequences {
		q, ok := draw(empty, mix, t.Load, &f.d)
		if !ok {
			return start, false
		}
		o := try(empty, &q, func(s *cluster.Snapshot) Policy { return t.Reference(Setup{Cluster: s, Typical: mix.Classes()}) })
		rail.add(&o)
		f.sequences, f.rails = append(f.sequences, q), append(f.rails, rail)
	}
	f.consider(start, false)
	f.learn(start)
	for first := f.trials; f.trials < t.Trials; {
		done := float64(f.trials-first) / float64(t.Trials-first)
		f.consider(f.change(f.best, 1-0.7*done), true)
	}
	return f.best, true
}

// knowing makes a Berth that knows the mix, for trials.
func (f *search) knowing(p Params) func(*cluster.Snapshot) Policy {
	return func(s *cluster.Snapshot) Policy {
		b := NewBerth(Setup{Cluster: s}, p)
		b.Learn(f.mix)
		return b
	}
}

// consider tries p on every sequence and keeps it if it is the best. Where
// hurry is set, it gives up once p is clearly behind: by Tuning.Behind points
// on the first sequence, half of that over two, and so on.
func (f *search) consider(p Params, hurry bool) outcome {
	var sum outcome
	worths := make([]float64, len(f.sequences))
	for i := range f.sequences {
		o := try(f.empty, &f.sequences[i], f.knowing(p))
		f.trials++
		sum.add(&o)
		worths[i] = f.worth(&sum, &f.rails[i])
		if hurry && worths[i] < f.worths[i]-f.t.Behind/float64(i+1) {
			return sum
		}
	}
	if last := len(worths) - 1; f.worths == nil || worths[last] > f.worths[last] {
		f.best, f.worths, f.outcome = p, worths, sum
	}
	return sum
}

// worth is what tuning makes large: the percentage of GPU allocated at the end
// plus half of that at full demand, less a price for each point by which a
// class fails more than with the reference on the same sequences. Rates of rare classes
// are mostly chance, so they count for less.
func (f *search) worth(o, rail *outcome) float64 {
	x := (o.over + 0.5*o.full) / o.trials
	for class, price := range f.t.Prices {
		if n := o.pods[class]; n > 0 {
			x -= price * n / (n + f.t.Rare) * max(0, o.rate(class)-rail.rate(class))
		}
	}
	return x
}

// learn replaces the computed worth of holes by what became of them in trials:
// a hole of r was worth r less what is left at the end, on average, of GPUs
// that had r free once. The table changes what is placed, which changes the
// table: it goes there by small steps, and the best round is kept.
func (f *search) learn(p Params) {
	p.Holes = nil
	o := f.consider(p, false)
	holes := f.holes(&p)
	for range f.t.Rounds {
		for r := 1; r < steps; r++ {
			if o.leftOf[r] >= 3 {
				worth := float64(r*cluster.Whole/steps) - o.left[r]/o.leftOf[r]
				holes[r] += 0.3 * (worth - holes[r])
			}
		}
		p.Holes = slices.Clone(holes)
		o = f.consider(p, false)
	}
}

// holes returns a copy of the worth of holes under p; where it is computed, that
// of the first product.
func (f *search) holes(p *Params) []float64 {
	if p.Holes != nil {
		return slices.Clone(p.Holes)
	}
	b := f.knowing(*p)(f.empty).(*Berth)
	holes := make([]float64, steps+1)
	for r := range holes {
		holes[r] = b.t.fill[r].gpu
	}
	return holes
}

// change returns p with about half of its constants multiplied by random factors
// near 1. scale, from 1 down, says how near. Eps stays: with Holes it only says
// how much CPU holes need, which Kappa scales.
func (f *search) change(p Params, scale float64) Params {
	change := func(x *float64, spread float64) {
		if f.d.unit() < 0.5 {
			*x *= math.Exp(spread * scale * f.d.normal())
		}
	}
	change(&p.K, 0.4)
	change(&p.Kappa, 0.1)
	change(&p.Mu, 0.4)
	change(&p.Lambda, 0.6)
	change(&p.Quantum, 1)
	p.Holes = f.holes(&p)
	const band = 10 // steps that change together
	for from := 1; from < steps; from += band {
		factor := 1.0
		change(&factor, 0.07)
		for r := from; r < min(from+band, steps); r++ {
			p.Holes[r] = min(p.Holes[r]*factor, float64(r*cluster.Whole/steps))
		}
	}
	return p
}
