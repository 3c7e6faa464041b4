package sim

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"math/rand"
	"slices"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/placement"
)

// The log-normal distribution of run times where a trace has none: mean and
// standard deviation of the logarithm of seconds, fitted by maximum likelihood
// to the 7,255 pods of openb's default workload that ran.
const (
	runLogMean  = 6.5612
	runLogSigma = 1.8844
)

// Churn is a protocol with departures: pods come in the order of their trace,
// over and over, and leave when their run time is over. Run times are the
// trace's; a pod without one draws it from a log-normal distribution. Pods come
// at random moments (a Poisson process), so close together that what they ask
// for, if each were placed at once, is Load times the cluster over the measured
// window. That window goes from one mean run time to Runs of them.
//
// A pod that fits nowhere waits; the oldest is tried first whenever one leaves,
// and others may pass it. After Patience mean run times of waiting it fails.
type Churn struct {
	Cluster  *cluster.Snapshot   // empty; each run works on a clone
	Held     []cluster.Placement // what is placed before the first arrival, and stays; it counts as asked for and as allocated
	Pods     []Pod
	Load     float64 // such as 1.0 or 1.3; above 0
	Policy   placement.Maker
	Runs     float64 // mean run times simulated; 0 is 3; above 1
	Patience float64 // mean run times that a pod waits; 0 is 0.01
	// Step, if not nil, is called after every hundredth arrival. Where it says
	// stop, the run ends and is Partial.
	Step func(arrived, total int) (stop bool)
	// Look, if not nil, is called at every tenth of a mean run time of the measured
	// window, with the cluster and what was placed since the start and runs, in no order.
	// It must change neither.
	Look func(s *cluster.Snapshot, running iter.Seq[*cluster.Placement])
}

// ChurnClass is what became of the pods of one class.
type ChurnClass struct {
	Pods            int     // that came
	Failed          int     // that gave up, or wait at the end
	WaitSeconds     float64 // mean over those placed
	MostWaitSeconds float64 // of those placed
}

// ChurnRun is the result of one run.
type ChurnRun struct {
	Seed             int64
	AllocatedPercent float64 // of all GPUs, mean over the measured window
	Classes          map[string]ChurnClass
	Decisions        int // placements tried for arrivals, and those made later
	Impossible       int // pods that fit no node even when the cluster is empty; counted as Failed
	MeanRunSeconds   float64
	Partial          bool
}

// RunChurn runs the churn protocol once, with its defaults. See Churn.
func RunChurn(s *cluster.Snapshot, pods []Pod, load float64, seed int64, policy placement.Maker) (ChurnRun, error) {
	return Churn{Cluster: s, Pods: pods, Load: load, Policy: policy}.Run(seed)
}

// Run runs the protocol with one seed: equal seeds give equal runs.
func (c Churn) Run(seed int64) (ChurnRun, error) {
	c.Runs, c.Patience = cmp.Or(c.Runs, 3), cmp.Or(c.Patience, 0.01)
	switch {
	case !(c.Load > 0 && c.Load <= 100):
		return ChurnRun{}, fmt.Errorf("load %v: it must be above 0 and at most 100 times the cluster", c.Load)
	case !(c.Runs > 1 && c.Runs <= 1000):
		return ChurnRun{}, fmt.Errorf("%v mean run times: there must be more than 1 and at most 1000", c.Runs)
	case c.Cluster.TotalGPUs() == 0:
		return ChurnRun{}, fmt.Errorf("the cluster has no GPUs: there is nothing to allocate")
	}
	s, held, err := occupied(c.Cluster, c.Held, c.Load)
	if err != nil {
		return ChurnRun{}, err
	}
	rng := rand.New(rand.NewSource(seed))
	ranks := Ranks(rng, c.Cluster)
	comers, mean, err := c.arrivals(rng, c.Load*float64(capacity(c.Cluster))-float64(held))
	if err != nil {
		return ChurnRun{}, err
	}
	typical := Typical(Requests(c.Cluster, c.Pods))
	policy := c.Policy(placement.Setup{Cluster: s, Typical: typical, Rand: rng.Intn})
	f := &churning{
		Churn: c, got: held, placer: placement.NewIndex(s, policy, ranks, rng.Intn), waiting: newWaiting(),
		mean: mean, end: c.Runs * mean, impossible: newImpossible(c.Cluster),
		run: ChurnRun{Seed: seed, MeanRunSeconds: mean, Classes: map[string]ChurnClass{}},
	}
	for _, class := range Classes {
		f.run.Classes[class] = ChurnClass{}
	}
	return f.simulate(comers)
}

// arrivals makes the pods that come until the end and ask for target milli-GPUs,
// and the mean run time.
func (c Churn) arrivals(rng *rand.Rand, target float64) ([]arrival, float64, error) {
	pods := slices.Clone(c.Pods)
	if !slices.ContainsFunc(pods, func(p Pod) bool { return !p.HasArrival }) {
		slices.SortStableFunc(pods, func(a, b Pod) int { return cmp.Compare(a.Arrival, b.Arrival) })
	}
	requests := Requests(c.Cluster, pods)
	runOf := func(p *Pod) float64 {
		if p.HasRun {
			return p.Run
		}
		return math.Exp(runLogMean + runLogSigma*rng.NormFloat64())
	}
	mean := 0.0
	for i := range pods {
		mean += runOf(&pods[i]) / float64(len(pods))
	}
	// Closer and closer together: first as long as a pass at load 1 would take
	// if all runs were mean, then halved until enough is asked for.
	var comers []arrival
	at := 0.0
	extend := func(gap float64) {
		for at*gap < c.Runs*mean && len(comers) < mostArrivals {
			i := len(comers) % len(pods)
			at += rng.ExpFloat64()
			comers = append(comers, arrival{serial: len(comers), request: requests[i], at: at, run: runOf(&pods[i]), most: pods[i].Most})
		}
	}
	wide, tight := mean, mean
	for extend(tight); demand(comers, tight, mean, c.Runs*mean) < target; extend(tight) {
		if wide, tight = tight, tight/2; len(comers) >= mostArrivals {
			return nil, 0, fmt.Errorf("load %v: it would take more than %d pods; use a smaller cluster or load", c.Load, mostArrivals)
		}
	}
	for range 40 {
		if mid := (wide + tight) / 2; demand(comers, mid, mean, c.Runs*mean) < target {
			wide = mid
		} else {
			tight = mid
		}
	}
	for i := range comers {
		comers[i].at *= tight
	}
	past := slices.IndexFunc(comers, func(a arrival) bool { return a.at >= c.Runs*mean })
	if past < 0 {
		past = len(comers)
	}
	return comers[:past], mean, nil
}

