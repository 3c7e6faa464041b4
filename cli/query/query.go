// Package query is `berth query`: readings of GPUs, holders, queues, and cost, by an expression of PromQL.
package query

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/simulate/chart"
	"berth.dev/berth/cli/term"
)

// mostLines is how many series a chart shows.
const mostLines = 8

// command is `berth query`.
type command struct {
	o       client.Options
	cluster client.Flags
	output  term.Output
	since   string
}

// New makes `berth query`.
func New(o client.Options) *cobra.Command {
	c := &command{o: o}
	cmd := &cobra.Command{
		Use:   "query EXPRESSION",
		Short: "Show readings of GPUs, holders, queues, and cost, by an expression of PromQL",
		Long: "Show what an expression of Prometheus' query language gives: a table of now, or with --since a chart. The readings of the last 24 hours are\n" +
			"kept by `berth up`, and by `berth meter` in other clusters; docs/metrics.md lists them.",
		Example: "  berth query 'DCGM_FI_DEV_GPU_TEMP > 60'\n" +
			"  berth query 'sum by (namespace) (berth_gpu_held)'\n" +
			"  berth query 'avg(berth:gpu_util:ratio)' --since 2h",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args[0]) },
	}
	c.cluster.AddFlags(cmd, false)
	cmd.Flags().StringVar(&c.since, "since", "", "show how it was since then: a duration such as 2h or 7d, or a day such as 2026-11-02")
	c.output.AddFlags(cmd, term.Rows{Kind: "SeriesList", Row: Series{}})
	return cmd
}

// Series is one series that an expression gives.
type Series struct {
	Labels map[string]string `json:"labels"`
	Values []Value           `json:"values"` // one for an expression of now
}

// Value is a sample. It is text, as JSON has no NaN and no infinity.
type Value struct {
	Time  time.Time `json:"time"`
	Value string    `json:"value"`
}

// UnmarshalJSON reads a pair of seconds and text.
func (v *Value) UnmarshalJSON(raw []byte) error {
	var seconds float64
	if err := json.Unmarshal(raw, &[]any{&seconds, &v.Value}); err != nil {
		return err
	}
	v.Time = time.UnixMilli(int64(seconds * 1000)).UTC()
	return nil
}

func (c *command) run(ctx context.Context, expr string) error {
	if err := c.output.Check(); err != nil {
		return err
	}
	params := map[string]string{"query": expr}
	question := "query"
	if c.since != "" {
		from, to, err := client.Since(c.since, c.o.Time())
		if err != nil {
			return err
		}
		question = "query_range"
		params["start"], params["end"] = from.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339)
		params["step"] = strconv.Itoa(max(15, int(to.Sub(from).Seconds())/240/15*15))
	}
	cluster, err := c.cluster.Connect(c.o)
	if err != nil {
		return err
	}
	list, err := Ask(ctx, cluster, question, params)
	if err != nil {
		return err
	}
	return c.print(list)
}

// Ask has the readings of a cluster answer query or query_range. A single number is a series without labels.
func Ask(ctx context.Context, cluster *client.Cluster, question string, params map[string]string) ([]Series, error) {
	var answer struct {
		Type   string          `json:"resultType"`
		Result json.RawMessage `json:"result"`
	}
	if err := cluster.Prometheus(ctx, question, params, &answer); err != nil {
		return nil, err
	}
	var list []struct {
		Metric map[string]string
		Value  *Value
		Values []Value
	}
	if answer.Type == "scalar" || answer.Type == "string" {
		var one Value
		if err := json.Unmarshal(answer.Result, &one); err != nil {
			return nil, fmt.Errorf("read the answer: %w", err)
		}
		return []Series{{Values: []Value{one}}}, nil
	}
	if err := json.Unmarshal(answer.Result, &list); err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	out := make([]Series, 0, len(list))
	for _, s := range list {
		if s.Value != nil {
			s.Values = []Value{*s.Value}
		}
		out = append(out, Series{s.Metric, s.Values})
	}
	slices.SortStableFunc(out, func(a, b Series) int { return strings.Compare(name(a.Labels), name(b.Labels)) })
	return out, nil
}

// name is the labels of a series as PromQL writes them.
func name(ls map[string]string) string {
	var parts []string
	for _, l := range slices.Sorted(maps.Keys(ls)) {
		if l != "__name__" {
			parts = append(parts, l+"="+strconv.Quote(ls[l]))
		}
	}
	return ls["__name__"] + "{" + strings.Join(parts, ", ") + "}"
}

