package simulation

import (
	"slices"

	"berth.dev/berth/sim"
)

// Report is the results of a Plan.
type Report struct {
	Protocol string
	Loads    []float64
	Columns  []int // percent of GPU asked for at which allocation is told, ascending
	Policies []PolicyReport
	Planned  int // runs
	Ended    int // runs that went to their end
}

// Partial says whether some runs were stopped or never begun.
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
	Seed        int64
	Load        float64
	Allocated   map[int]float64 // percent of GPU allocated, by percent asked for
	Failed      map[string]Class
	CPUSeconds  float64 // of the run without tuning
	TuneSeconds float64 // CPU that the policy used to tune itself
	Decisions   int
	Impossible  int // pods that fit no node even when it is empty; in Failed too
	Partial     bool
	curve       []sim.Point
}

func (r *Run) fromFGD(f *sim.Run) {
	r.Allocated, r.Decisions, r.Impossible, r.Partial, r.curve = f.Allocated, f.Decisions, f.Impossible, f.Partial, f.Curve
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
	r := &Report{Protocol: p.Protocol, Loads: p.Loads, Planned: len(jobs), Policies: make([]PolicyReport, len(p.Policies))}
	for _, load := range p.Loads {
		r.Columns = append(r.Columns, percentOf(load))
		if p.Protocol == ProtocolFGD && load > 1 {
			r.Columns = append(r.Columns, 100)
		}
	}
	slices.Sort(r.Columns)
	r.Columns = slices.Compact(r.Columns)
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
	whole := slices.ContainsFunc(p.Runs, func(r Run) bool { return !r.Partial })
	sums, counts := map[int]float64{}, map[int]int{}
	for i := range p.Runs {
		if p.Runs[i].Partial && whole {
			continue
		}
		for _, point := range p.Runs[i].curve {
			sums[point.DemandPercent] += point.AllocatedPercent
			counts[point.DemandPercent]++
		}
	}
	for at, n := range counts {
		p.Curve = append(p.Curve, sim.Point{DemandPercent: at, AllocatedPercent: sums[at] / float64(n)})
	}
	slices.SortFunc(p.Curve, func(a, b sim.Point) int { return a.DemandPercent - b.DemandPercent })
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
