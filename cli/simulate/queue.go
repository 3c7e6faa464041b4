package simulate

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"

	"berth.dev/berth/cli/simulate/chart"
	"berth.dev/berth/cli/simulate/simulation"
	"berth.dev/berth/cli/term"
	snapshot "berth.dev/berth/core/cluster"
	"berth.dev/berth/sim"
)

// aboutNodes is how many nodes are simulated if --every is not set.
const aboutNodes = 64

// queueNames are the policies of --protocol queue.
func queueNames() []string {
	var out []string
	for _, p := range simulation.QueuePolicies {
		out = append(out, p.Name)
	}
	return out
}

// queuePlan reads the flags that say what to run.
func (s *simulateCommand) queuePlan(plan *simulation.Plan) (*simulation.QueuePlan, error) {
	p := &simulation.QueuePlan{Loads: plan.Loads, Seeds: plan.Seeds, Failures: s.failures, Estimates: s.estimates}
	names := s.policies
	if len(names) == 0 {
		names = slices.DeleteFunc(queueNames(), func(name string) bool { return name == simulation.QueueExact })
	}
	var err error
	p.Policies, err = policiesOf(names, queueNames(), " of protocol queue", func(name string) (simulation.QueuePolicy, bool) {
		i := slices.IndexFunc(simulation.QueuePolicies, func(q simulation.QueuePolicy) bool { return q.Name == name })
		if i < 0 {
			return simulation.QueuePolicy{}, false
		}
		return simulation.QueuePolicies[i], true
	})
	if err != nil {
		return nil, err
	}
	switch {
	case s.live && !s.empty:
		return nil, term.Usagef("--protocol queue starts with an empty cluster: add --empty")
	case s.every < 0:
		return nil, term.Usagef("invalid --every %d: must be 1 or more, or omitted for about %d nodes", s.every, aboutNodes)
	case !(s.failures >= 0 && s.failures <= 1000):
		return nil, term.Usagef("invalid --failures %v: must be from 0 to 1000, of each node in 30 days", s.failures)
	case s.estimates < 0:
		return nil, term.Usagef("invalid --estimates %d: must not be negative", s.estimates)
	}
	return p, nil
}

// runQueue is `berth simulate --protocol queue`.
func (s *simulateCommand) runQueue(ctx context.Context, plan *simulation.Plan) error {
	p, err := s.queuePlan(plan)
	if err != nil {
		return err
	}
	in, err := s.read(ctx)
	if err != nil {
		return err
	}
	every := cmp.Or(s.every, max(1, (len(in.nodes)+aboutNodes/2)/aboutNodes))
	if p.Cluster, err = snapshot.New(sim.Every(every, in.nodes)); err != nil {
		return err
	}
	if p.Pods = in.pods; s.gangs {
		p.Pods, p.Longest = sim.WithGangs(in.pods), sim.LongestGang
	}
	if p.Cluster.TotalGPUs() == 0 {
		return fmt.Errorf("%s: no node has a GPU", in.from)
	}
	for _, note := range in.notes {
		term.PrintLine(s.o.Err, note)
	}
	bar := newRunProgress(s.o.Err)
	p.Progress = bar.show
	r, err := p.Run(ctx)
	bar.end()
	if err != nil {
		return err
	}
	c := queueChart(in.from, r)
	if s.chart != "" {
		if err := os.WriteFile(s.chart, c.SVG(), 0o644); err != nil {
			return fmt.Errorf("draw the chart: %w", err)
		}
		term.Printf(s.o.Err, "chart: %s\n", s.chart)
	}
	if s.output == "json" {
		raw, err := r.JSON()
		if err == nil {
			_, err = term.Exact(s.o.Out).Write(raw)
		}
		if err != nil {
			return err
		}
		return incomplete(r.Ended, r.Planned)
	}
	if err := s.printQueue(in, p, r, every, c); err != nil {
		return err
	}
	return incomplete(r.Ended, r.Planned)
}

