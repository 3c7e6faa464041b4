package simulate

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"berth.dev/berth/cli/simulate/simulation"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/sim"
)

// reportTable has a row for each policy and load, and lines to stand below it.
func reportTable(r *simulation.Report) (*term.Table, []string) {
	t := &term.Table{Gap: 2, Head: leadHead(r)}
	lead := len(t.Head)
	t.Head = append(append(t.Head, classHead()...), "RUN S", "TUNE S", "US EACH")
	t.Spare = []string{"US EACH", "TUNE S", "RUN S", "AT 110%", "AT 120%", "AT 90%", "<500", ">=500", "CPU", "2", "4"}
	base := comparedWith(r)
	alarms := map[[2]int]bool{}
	remarks := legend(r, base)
	for _, load := range r.Loads {
		for i := range r.Policies {
			p := &r.Policies[i]
			cells := leadCells(r, p, load)
			var worse []string
			for k, class := range sim.Classes {
				cell, over := rateText(p, base, class, load)
				if over > 0 {
					alarms[[2]int{len(t.Rows), lead + k}] = true
					worse = append(worse, fmt.Sprintf("%s by %.1f", class, over))
				}
				cells = append(cells, cell)
			}
			if len(worse) > 0 {
				at := ""
				if len(r.Loads) > 1 {
					at = fmt.Sprintf(" at load %v", load)
				}
				remarks = append(remarks, fmt.Sprintf("! %s fails more than %s%s, in points: %s.", p.Name, base.Name, at, strings.Join(worse, ", ")))
			}
			t.Add(append(cells, costCells(p, load)...)...)
		}
	}
	t.Alarm = func(row, column int) bool { return alarms[[2]int{row, column}] }
	return t, remarks
}

// waitTable has the mean wait of each class; of protocol churn only.
func waitTable(r *simulation.Report) *term.Table {
	t := &term.Table{Gap: 2, Head: append(leadHead(r), classHead()...), Spare: []string{"<500", ">=500", "2", "4"}}
	for _, load := range r.Loads {
		for i := range r.Policies {
			cells := leadCells(r, &r.Policies[i], load)
			for _, class := range sim.Classes {
				cell := "-"
				if _, ok := r.Policies[i].Rate(class, load); ok {
					cell = fmt.Sprintf("%.0f", r.Policies[i].Wait(class, load))
				}
				cells = append(cells, cell)
			}
			t.Add(cells...)
		}
	}
	return t
}

func leadHead(r *simulation.Report) []string {
	if r.Protocol == simulation.ProtocolChurn {
		return []string{"POLICY", "LOAD", "ALLOCATED"}
	}
	head := []string{"POLICY"}
	for _, at := range r.Columns {
		head = append(head, fmt.Sprintf("AT %d%%", at))
	}
	return head
}

func leadCells(r *simulation.Report, p *simulation.PolicyReport, load float64) []string {
	if r.Protocol == simulation.ProtocolChurn {
		return []string{p.Name, strconv.FormatFloat(load, 'g', -1, 64), meanText(p, int(math.Round(100*load)))}
	}
	cells := []string{p.Name}
	for _, at := range r.Columns {
		cells = append(cells, meanText(p, at))
	}
	return cells
}

// classHead heads the columns of sim.Classes.
func classHead() []string {
	var head []string
	for _, class := range sim.Classes {
		head = append(head, strings.ToUpper(strings.TrimPrefix(class, "share")))
	}
	return head
}

// legend says what the columns are.
func legend(r *simulation.Report, base *simulation.PolicyReport) []string {
	what := "AT N%: GPU allocated, in percent of all, when pods have requested N%."
	if r.Protocol == simulation.ProtocolChurn {
		what = "ALLOCATED: GPU allocated, in percent of all, mean over time after one mean run time."
	}
	out := []string{what, "CPU to 8: percent of failed pods without GPU, with a share (milli-GPUs), and with 1, 2, 4, and 8 GPUs."}
	if base != nil {
		out = append(out, fmt.Sprintf("! more than under %s.", base.Name))
	}
	return append(out, "RUN S, TUNE S: CPU seconds of a run and of its tuning. US EACH: CPU microseconds per decision.")
}

// comparedWith returns the first policy that is not Berth's own; nil where none is, or
// where there is nothing to hold against it.
func comparedWith(r *simulation.Report) *simulation.PolicyReport {
	i := slices.IndexFunc(r.Policies, func(p simulation.PolicyReport) bool { return !strings.HasPrefix(p.Name, "berth") })
	if i < 0 || len(r.Policies) == 1 {
		return nil
	}
	return &r.Policies[i]
}

func meanText(p *simulation.PolicyReport, at int) string {
	v, ok := p.Mean[at]
	if !ok {
		return "-"
	}
	return fmt.Sprintf("%.2f", v)
}

// rateText is the failures of a class, marked where they are more than the
// baseline's as shown, and by how many points they are more.
func rateText(p, base *simulation.PolicyReport, class string, load float64) (cell string, over float64) {
	rate, ok := p.Rate(class, load)
	if !ok {
		return "-", 0
	}
	cell = fmt.Sprintf("%.1f", rate)
	if base == nil || base == p {
		return cell, 0
	}
	of, ok := base.Rate(class, load)
	if over = math.Round(10*rate) - math.Round(10*of); !ok || over <= 0 {
		return cell, 0
	}
	return cell + "!", over / 10
}

// costCells are what a policy costs: CPU of a run, of its tuning, and of one
// decision.
func costCells(p *simulation.PolicyReport, load float64) []string {
	runs, cpu, tune, decisions := p.Total(load)
	if runs == 0 {
		return []string{"-", "-", "-"}
	}
	each := "-"
	if decisions > 0 {
		each = fmt.Sprintf("%.1f", cpu/float64(decisions)*1e6)
	}
	return []string{fmt.Sprintf("%.3f", cpu/float64(runs)), fmt.Sprintf("%.3f", tune/float64(runs)), each}
}
