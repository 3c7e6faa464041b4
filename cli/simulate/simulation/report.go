package simulation

import (
	"maps"
	"math"
	"slices"

	"berth.dev/berth/sim"
)

// Report is the results of a Plan.
type Report struct {
	Protocol string
	Loads    []float64
	Columns  []int // percent of GPU asked for at which allocation is reported, ascending
	Policies []PolicyReport
	Planned  int // runs
	Ended    int // runs that went to their end
}

// Partial reports whether some runs were stopped or never begun.
func (r *Report) Partial() bool { return r.Ended < r.Planned }

// PolicyReport is the runs of one policy.
type PolicyReport struct {
	Name string
	Mean map[int]float64 // of the runs' Allocated
	Runs []Run
	// Curve is the mean of the runs' curves: of ProtocolFGD only, and only of
	// whole runs where there are some.
	Curve []sim.Point
}

// Class is what became of the pods of one class.
type Class struct {
	Pods, Failed    int
	WaitSeconds     float64 // mean of those placed; ProtocolChurn only
	MostWaitSeconds float64
}

// Run is one simulation.
type Run struct {
	Seed int64
	Load float64
	// Allocated is percent of GPU allocated, by percent asked for. Where no
	// arrival of a whole run falls on a percentage it is that of the last before.
	Allocated   map[int]float64
	Failed      map[string]Class
	CPUSeconds  float64 // of the run without tuning
	TuneSeconds float64 // CPU that the policy used to tune itself
	Decisions   int
	Impossible  int // pods that fit no node even when it is empty; in Failed too
	Partial     bool
	curve       []sim.Point
}

func (r *Run) fromFGD(f *sim.Run, columns []int) {
	r.Allocated = maps.Clone(f.Allocated)
	for _, at := range columns {
		if _, ok := r.Allocated[at]; !ok && !f.Partial {
			if v, ok := before(f.Curve, at); ok {
				r.Allocated[at] = v
			}
		}
	}
	r.Decisions, r.Impossible, r.Partial, r.curve = f.Decisions, f.Impossible, f.Partial, f.Curve
	r.Failed = map[string]Class{}
	for class, n := range f.Failed {
		r.Failed[class] = Class{Pods: n.Pods, Failed: n.Failed}
	}
}

func (r *Run) fromChurn(c *sim.ChurnRun) {
	r.Decisions, r.Impossible, r.Partial = c.Decisions, c.Impossible, c.Partial
	r.Allocated = map[int]float64{percentOf(r.Load): c.AllocatedPercent}
	r.Failed = map[string]Class{}
	for class, n := range c.Classes {
		r.Failed[class] = Class{n.Pods, n.Failed, n.WaitSeconds, n.MostWaitSeconds}
	}
}

// report joins the results, which are in the order of jobs; nil is not begun.
func (p *Plan) report(jobs []job, results []*Run) *Report {
	r := &Report{Protocol: p.Protocol, Loads: p.Loads, Columns: p.columns(), Planned: len(jobs), Policies: make([]PolicyReport, len(p.Policies))}
	for i := range r.Policies {
		r.Policies[i].Name = p.Policies[i].Name
	}
	for i, run := range results {
		if run == nil {
			continue
		}
		if !run.Partial {
			r.Ended++
		}
		to := &r.Policies[jobs[i].policy]
		to.Runs = append(to.Runs, *run)
	}
	for i := range r.Policies {
		r.Policies[i].add(r.Columns)
	}
	return r
}

// columns are the percentages of demand that the report is about.
func (p *Plan) columns() []int {
	var out []int
	for _, load := range p.Loads {
		out = append(out, percentOf(load))
		if p.Protocol == ProtocolFGD && load > 1 {
			out = append(out, 100)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// add computes the means.
func (p *PolicyReport) add(columns []int) {
	p.Mean = map[int]float64{}
	for _, at := range columns {
		sum, n := 0.0, 0
		for i := range p.Runs {
			if v, ok := p.Runs[i].Allocated[at]; ok {
				sum, n = sum+v, n+1
			}
		}
		if n > 0 {
			p.Mean[at] = sum / float64(n)
		}
	}
	p.Curve = meanCurve(p.Runs)
}

// meanCurve is the mean of the curves of whole runs, else of all: at each
// percentage that any of them has, from where all have begun to where the first
// ends. Between its points a run keeps the last.
func meanCurve(runs []Run) []sim.Point {
	whole := slices.ContainsFunc(runs, func(r Run) bool { return !r.Partial })
	var curves [][]sim.Point
	first, last := math.MinInt, math.MaxInt
	for i := range runs {
		if c := runs[i].curve; len(c) > 0 && (!whole || !runs[i].Partial) {
			curves = append(curves, c)
			first, last = max(first, c[0].DemandPercent), min(last, c[len(c)-1].DemandPercent)
		}
	}
	var out []sim.Point
	if len(curves) == 0 {
		return out
	}
	for at := first; at <= last; at++ {
		sum := 0.0
		for _, c := range curves {
			v, _ := before(c, at)
			sum += v
		}
		out = append(out, sim.Point{DemandPercent: at, AllocatedPercent: sum / float64(len(curves))})
	}
	return out
}

// before is the value of the last point of a curve at a percentage or before.
func before(curve []sim.Point, at int) (float64, bool) {
	i, found := slices.BinarySearchFunc(curve, at, func(p sim.Point, at int) int { return p.DemandPercent - at })
	if !found {
		i--
	}
	if i < 0 {
		return 0, false
	}
	return curve[i].AllocatedPercent, true
}

// Rate is how many percent of the pods of a class failed, over all runs with a
// load, and whether there were any.
func (p *PolicyReport) Rate(class string, load float64) (percent float64, ok bool) {
	pods, failed := 0, 0
	for i := range p.Runs {
		if p.Runs[i].Load != load {
			continue
		}
		pods += p.Runs[i].Failed[class].Pods
		failed += p.Runs[i].Failed[class].Failed
	}
	if pods == 0 {
		return 0, false
	}
	return 100 * float64(failed) / float64(pods), true
}

// Wait is the mean over all runs with a load of how many seconds a pod of a
// class waited that was placed.
func (p *PolicyReport) Wait(class string, load float64) float64 {
	sum, placed := 0.0, 0
	for i := range p.Runs {
		if c := p.Runs[i].Failed[class]; p.Runs[i].Load == load {
			sum += c.WaitSeconds * float64(c.Pods-c.Failed)
			placed += c.Pods - c.Failed
		}
	}
	if placed == 0 {
		return 0
	}
	return sum / float64(placed)
}

// Total adds up over all runs with a load.
func (p *PolicyReport) Total(load float64) (runs int, cpuSeconds, tuneSeconds float64, decisions int) {
	for i := range p.Runs {
		if p.Runs[i].Load != load {
			continue
		}
		runs++
		cpuSeconds += p.Runs[i].CPUSeconds
		tuneSeconds += p.Runs[i].TuneSeconds
		decisions += p.Runs[i].Decisions
	}
	return runs, cpuSeconds, tuneSeconds, decisions
}
