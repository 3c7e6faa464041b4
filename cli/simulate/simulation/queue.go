package simulation

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"time"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/forecast"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/sim"
)

// ProtocolQueue is sim.Queue: jobs that wait in a queue until they start. It is run by a QueuePlan, not by a Plan.
const ProtocolQueue = "queue"

// QueuePolicies are the ways to run a queue, by their names in flags. The last is no queue that a cluster could have.
var QueuePolicies = []QueuePolicy{
	{"berth", forecast.Rules{Order: forecast.Slowdown, Reservations: 4, Least: 8}},
	{"berth-order", forecast.Rules{Order: forecast.Slowdown}},
	{"shortest", forecast.Rules{Order: forecast.Shortest}},
	{"easy", forecast.Rules{Reservations: 1}},
	{"best-effort-fifo", forecast.Rules{}},
	{"fifo", forecast.Rules{Strict: true}},
	{QueueExact, forecast.Rules{Order: forecast.Slowdown, Reservations: 4, Least: 8, Exact: true}},
}

// QueueExact is the policy berth where run times are known beforehand. It runs only if it is asked for.
const QueueExact = "berth-exact"

// QueuePolicy is a way to run a queue.
type QueuePolicy struct {
	Name  string
	Rules forecast.Rules
}

// QueuePlan is which ways to compare: each with every load and seed.
type QueuePlan struct {
	Cluster   *cluster.Snapshot // empty; only read
	Pods      []sim.Pod
	Loads     []float64
	Seeds     []int64
	Policies  []QueuePolicy
	Longest   time.Duration                       // see sim.Queue
	Failures  float64                             // see sim.Queue
	Estimates int                                 // see sim.Queue
	Progress  func(ended, runs int, done float64) // as in Plan
}

// QueueReport is the results of a QueuePlan.
type QueueReport struct {
	Loads          []float64
	Policies       []QueuePolicyReport
	Planned, Ended int // runs
}

// Partial reports whether some runs were stopped or never begun.
func (r *QueueReport) Partial() bool { return r.Ended < r.Planned }

// QueuePolicyReport is the runs of one policy.
type QueuePolicyReport struct {
	QueuePolicy
	Runs []QueueRun
}

// QueueRun is one simulation.
type QueueRun struct {
	sim.QueueRun
	Load       float64
	CPUSeconds float64
}

