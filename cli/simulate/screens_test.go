package simulate

import (
	"fmt"
	"io"
	"testing"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/simulate/simulation"
	snapshot "berth.dev/berth/core/cluster"
	"berth.dev/berth/core/forecast"
	"berth.dev/berth/sim"
	"berth.dev/berth/test/screen"
)

// policies are Berth's and three that it is compared with.
var policies = []string{"berth", "fgd", "first-fit", "best-fit-by-packing"}

// placements is a report of protocols fgd and churn.
func placements(protocol string, loads ...float64) *simulation.Report {
	r := &simulation.Report{Protocol: protocol, Loads: loads, Planned: 4, Ended: 4}
	if protocol == simulation.ProtocolFGD {
		r.Columns = []int{90, 100, 110, 130}
	}
	for i, name := range policies {
		p := simulation.PolicyReport{Name: name, Mean: map[int]float64{}}
		for _, at := range []int{50, 90, 100, 110, 120, 130} {
			p.Mean[at] = min(float64(at), 96.08-float64(i))
		}
		for _, load := range loads {
			run := simulation.Run{Seed: 1, Load: load, Failed: map[string]simulation.Class{}, CPUSeconds: 1.25, TuneSeconds: 0.5, Decisions: 100_000}
			for k, class := range sim.Classes {
				run.Failed[class] = simulation.Class{Pods: 100, Failed: (i + 1) * k, WaitSeconds: float64(1000 * k * (i + 1))}
			}
			p.Runs = append(p.Runs, run)
		}
		for at := 50; at <= 130; at += 5 {
			p.Curve = append(p.Curve, sim.Point{DemandPercent: at, AllocatedPercent: min(float64(at), 96.08-float64(i))})
		}
		r.Policies = append(r.Policies, p)
	}
	return r
}

// waits is a report of protocol queue.
func waits() *simulation.QueueReport {
	r := &simulation.QueueReport{Loads: []float64{0.9, 1.1}, Planned: 4, Ended: 4}
	for i, name := range []string{"best-effort-fifo", "berth"} {
		p := simulation.QueuePolicyReport{QueuePolicy: simulation.QueuePolicy{Name: name, Rules: forecast.Rules{Reservations: i}}}
		for _, load := range r.Loads {
			run := simulation.QueueRun{Load: load}
			run.Seed, run.MeanWait, run.LargeWait, run.Slowdown99, run.MostSlowdown = 1, load*30_000/float64(i+1), load*90_000, 1234, 56_789
			run.UsePercent, run.Done, run.Fairness, run.Promises, run.Late, run.LostGPUHours = 91.5, 1_300_000, 0.87, 40, 2, 321
			run.Starts[sim.SmallJobs] = sim.StartErrors{Estimates: 100, Unknown: 7, MedianError: 0.42, Covered: 0.91, Corrected: 80}
			run.Starts[sim.LargeJobs] = sim.StartErrors{Estimates: 12, Unknown: 12}
			run.Later[sim.SmallJobs] = sim.StartErrors{Estimates: 120, Unknown: 8, MedianError: 0.61, Covered: 0.82, Corrected: 90}
			run.Later[sim.GangJobs] = sim.StartErrors{Estimates: 6, MedianError: 1.5}
			for at := range run.Waits {
				run.Waits[at] = float64(at * at * 20 / (i + 1))
			}
			p.Runs = append(p.Runs, run)
		}
		r.Policies = append(r.Policies, p)
	}
	return r
}

// cuts is a report of protocol mig.
func cuts() *simulation.MIGReport {
	r := &simulation.MIGReport{Mixes: []string{"uniform", "both ends"}, Loads: []float64{0.85, 1.3}}
	for _, name := range []string{"berth", "first-fit"} {
		p := simulation.MIGPolicy{Name: name}
		for _, mix := range r.Mixes {
			for _, load := range r.Loads {
				p.Runs = append(p.Runs, simulation.MIGRun{MIGRun: sim.MIGRun{Arrived: 1000, Placed: 812, AllocatedMean: 93.21}, Mix: mix, Load: load})
			}
		}
		r.Policies = append(r.Policies, p)
	}
	return r
}

func TestTheTablesOnScreens(t *testing.T) {
	nodes, err := snapshot.New([]snapshot.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	in := simulateInput{from: "pods_default.csv"}
	for _, c := range []struct {
		file  string
		print func(s *simulateCommand) error
	}{
		{"fgd", func(s *simulateCommand) error {
			return s.print(in, &simulation.Plan{Cluster: nodes}, placements(simulation.ProtocolFGD, 1.3))
		}},
		{"churn", func(s *simulateCommand) error {
			return s.print(in, &simulation.Plan{Cluster: nodes}, placements(simulation.ProtocolChurn, 0.5, 1.2))
		}},
		{"queue", func(s *simulateCommand) error {
			r := waits()
			return s.printQueue(in, &simulation.QueuePlan{Cluster: nodes, Failures: 1, Estimates: 5}, r, 19, queueChart(in.from, r))
		}},
		{"mig", func(s *simulateCommand) error { return s.printMIG(cuts()) }},
	} {
		t.Run(c.file, func(t *testing.T) {
			screen.File(t, fmt.Sprintf("screens_%s.txt", c.file), func(w io.Writer) {
				if err := c.print(&simulateCommand{o: client.Options{Out: w, Err: w}, seeds: "1-4", recut: "free"}); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}