// printQueue prints a row for each load and policy, and the chart.
func (s *simulateCommand) printQueue(in simulateInput, p *simulation.QueuePlan, r *simulation.QueueReport, every int, c *chart.Chart) error {
	partial := ""
	if r.Partial() {
		partial = "  PARTIAL"
	}
	of := ""
	if every > 1 {
		of = fmt.Sprintf(" (1 of %d)", every)
	}
	screen := term.ScreenOf(s.o.Out)
	term.PrintBlock(s.o.Out, screen.Wrapped(fmt.Sprintf("%s on %s nodes%s with %s GPUs, protocol queue, seeds %s%s", in.from,
		thousands(p.Cluster.Len()), of, thousands(p.Cluster.TotalGPUs()), s.seeds, partial))+"\n")
	t := &term.Table{Gap: 2, Head: []string{"POLICY", "LOAD", "WAIT", "OF FIFO", "LARGE", "SLOW 99%", "SLOW MAX", "USE", "DONE", "FAIR", "LATE"}}
	t.Spare = []string{"LOST GPU-H", "DONE", "FAIR", "SLOW MAX", "LATE", "USE"}
	if p.Failures > 0 {
		t.Head = append(t.Head, "LOST GPU-H")
	}
	for _, load := range r.Loads {
		for i := range r.Policies {
			t.Add(queueCells(&r.Policies[i], r.Base(), load, p.Failures > 0)...)
		}
	}
	if err := t.Write(s.o.Out, screen, false); err != nil {
		return err
	}
	term.PrintBlock(s.o.Out, screen.Wrapped("WAIT: mean wait in hours, and OF FIFO: over that of best-effort-fifo. LARGE: the same of jobs with 8 GPUs or more.",
		"SLOW: time from submission to end over run time, at least 10 minutes; the 99th percentile and the largest.",
		"USE: percent of the GPUs used while jobs came. DONE: days until all had ended. FAIR: Jain's index over teams.",
		"LATE: percent of reservations whose job started more than 10 minutes later. All are medians of the seeds."))
	if err := s.printAgainst(r, screen); err != nil {
		return err
	}
	if p.Estimates > 0 {
		if err := s.printStarts(r, screen); err != nil {
			return err
		}
	}
	if text := c.Text(min(cmp.Or(screen.Width, term.PlainWidth), 120), 14, styleOf(s.o.Out)); text != "" {
		term.PrintBlock(s.o.Out, term.Block("\n"+text))
	}
	return nil
}

// queueCells are the figures of a policy with a load.
func queueCells(p, base *simulation.QueuePolicyReport, load float64, failures bool) []string {
	cells := []string{p.Name, strconv.FormatFloat(load, 'g', -1, 64)}
	add := func(digits int, v float64, ok bool) {
		text := "-"
		if ok {
			text = strconv.FormatFloat(v, 'f', digits, 64)
		}
		cells = append(cells, text)
	}
	figure := func(digits int, of func(*simulation.QueueRun) float64) {
		v, ok := p.Median(load, of)
		add(digits, v, ok)
	}
	figure(2, func(r *simulation.QueueRun) float64 { return r.MeanWait / 3600 })
	ratio, ok := p.Against(base, load, func(r *simulation.QueueRun) float64 { return r.MeanWait })
	add(2, ratio, ok)
	figure(1, func(r *simulation.QueueRun) float64 { return r.LargeWait / 3600 })
	figure(0, func(r *simulation.QueueRun) float64 { return r.Slowdown99 })
	figure(0, func(r *simulation.QueueRun) float64 { return r.MostSlowdown })
	figure(1, func(r *simulation.QueueRun) float64 { return r.UsePercent })
	figure(1, func(r *simulation.QueueRun) float64 { return r.Done / 86400 })
	figure(2, func(r *simulation.QueueRun) float64 { return r.Fairness })
	if p.Rules.Reservations > 0 {
		figure(1, func(r *simulation.QueueRun) float64 { return 100 * float64(r.Late) / float64(max(r.Promises, 1)) })
	} else {
		cells = append(cells, "-")
	}
	if failures {
		figure(0, func(r *simulation.QueueRun) float64 { return r.LostGPUHours })
	}
	return cells
}

// printAgainst prints how each policy compares with the base: a ratio for each figure, the difference for the use of GPUs.
func (s *simulateCommand) printAgainst(r *simulation.QueueReport, screen term.Screen) error {
	base := r.Base()
	if base == nil || len(base.Runs) == 0 || len(r.Policies) == 1 {
		return nil
	}
	term.PrintBlock(s.o.Out, "\n"+screen.Wrapped(fmt.Sprintf("The same as ratios to %s with the same seed, and for USE the difference in points:", base.Name)))
	t := &term.Table{Gap: 2, Head: []string{"POLICY", "LOAD", "WAIT", "LARGE", "SLOW 99%", "SLOW MAX", "USE", "DONE"}}
	for _, load := range r.Loads {
		for i := range r.Policies {
			p := &r.Policies[i]
			if p.Name == base.Name {
				continue
			}
			cells := []string{p.Name, strconv.FormatFloat(load, 'g', -1, 64)}
			add := func(format string, v float64, ok bool) {
				text := "-"
				if ok {
					text = fmt.Sprintf(format, v)
				}
				cells = append(cells, text)
			}
			ratio := func(of func(*simulation.QueueRun) float64) {
				v, ok := p.Against(base, load, of)
				add("%.2f", v, ok)
			}
			ratio(func(r *simulation.QueueRun) float64 { return r.MeanWait })
			ratio(func(r *simulation.QueueRun) float64 { return r.LargeWait })
			ratio(func(r *simulation.QueueRun) float64 { return r.Slowdown99 })
			ratio(func(r *simulation.QueueRun) float64 { return r.MostSlowdown })
			points, ok := p.Median(load, func(r *simulation.QueueRun) float64 { return r.UsePercent - base.Of(r).UsePercent })
			add("%+.1f", points, ok)
			ratio(func(r *simulation.QueueRun) float64 { return r.Done })
			t.Add(cells...)
		}
	}
	return t.Write(s.o.Out, screen, false)
}