// mostArrivals bounds a run's memory.
const mostArrivals = 1 << 22

// demand is the mean of what comers ask for between from and to, in milli-GPUs,
// if each is placed at once; gap scales when they come.
func demand(comers []arrival, gap, from, to float64) float64 {
	sum := 0.0
	for i := range comers {
		a := &comers[i]
		start := max(from, a.at*gap)
		sum += max(0, min(to, a.at*gap+a.run)-start) * float64(a.request.TotalMilli())
	}
	return sum / (to - from)
}

// churning is one run under way.
type churning struct {
	Churn
	placer     placement.Placer
	waiting    *waiting
	running    departures
	impossible *impossible
	mean, end  float64 // seconds
	clock      float64 // seconds
	got        int64   // milli-GPUs placed now
	area       float64 // of got over the measured window
	looked     int     // times that Look was called
	run        ChurnRun
}

// simulate brings comers in and lets those who are done go.
func (f *churning) simulate(comers []arrival) (ChurnRun, error) {
	for i := range comers {
		if f.Step != nil && i%100 == 99 && f.Step(i+1, len(comers)) {
			f.run.Partial, f.end = true, f.clock
			break
		}
		a := &comers[i]
		if err := f.until(a.at); err != nil {
			return f.run, err
		}
		f.placer.Arrive(&a.request)
		f.count(a, func(n *ChurnClass) { n.Pods++ })
		f.run.Decisions++
		placed, err := f.try(a)
		if err != nil {
			return f.run, fmt.Errorf("arrival %d: %w", i, err)
		}
		if !placed {
			f.placer.Refuse(&a.request)
		}
		switch {
		case placed:
		case f.impossible.is(&a.request):
			f.run.Impossible++
			f.count(a, func(n *ChurnClass) { n.Failed++ })
		default:
			f.waiting.add(*a)
		}
	}
	if err := f.until(f.end); err != nil {
		return f.run, err
	}
	f.waiting.expire(math.Inf(1), f.fail)
	if f.end > f.mean {
		f.run.AllocatedPercent = 100 * f.area / ((f.end - f.mean) * float64(capacity(f.Cluster)))
	}
	for class, n := range f.run.Classes {
		if placed := n.Pods - n.Failed; placed > 0 {
			n.WaitSeconds /= float64(placed)
			f.run.Classes[class] = n
		}
	}
	return f.run, nil
}

// until lets virtual time pass up to the given moment.
func (f *churning) until(to float64) error {
	for len(f.running) > 0 && f.running[0].at <= to {
		d := f.running.pop()
		f.pass(d.at)
		if err := f.placer.Snapshot().Release(&d.placed); err != nil {
			return fmt.Errorf("departure at %v s: %w", d.at, err)
		}
		f.got -= d.placed.TotalMilli()
		f.waiting.expire(f.clock-f.Patience*f.mean, f.fail)
		// Nothing that waits fitted anywhere before, so only this node matters.
		node := d.placed.Node
		may := func(r *cluster.Request) bool {
			return placement.Fit(f.placer.Snapshot(), node, r) == placement.Fits
		}
		err := f.waiting.retry(may, func(a *arrival) (bool, error) {
			ok, err := f.try(a)
			if ok {
				f.run.Decisions++
			}
			return ok, err
		})
		if err != nil {
			return err
		}
	}
	f.pass(to)
	return nil
}

// pass moves the clock on and adds to the area.
func (f *churning) pass(to float64) {
	for f.Look != nil && f.mean*(1+float64(f.looked)/10) <= to {
		f.looked++
		f.Look(f.placer.Snapshot(), f.running.placements())
	}
	if from := max(f.clock, f.mean); to > from {
		f.area += float64(f.got) * (to - from)
	}
	f.clock = max(f.clock, to)
}

// try places a now, if it fits.
func (f *churning) try(a *arrival) (bool, error) {
	placed, ok, err := placement.PlaceFor(f.placer, &a.request, a.stay(f.clock))
	if !ok || err != nil {
		return false, err
	}
	f.got += placed.TotalMilli()
	f.running.push(departure{at: f.clock + a.run, serial: a.serial, placed: placed})
	wait := f.clock - a.at
	f.count(a, func(n *ChurnClass) {
		n.WaitSeconds += wait
		n.MostWaitSeconds = max(n.MostWaitSeconds, wait)
	})
	return true, nil
}

// fail counts a pod that gave up.
func (f *churning) fail(a *arrival) { f.count(a, func(n *ChurnClass) { n.Failed++ }) }

// count changes the figures of a's class.
func (f *churning) count(a *arrival, change func(*ChurnClass)) {
	class := ClassOf(&a.request)
	n := f.run.Classes[class]
	change(&n)
	f.run.Classes[class] = n
}
