// Package simulation runs many simulations of package sim side by side and adds
// up their results. It reads no file and prints nothing; package cli does.
package simulation

import (
	"context"
	"fmt"
	"math"
	"runtime"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/sim"
)

// The protocols that a Plan knows.
const (
	ProtocolFGD   = "fgd"   // sim.FGD: no pod leaves
	ProtocolChurn = "churn" // sim.Churn: pods leave when they are done
)

// Protocols are the names of all protocols.
var Protocols = []string{ProtocolFGD, ProtocolChurn, ProtocolQueue, ProtocolMIG}

// Policy is a placement policy and its name.
type Policy struct {
	Name string
	Make placement.Maker
}

// Plan is what to simulate: every policy with every load and seed.
type Plan struct {
	Cluster  *cluster.Snapshot // empty; only read
	Held     []cluster.Placement
	Pods     []sim.Pod
	Protocol string
	Loads    []float64 // ProtocolFGD takes one
	Seeds    []int64
	Policies []Policy
	// Progress, if not nil, receives how many runs have ended and how much of
	// all work is done, from 0 to 1. Calls do not overlap.
	Progress func(ended, runs int, done float64)
}

// job is one run of a plan.
type job struct {
	policy, seed int // positions in the plan
	load         float64
}

// Run runs the plan on as many threads as the machine has processors. Results
// are in the plan's order, whichever ends first, and depend on it alone, save
// for the seconds. When ctx ends, runs under way end early and are marked
// partial, and those not begun are missing.
func (p *Plan) Run(ctx context.Context) (*Report, error) {
	var jobs []job
	for i := range p.Policies {
		for k := range p.Seeds {
			for _, load := range p.Loads {
				jobs = append(jobs, job{i, k, load})
			}
		}
	}
	results := make([]*Run, len(jobs))
	err := parallel(ctx, len(jobs), p.Progress, func(i int, step func(arrived, total int) bool) error {
		run, err := p.one(jobs[i], step)
		if err != nil {
			return fmt.Errorf("policy %s, seed %d: %w", p.Policies[jobs[i].policy].Name, p.Seeds[jobs[i].seed], err)
		}
		results[i] = run
		return nil
	})
	if err != nil {
		return nil, err
	}
	return p.report(jobs, results), nil
}

// one runs one simulation on a separate thread, and measures it.
func (p *Plan) one(j job, step func(arrived, total int) bool) (*Run, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	run := &Run{Seed: p.Seeds[j.seed], Load: j.load}
	seed, maker := run.Seed, func(s placement.Setup) placement.Policy {
		s.Tuning = func(tune func()) {
			began := threadSeconds()
			tune()
			run.TuneSeconds += threadSeconds() - began
		}
		return p.Policies[j.policy].Make(s)
	}
	began := threadSeconds()
	switch p.Protocol {
	case ProtocolFGD:
		r, err := sim.FGD{Cluster: p.Cluster, Held: p.Held, Pods: p.Pods, Load: j.load, Policy: maker, Step: step}.Run(seed)
		if err != nil {
			return nil, err
		}
		run.fromFGD(&r, p.columns())
	case ProtocolChurn:
		r, err := sim.Churn{Cluster: p.Cluster, Held: p.Held, Pods: p.Pods, Load: j.load, Policy: maker, Step: step}.Run(seed)
		if err != nil {
			return nil, err
		}
		run.fromChurn(&r)
	default:
		return nil, fmt.Errorf("protocol %q: not one of %v", p.Protocol, Protocols)
	}
	run.CPUSeconds = threadSeconds() - began - run.TuneSeconds
	return run, nil
}

// percentOf is a load as a whole percentage, by which columns are named.
func percentOf(load float64) int { return int(math.Round(100 * load)) }
