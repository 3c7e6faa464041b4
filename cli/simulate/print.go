package simulate

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"berth.dev/berth/cli/simulate/chart"
	"berth.dev/berth/cli/simulate/simulation"
	"berth.dev/berth/cli/term"
)

// print writes the report in the form asked for.
func (s *simulateCommand) print(in simulateInput, plan *simulation.Plan, r *simulation.Report) error {
	c := s.chartOf(in, r)
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
		return err
	}
	screen := term.ScreenOf(s.o.Out)
	partial := ""
	if r.Partial() {
		partial = "  PARTIAL"
	}
	term.PrintBlock(s.o.Out, screen.Wrapped(fmt.Sprintf("%s: %s pods on %s nodes with %s GPUs, protocol %s, seeds %s%s", in.from, thousands(len(plan.Pods)),
		thousands(plan.Cluster.Len()), thousands(plan.Cluster.TotalGPUs()), r.Protocol, s.seeds, partial))+"\n")
	t, remarks := reportTable(r)
	if err := t.Write(s.o.Out, screen, false); err != nil {
		return err
	}
	term.PrintBlock(s.o.Out, screen.Wrapped(remarks...))
	if r.Protocol == simulation.ProtocolChurn {
		term.Printf(s.o.Out, "\nMean wait of placed pods, in seconds:\n")
		return waitTable(r).Write(s.o.Out, screen, false)
	}
	if text := c.Text(min(cmp.Or(screen.Width, term.PlainWidth), 120), 14, styleOf(s.o.Out)); text != "" {
		term.PrintBlock(s.o.Out, term.Block("\n"+text))
	}
	return nil
}

// chartOf is allocation against demand, from a little before the best policy
// falls behind.
func (s *simulateCommand) chartOf(in simulateInput, r *simulation.Report) *chart.Chart {
	c := &chart.Chart{
		Title: "GPU allocated: " + in.from, X: "GPU requested by the pods that have arrived, % of all", Y: "GPU allocated, % of all",
	}
	best := map[int]float64{}
	for _, p := range r.Policies {
		line := chart.Series{Name: p.Name}
		for _, point := range p.Curve {
			line.Points = append(line.Points, chart.Point{X: float64(point.DemandPercent), Y: point.AllocatedPercent})
			best[point.DemandPercent] = max(best[point.DemandPercent], point.AllocatedPercent)
		}
		c.Series = append(c.Series, line)
	}
	for _, at := range slices.Sorted(maps.Keys(best)) {
		if best[at] < float64(at)-1 {
			c.From = max(0, 10*math.Floor(float64(at)/10-0.5))
			break
		}
	}
	return c
}

// styleOf is how charts are drawn on w: with braille and colors where it is a
// terminal that has them, else in ASCII.
func styleOf(w io.Writer) chart.Style {
	locale := cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_CTYPE"), os.Getenv("LANG"))
	wide := strings.Contains(strings.ToUpper(strings.ReplaceAll(locale, "-", "")), "UTF8")
	fine := term.ScreenOf(w).Color && wide
	return chart.Style{Unicode: fine, Color: fine}
}

// thousands writes 12130 as 12,130.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