// Run runs the plan as Plan.Run does.
func (p *QueuePlan) Run(ctx context.Context) (*QueueReport, error) {
	type job struct {
		policy int
		load   float64
		seed   int64
	}
	var jobs []job
	out := &QueueReport{Loads: p.Loads, Policies: make([]QueuePolicyReport, len(p.Policies))}
	for i := range p.Policies {
		out.Policies[i].QueuePolicy = p.Policies[i]
		for _, load := range p.Loads {
			for _, seed := range p.Seeds {
				jobs = append(jobs, job{i, load, seed})
			}
		}
	}
	runs := make([]*QueueRun, len(jobs))
	err := parallel(ctx, len(jobs), p.Progress, func(i int, step func(arrived, total int) bool) error {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		j, began := &jobs[i], threadSeconds()
		r, err := sim.Queue{
			Cluster: p.Cluster, Pods: p.Pods, Load: j.load, Rules: p.Policies[j.policy].Rules, Policy: placement.NewBestFit,
			Longest: p.Longest, Failures: p.Failures, Estimates: p.Estimates, Step: step,
		}.Run(j.seed)
		if err != nil {
			return fmt.Errorf("policy %s, load %v, seed %d: %w", p.Policies[j.policy].Name, j.load, j.seed, err)
		}
		runs[i] = &QueueRun{r, j.load, threadSeconds() - began}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out.Planned = len(jobs)
	for i, run := range runs {
		if run == nil {
			continue
		}
		if !run.Partial {
			out.Ended++
			out.Policies[jobs[i].policy].Runs = append(out.Policies[jobs[i].policy].Runs, *run)
		}
	}
	return out, nil
}

// Base is the policy that others are compared with, best-effort-fifo; nil if it was not run.
func (r *QueueReport) Base() *QueuePolicyReport {
	i := slices.IndexFunc(r.Policies, func(p QueuePolicyReport) bool { return p.Name == "best-effort-fifo" })
	if i < 0 {
		return nil
	}
	return &r.Policies[i]
}

// Median is the median of a figure over the runs with a load; ok is false if there is none.
func (p *QueuePolicyReport) Median(load float64, of func(*QueueRun) float64) (median float64, ok bool) {
	var all []float64
	for i := range p.Runs {
		if p.Runs[i].Load == load {
			all = append(all, of(&p.Runs[i]))
		}
	}
	if len(all) == 0 {
		return 0, false
	}
	slices.Sort(all)
	return all[len(all)/2], true
}

// Of returns the run with the load and seed of another; one of zeros if there is none.
func (p *QueuePolicyReport) Of(other *QueueRun) *QueueRun {
	for i := range p.Runs {
		if o := &p.Runs[i]; o.Load == other.Load && o.Seed == other.Seed {
			return o
		}
	}
	return &QueueRun{}
}

// Against is the median over seeds of a figure of a run over that of base's with the same load and seed.
func (p *QueuePolicyReport) Against(base *QueuePolicyReport, load float64, of func(*QueueRun) float64) (ratio float64, ok bool) {
	if base == nil {
		return 0, false
	}
	return p.Median(load, func(r *QueueRun) float64 {
		if b := of(base.Of(r)); b > 0 {
			return of(r) / b
		}
		return 0
	})
}

type jsonQueueRun struct {
	Policy       string      `json:"policy"`
	Load         decimals    `json:"load"`
	Seed         int64       `json:"seed"`
	Jobs         int         `json:"jobs"`
	MeanWait     decimals    `json:"mean_wait_seconds"`   //nolint:tagliatelle // as in other protocols
	MedianWait   decimals    `json:"median_wait_seconds"` //nolint:tagliatelle // as in other protocols
	LargeJobs    int         `json:"large_jobs"`          //nolint:tagliatelle // as in other protocols
	LargeWait    decimals    `json:"large_wait_seconds"`  //nolint:tagliatelle // as in other protocols
	Slowdown99   decimals    `json:"p99_slowdown"`        //nolint:tagliatelle // as in other protocols
	MostSlowdown decimals    `json:"most_slowdown"`       //nolint:tagliatelle // as in other protocols
	Use          decimals    `json:"use_percent"`         //nolint:tagliatelle // as in other protocols
	Done         decimals    `json:"done_seconds"`        //nolint:tagliatelle // as in other protocols
	Fairness     decimals    `json:"fairness"`
	Promises     int         `json:"promises"`
	Late         int         `json:"late"`
	Lost         int         `json:"evictions"`
	LostGPUHours decimals    `json:"lost_gpu_hours"`                     //nolint:tagliatelle // as in other protocols
	Small        *jsonStarts `json:"start_errors_small,omitempty"`       //nolint:tagliatelle // as in other protocols
	Large        *jsonStarts `json:"start_errors_large,omitempty"`       //nolint:tagliatelle // as in other protocols
	Gangs        *jsonStarts `json:"start_errors_gangs,omitempty"`       //nolint:tagliatelle // as in other protocols
	SmallLater   *jsonStarts `json:"start_errors_small_later,omitempty"` //nolint:tagliatelle // as in other protocols
	LargeLater   *jsonStarts `json:"start_errors_large_later,omitempty"` //nolint:tagliatelle // as in other protocols
	GangsLater   *jsonStarts `json:"start_errors_gangs_later,omitempty"` //nolint:tagliatelle // as in other protocols
	CPUSeconds   decimals    `json:"cpu_seconds"`                        //nolint:tagliatelle // as in other protocols
}

type jsonStarts struct {
	Estimates   int      `json:"estimates"`
	Unknown     int      `json:"unknown"`
	MedianError decimals `json:"median_error"` //nolint:tagliatelle // as in other protocols
	Corrected   int      `json:"corrected"`
	Covered     decimals `json:"covered"`
}

func startsOf(e *sim.StartErrors) *jsonStarts {
	if e.Estimates == 0 {
		return nil
	}
	return &jsonStarts{e.Estimates, e.Unknown, decimals{e.MedianError, 3}, e.Corrected, decimals{e.Covered, 3}}
}

// JSON writes r as one object with a list of runs.
func (r *QueueReport) JSON() ([]byte, error) {
	out := struct {
		Runs    []jsonQueueRun `json:"runs"`
		Partial bool           `json:"partial,omitempty"`
	}{[]jsonQueueRun{}, r.Partial()}
	for i := range r.Policies {
		p := &r.Policies[i]
		for k := range p.Runs {
			one := &p.Runs[k]
			out.Runs = append(out.Runs, jsonQueueRun{
				Policy: p.Name, Load: decimals{one.Load, 2}, Seed: one.Seed, Jobs: one.Jobs, MeanWait: decimals{one.MeanWait, 1},
				MedianWait: decimals{one.MedianWait, 1}, LargeJobs: one.LargeJobs, LargeWait: decimals{one.LargeWait, 1},
				Slowdown99: decimals{one.Slowdown99, 2}, MostSlowdown: decimals{one.MostSlowdown, 2}, Use: decimals{one.UsePercent, 2},
				Done: decimals{one.Done, 0}, Fairness: decimals{one.Fairness, 3}, Promises: one.Promises, Late: one.Late,
				Lost: one.Lost, LostGPUHours: decimals{one.LostGPUHours, 1},
				Small: startsOf(&one.Starts[sim.SmallJobs]), Large: startsOf(&one.Starts[sim.LargeJobs]), Gangs: startsOf(&one.Starts[sim.GangJobs]),
				SmallLater: startsOf(&one.Later[sim.SmallJobs]), LargeLater: startsOf(&one.Later[sim.LargeJobs]), GangsLater: startsOf(&one.Later[sim.GangJobs]),
				CPUSeconds: decimals{one.CPUSeconds, 3},
			})
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "    ")
	if err := e.Encode(out); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
