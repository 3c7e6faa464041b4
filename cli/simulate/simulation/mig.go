package simulation

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strconv"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/sim"
)

// ProtocolMIG is sim.RunMIG: MIG devices of seeded mixes on GPUs of its own. It
// is run by a MIGPlan, not by a Plan.
const ProtocolMIG = "mig"

// Recuts are when GPUs may be cut again, by their names in flags.
var Recuts = []struct {
	Name string
	When cluster.Recut
}{{"free", cluster.RecutFree}, {"empty", cluster.RecutEmpty}, {"never", cluster.RecutNever}}

// MIGPlan is which MIG placements to compare: every policy with every mix, load
// and seed.
type MIGPlan struct {
	Recut    cluster.Recut
	Loads    []float64
	Seeds    []int64
	Policies []Policy
	Progress func(ended, runs int, done float64) // as in Plan
}

// MIGReport is the results of a MIGPlan.
type MIGReport struct {
	Mixes          []string
	Loads          []float64
	Policies       []MIGPolicy
	Planned, Ended int // runs
}

// Partial reports whether some runs were never begun.
func (r *MIGReport) Partial() bool { return r.Ended < r.Planned }

// MIGPolicy is the runs of one policy.
type MIGPolicy struct {
	Name string
	Runs []MIGRun
}

// MIGRun is one simulation.
type MIGRun struct {
	sim.MIGRun
	Mix        string
	Load       float64
	CPUSeconds float64
}

// Run runs the plan as Plan.Run does. When ctx ends, runs not begun are missing;
// a run that has begun goes on to its end, which is near.
func (p *MIGPlan) Run(ctx context.Context) (*MIGReport, error) {
	type job struct {
		policy int
		mix    sim.MIGMix
		load   float64
		seed   int64
	}
	out := &MIGReport{Loads: p.Loads, Policies: make([]MIGPolicy, len(p.Policies))}
	var jobs []job
	for i := range p.Policies {
		out.Policies[i].Name = p.Policies[i].Name
		for _, mix := range sim.MIGMixes() {
			if i == 0 {
				out.Mixes = append(out.Mixes, mix.Name)
			}
			for _, load := range p.Loads {
				for _, seed := range p.Seeds {
					jobs = append(jobs, job{i, mix, load, seed})
				}
			}
		}
	}
	runs := make([]*MIGRun, len(jobs))
	err := parallel(ctx, len(jobs), p.Progress, func(i int, _ func(arrived, total int) bool) error {
		j := &jobs[i]
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		began := threadSeconds()
		r, err := sim.RunMIG(j.mix, p.Recut, j.load, j.seed, p.Policies[j.policy].Make)
		if err != nil {
			return fmt.Errorf("policy %s, mix %s, seed %d: %w", p.Policies[j.policy].Name, j.mix.Name, j.seed, err)
		}
		runs[i] = &MIGRun{MIGRun: r, Mix: j.mix.Name, Load: j.load, CPUSeconds: threadSeconds() - began}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out.Planned = len(jobs)
	for i, run := range runs {
		if run != nil {
			out.Ended++
			to := &out.Policies[jobs[i].policy]
			to.Runs = append(to.Runs, *run)
		}
	}
	return out, nil
}

// Mean is the mean acceptance and allocation in percent over the runs of a mix
// and load, and whether there are any.
func (p *MIGPolicy) Mean(mix string, load float64) (accepted, allocated float64, ok bool) {
	n := 0.0
	for i := range p.Runs {
		if r := &p.Runs[i]; r.Mix == mix && r.Load == load {
			accepted, allocated, n = accepted+r.Acceptance(), allocated+r.AllocatedMean, n+1
		}
	}
	if n == 0 {
		return 0, 0, false
	}
	return accepted / n, allocated / n, true
}

type jsonMIGReport struct {
	Policies []jsonMIGPolicy `json:"policies"`
	Partial  bool            `json:"partial,omitempty"`
}

type jsonMIGPolicy struct {
	Name string                         `json:"name"`
	Mean map[string]map[string]decimals `json:"mean"` // acceptance by mix and load
	Runs []jsonMIGRun                   `json:"runs"`
}

type jsonMIGRun struct {
	Seed       int64    `json:"seed"`
	Mix        string   `json:"mix"`
	Load       decimals `json:"load"`
	Arrived    int      `json:"arrived"`
	Placed     int      `json:"placed"`
	Accepted   decimals `json:"accepted"`
	Allocated  decimals `json:"allocated"`
	CPUSeconds decimals `json:"cpu_seconds"` //nolint:tagliatelle // a name that programs read
}

// JSON writes r as Report.JSON does; "mean" is the percentage of requests that
// were accepted, by mix and by load in percent.
func (r *MIGReport) JSON() ([]byte, error) {
	out := jsonMIGReport{Policies: []jsonMIGPolicy{}, Partial: r.Partial()}
	for i := range r.Policies {
		p := &r.Policies[i]
		j := jsonMIGPolicy{Name: p.Name, Mean: map[string]map[string]decimals{}, Runs: []jsonMIGRun{}}
		for _, mix := range r.Mixes {
			j.Mean[mix] = map[string]decimals{}
			for _, load := range r.Loads {
				if accepted, _, ok := p.Mean(mix, load); ok {
					j.Mean[mix][strconv.Itoa(percentOf(load))] = decimals{accepted, 2}
				}
			}
		}
		for k := range p.Runs {
			one := &p.Runs[k]
			j.Runs = append(j.Runs, jsonMIGRun{
				Seed: one.Seed, Mix: one.Mix, Load: decimals{one.Load, 2}, Arrived: one.Arrived, Placed: one.Placed,
				Accepted: decimals{one.Acceptance(), 2}, Allocated: decimals{one.AllocatedMean, 2}, CPUSeconds: decimals{one.CPUSeconds, 4},
			})
		}
		out.Policies = append(out.Policies, j)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "    ")
	if err := e.Encode(out); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
