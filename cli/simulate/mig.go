package simulate

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"berth.dev/berth/cli/simulate/simulation"
	"berth.dev/berth/cli/term"
)

// recutNames are the values of --recut.
func recutNames() []string {
	var out []string
	for _, r := range simulation.Recuts {
		out = append(out, r.Name)
	}
	return out
}

// runMIG is `berth simulate --protocol mig`: it needs no file and no cluster.
func (s *simulateCommand) runMIG(ctx context.Context, plan *simulation.Plan) error {
	if s.nodes+s.pods+s.chart != "" || s.live || len(s.add)+len(s.cut)+len(s.share) > 0 {
		return term.Usagef("--protocol mig generates nodes and requests: omit --nodes, --pods, --from-cluster, --add, --cut, --share and --chart")
	}
	i := slices.Index(recutNames(), s.recut)
	if i < 0 {
		return term.Usagef("invalid --recut %q: must be one of %s", s.recut, strings.Join(recutNames(), ", "))
	}
	bar := newRunProgress(s.o.Err)
	r, err := (&simulation.MIGPlan{
		Recut: simulation.Recuts[i].When, Loads: plan.Loads, Seeds: plan.Seeds, Policies: plan.Policies, Progress: bar.show,
	}).Run(ctx)
	bar.end()
	if err != nil {
		return err
	}
	if s.output == "json" {
		raw, err := r.JSON()
		if err == nil {
			_, err = term.Exact(s.o.Out).Write(raw)
		}
		if err != nil {
			return err
		}
	} else if err := s.printMIG(r); err != nil {
		return err
	}
	return incomplete(r.Ended, r.Planned)
}

// printMIG is the table of acceptance: a row for each mix and policy.
func (s *simulateCommand) printMIG(r *simulation.MIGReport) error {
	partial := ""
	if r.Partial() {
		partial = "  PARTIAL"
	}
	screen := term.ScreenOf(s.o.Out)
	term.PrintBlock(s.o.Out, screen.Wrapped(fmt.Sprintf("MIG devices on 104 A100 of 40 GB, repartitioning: %s, seeds %s%s", s.recut, s.seeds, partial))+"\n")
	t := &term.Table{Gap: 2, Head: []string{"MIX", "POLICY"}}
	for _, load := range r.Loads {
		at := strconv.FormatFloat(load, 'g', -1, 64)
		t.Head = append(t.Head, "ACCEPTED AT "+at, "HELD AT "+at)
		t.Spare = append(t.Spare, "HELD AT "+at)
	}
	for _, mix := range r.Mixes {
		for i := range r.Policies {
			cells := []string{mix, r.Policies[i].Name}
			for _, load := range r.Loads {
				accepted, held, ok := r.Policies[i].Mean(mix, load)
				if !ok {
					cells = append(cells, "-", "-")
					continue
				}
				cells = append(cells, fmt.Sprintf("%.2f", accepted), fmt.Sprintf("%.2f", held))
			}
			t.Add(cells...)
		}
	}
	if err := t.Write(s.o.Out, screen, false); err != nil {
		return err
	}
	_, err := term.PrintBlock(s.o.Out, screen.Wrapped("ACCEPTED AT L: percent of requests placed when L times all compute slices are requested. HELD: percent of slices allocated."))
	return err
}

// incomplete is the error of a command that was stopped, or nil.
func incomplete(ended, planned int) error {
	if ended == planned {
		return nil
	}
	return fmt.Errorf("interrupted: %d of %d runs completed; results are partial", ended, planned)
}