// startKinds are the kinds of estimates that are measured apart: the sizes of jobs, first when they came, then later.
var startKinds = []struct {
	size, when string
	of         func(*simulation.QueueRun) *sim.StartErrors
}{
	{"under 4", "first", func(r *simulation.QueueRun) *sim.StartErrors { return &r.Starts[sim.SmallJobs] }},
	{"4 and more", "first", func(r *simulation.QueueRun) *sim.StartErrors { return &r.Starts[sim.LargeJobs] }},
	{"gangs", "first", func(r *simulation.QueueRun) *sim.StartErrors { return &r.Starts[sim.GangJobs] }},
	{"under 4", "later", func(r *simulation.QueueRun) *sim.StartErrors { return &r.Later[sim.SmallJobs] }},
	{"4 and more", "later", func(r *simulation.QueueRun) *sim.StartErrors { return &r.Later[sim.LargeJobs] }},
	{"gangs", "later", func(r *simulation.QueueRun) *sim.StartErrors { return &r.Later[sim.GangJobs] }},
}

// printStarts prints how wrong the estimated starts were.
func (s *simulateCommand) printStarts(r *simulation.QueueReport, screen term.Screen) error {
	term.PrintBlock(s.o.Out, "\n"+screen.Wrapped("Starts that were estimated for jobs that had to wait, when they came and later:"))
	t := &term.Table{Gap: 2, Head: []string{"POLICY", "LOAD", "GPUS", "WHEN", "MADE", "UNKNOWN", "ERROR", "WITHIN P90"}, Spare: []string{"UNKNOWN", "MADE"}}
	for _, load := range r.Loads {
		for i := range r.Policies {
			p := &r.Policies[i]
			for _, kind := range startKinds {
				made, ok := p.Median(load, func(r *simulation.QueueRun) float64 { return float64(kind.of(r).Estimates) })
				if !ok || made == 0 {
					continue
				}
				unknown, _ := p.Median(load, func(r *simulation.QueueRun) float64 { return float64(kind.of(r).Unknown) })
				corrected, _ := p.Median(load, func(r *simulation.QueueRun) float64 { return float64(kind.of(r).Corrected) })
				wrong, within := "-", "-"
				if v, _ := p.Median(load, func(r *simulation.QueueRun) float64 { return kind.of(r).MedianError }); unknown < made {
					wrong = fmt.Sprintf("%.2f", v)
				}
				if v, _ := p.Median(load, func(r *simulation.QueueRun) float64 { return 100 * kind.of(r).Covered }); corrected > 0 {
					within = fmt.Sprintf("%.0f%% of %.0f", v, corrected)
				}
				t.Add(p.Name, strconv.FormatFloat(load, 'g', -1, 64), kind.size, kind.when, fmt.Sprintf("%.0f", made), fmt.Sprintf("%.0f", unknown), wrong, within)
			}
		}
	}
	if err := t.Write(s.o.Out, screen, false); err != nil {
		return err
	}
	term.PrintBlock(s.o.Out, screen.Wrapped("WHEN: first is when they came, later after waits of 1, 4, and 16 hours. MADE: estimates.",
		"UNKNOWN: more than three days.",
		"ERROR: median of the difference to the wait that came, over that wait or 10 minutes.",
		"WITHIN P90: the part that started by the time for nine of ten, of those that had one."))
	return nil
}

// queueChart is how long jobs wait, from those that wait least to those that wait most, with the largest load.
func queueChart(from string, r *simulation.QueueReport) *chart.Chart {
	load := slices.Max(r.Loads)
	c := &chart.Chart{Title: fmt.Sprintf("Wait at load %v: %s", load, from), X: "jobs, %, by their wait", Y: "wait, hours", From: 0}
	for i := range r.Policies {
		p := &r.Policies[i]
		line := chart.Series{Name: p.Name}
		for at := range sim.WaitPercents {
			if v, ok := p.Median(load, func(r *simulation.QueueRun) float64 { return r.Waits[at] / 3600 }); ok && p.Name != "fifo" {
				line.Points = append(line.Points, chart.Point{X: float64(at), Y: v})
			}
		}
		if len(line.Points) > 0 {
			c.Series = append(c.Series, line)
		}
	}
	return c
}