func (c *command) print(list []Series) error {
	switch {
	case c.output.Object():
		return term.Write(c.o.Out, &c.output, term.NewList("SeriesList", list))
	case len(list) == 0:
		term.PrintLine(c.o.Err, "no series; berth query 'count by (__name__) ({__name__=~\".+\"})' lists all there are")
		return nil
	case c.output.Format == term.OutputName:
		for _, s := range list {
			term.PrintLine(c.o.Out, name(s.Labels))
		}
		return nil
	case c.since != "":
		return c.chart(list)
	}
	return c.table(list)
}

// table has a column for each label that differs, and the value.
func (c *command) table(list []Series) error {
	columns := differing(list)
	t := &term.Table{Gap: 2}
	for _, l := range columns {
		t.Head = append(t.Head, strings.ToUpper(strings.Trim(l, "_")))
	}
	t.Head = append(t.Head, "VALUE")
	for _, s := range list {
		var row []string
		for _, l := range columns {
			v := s.Labels[l]
			if v == "" {
				v = "-"
			}
			row = append(row, v)
		}
		t.Add(append(row, short(s.Values[len(s.Values)-1].Value))...)
	}
	t.Spare = spare(t)
	if err := t.Write(c.o.Out, c.output.Screen(c.o.Out), c.output.NoHeaders); err != nil {
		return err
	}
	if same := common(list, columns); same != "" && term.IsTerminal(c.o.Out) {
		term.PrintLine(c.o.Err, "all have "+same)
	}
	return nil
}

// sparedFirst are parts of heads whose labels say what others say too, or what a screen that is too narrow is better without.
var sparedFirst = []string{"MODELNAME", "DRIVER", "PCI", "UUID", "CONTAINER", "DEVICE"}

// spare is the order in which columns are left out: those of sparedFirst, then the widest. The value, which is the last column, never is.
func spare(t *term.Table) []string {
	width := map[string]int{}
	for i, head := range t.Head[:len(t.Head)-1] {
		for _, row := range t.Rows {
			width[head] = max(width[head], len(head), len(row[i]))
		}
		for k, part := range sparedFirst {
			if strings.Contains(head, part) {
				width[head] += 1000 * (len(sparedFirst) - k)
			}
		}
	}
	return slices.SortedFunc(maps.Keys(width), func(a, b string) int {
		return cmp.Or(width[b]-width[a], strings.Compare(a, b))
	})
}

// differing are the labels that not all series have with the same value; of one series all but its name.
func differing(list []Series) []string {
	values := map[string]map[string]bool{}
	for _, s := range list {
		for l := range s.Labels {
			values[l] = map[string]bool{}
		}
	}
	for _, s := range list {
		for l := range values {
			values[l][s.Labels[l]] = true
		}
	}
	var out []string
	for _, l := range slices.Sorted(maps.Keys(values)) {
		if len(values[l]) > 1 || len(list) == 1 && l != "__name__" {
			out = append(out, l)
		}
	}
	return out
}

// common is what all series have.
func common(list []Series, but []string) string {
	rest := map[string]string{}
	for l, v := range list[0].Labels {
		if !slices.Contains(but, l) {
			rest[l] = v
		}
	}
	if len(rest) == 0 {
		return ""
	}
	return name(rest)
}

// short is a number with at most six digits.
func short(text string) string {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return text
	}
	if v == float64(int64(v)) && v < 1e15 && v > -1e15 {
		return strconv.FormatInt(int64(v), 10)
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

// chart draws lines over hours before now.
func (c *command) chart(list []Series) error {
	columns := differing(list)
	lines := chart.Chart{X: "hours before now"}
	now := c.o.Time()
	for i, s := range list[:min(len(list), mostLines)] {
		one := chart.Series{Name: strconv.Itoa(i + 1)}
		if len(list) == 1 {
			one.Name = ""
		}
		for _, v := range s.Values {
			if y, err := strconv.ParseFloat(v.Value, 64); err == nil && y == y && y < 1e300 && y > -1e300 {
				one.Points = append(one.Points, chart.Point{X: v.Time.Sub(now).Hours(), Y: y})
			}
		}
		lines.Series = append(lines.Series, one)
	}
	lines.From = -1e6
	screen := term.ScreenOf(c.o.Out)
	width := screen.Width
	if width == 0 || width > 120 {
		width = 100
	}
	fine := screen.Color
	term.PrintBlock(c.o.Out, term.Block(lines.Text(width, 14, chart.Style{Unicode: fine, Color: fine})))
	if len(list) > 1 {
		for i, s := range list[:min(len(list), mostLines)] {
			only := map[string]string{}
			for _, l := range columns {
				only[l] = s.Labels[l]
			}
			term.PrintBlock(c.o.Out, screen.Wrapped(fmt.Sprintf("%d  %s", i+1, name(only))))
		}
	}
	if left := len(list) - mostLines; left > 0 {
		term.Printf(c.o.Err, "%d more series are not shown; -o json has all\n", left)
	}
	return nil
}
