// Package cost has the commands about what GPUs cost: `berth cost` and `berth price`.
package cost

import (
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
	core "berth.dev/berth/core/cost"
	"berth.dev/berth/core/usage"
)

// command is `berth cost`.
type command struct {
	o         client.Options
	cluster   client.Flags
	output    term.Output
	by, since string
	idle      string
}

// New makes `berth cost`.
func New(o client.Options) *cobra.Command {
	c := &command{o: o}
	cmd := &cobra.Command{
		Use:   "cost",
		Short: "Show who held which part of the GPUs, for how long, and what that cost",
		Long: "Show GPU-hours and their price, from the ledger of the cluster. A pod is charged for the GPUs that it holds, from when it is bound\n" +
			"to a node until it has ended, whether it uses them or not. A node is charged for all its GPUs in equal parts: GPUs without a holder are idle, or\n" +
			"stranded if no pod could have had them. All rows together are what the nodes cost.\n\n" +
			"Output formats are those of other commands, csv, and focus: CSV with the columns of FOCUS 1.2.",
		Example: "  berth cost\n  berth cost --by user --since 2026-11\n  berth cost --by workload --since 7d --idle share -o csv",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	c.cluster.AddFlags(cmd, false)
	f := cmd.Flags()
	f.StringVar(&c.by, "by", string(core.Namespace), "what to add up by: namespace, user, queue, workload, product, node, or a label of pods such as label:team")
	f.StringVar(&c.since, "since", "24h", "how far back: a duration such as 24h or 7d, a day such as 2026-11-02, or a month such as 2026-11")
	f.StringVar(&c.idle, "idle", "separate", "what to do with GPUs without a holder: separate shows them in their own rows, share charges them to the holders of the others")
	c.output.AddFlags(cmd, term.Rows{Kind: "CostList", Row: core.ReportRow{}})
	cmd.AddCommand(newVerify(o))
	return cmd
}

func (c *command) run(ctx context.Context) error {
	q, err := c.question()
	if err != nil {
		return err
	}
	cluster, err := c.cluster.Connect(c.o)
	if err != nil {
		return err
	}
	if c.output.Format == "focus" {
		var list []*core.Report
		for _, part := range months(q) {
			r, err := ask(ctx, cluster, &part)
			if err != nil {
				return err
			}
			list = append(list, r)
		}
		return writeFOCUS(c.o.Out, list)
	}
	r, err := ask(ctx, cluster, q)
	if err != nil {
		return err
	}
	switch {
	case c.output.Format == "csv":
		return writeCSV(c.o.Out, r)
	case c.output.Object():
		list := term.NewList("CostList", r.Rows)
		list.Total = total{r.From, r.To, r.Began, r.By, r.Spread, r.Nodes, r.Losses}
		return term.Write(c.o.Out, &c.output, list)
	case c.output.Format == term.OutputName:
		for _, row := range r.Rows {
			if row.What == "held" {
				term.PrintLine(c.o.Out, cmp.Or(row.Name, "-"))
			}
		}
		return nil
	}
	return c.print(c.o.Out, r)
}

// total is what goes with the rows in -o json.
type total struct {
	From   time.Time         `json:"from"`
	To     time.Time         `json:"to"`
	Began  time.Time         `json:"ledgerBegan"`
	By     core.By           `json:"by"`
	Spread bool              `json:"idleShared"`
	Nodes  []core.NodeRemark `json:"nodes"`  // whose price is not known, or assumed
	Losses []core.Loss       `json:"losses"` // what the ledger has lost of the time, as its file was damaged
}

// question reads the flags.
func (c *command) question() (*core.Question, error) {
	if c.output.Format != "csv" && c.output.Format != "focus" {
		if err := c.output.Check(); err != nil {
			return nil, err
		}
	}
	if c.idle != "separate" && c.idle != "share" {
		return nil, term.Usagef("invalid --idle %q: must be separate or share", c.idle)
	}
	now := c.o.Time()
	from, to, err := client.Since(c.since, now)
	if err != nil {
		return nil, err
	}
	q := &core.Question{From: from, To: to, By: core.By(lower(c.by)), Spread: c.idle == "share"}
	if wrong := q.Check(now); wrong != "" {
		return nil, term.Usagef("%s", wrong)
	}
	return q, nil
}

// ask has the ledger of a cluster answer a question.
func ask(ctx context.Context, c *client.Cluster, q *core.Question) (*core.Report, error) {
	r := &core.Report{}
	return r, c.Ledger(ctx, "cost", map[string]string{
		"from": q.From.UTC().Format(time.RFC3339), "to": q.To.UTC().Format(time.RFC3339), "by": string(q.By), "spread": strconv.FormatBool(q.Spread),
	}, r)
}

// lower is a name of what to add up by in small letters; keys of labels stay.
func lower(by string) string {
	if strings.HasPrefix(by, "label:") {
		return by
	}
	return strings.ToLower(by)
}

// print writes the table, and what to know about it.
func (c *command) print(w io.Writer, r *core.Report) error {
	if len(r.Rows) == 0 {
		term.PrintLine(w, "no node had GPUs in this time")
	} else {
		t := &term.Table{Head: []string{strings.ToUpper(string(r.By)), "GPU-HOURS", "COST", "SHARE"}, Gap: 2}
		sums := map[string]int64{}
		hours, currencies := 0.0, []string{}
		for _, row := range r.Rows {
			if _, seen := sums[row.Currency]; !seen {
				currencies = append(currencies, row.Currency)
			}
			sums[row.Currency] += row.CostMicros
			hours += row.GPUHours
		}
		for _, row := range r.Rows {
			share := "-"
			if all := sums[row.Currency]; all > 0 {
				share = fmt.Sprintf("%.0f%%", 100*float64(row.CostMicros)/float64(all))
			}
			t.Add(name(&row), fmt.Sprintf("%.2f", row.GPUHours), Money(row.CostMicros, row.Currency), share)
		}
		for i, currency := range currencies {
			cells := []string{"total", fmt.Sprintf("%.2f", hours), Money(sums[currency], currency), ""}
			if i > 0 {
				cells[0], cells[1] = "", ""
			}
			if currency != "" {
				t.Add(cells...)
			}
		}
		if err := t.Write(w, c.output.Screen(c.o.Out), c.output.NoHeaders); err != nil {
			return err
		}
	}
	for _, n := range r.Nodes {
		if n.Unpriced {
			term.PrintLine(w, fmt.Sprintf("node %s is unpriced: %s; set one with `berth price set %s PRICE`", n.Name, n.Remark, n.Name))
		} else {
			term.PrintLine(w, fmt.Sprintf("node %s: its price assumes %s", n.Name, n.Remark))
		}
	}
	for i := range r.Losses {
		term.PrintLine(w, "lost, as the file of the ledger was damaged or gone: "+r.Losses[i].String())
	}
	if !r.Kept.IsZero() {
		term.PrintLine(c.o.Err, "single facts are kept since "+r.Kept.UTC().Format(time.DateOnly)+"; of the time before there are sums of days by namespace, user, queue, and product")
	}
	if r.Began.After(r.From) {
		term.PrintLine(c.o.Err, "the ledger began at "+r.Began.UTC().Format("2006-01-02 15:04 UTC")+"; nothing is known of the time before")
	}
	return nil
}

// name is the first cell of a row.
func name(r *core.ReportRow) string {
	words := []string{r.Name}
	switch r.What {
	case "idle":
		words = append(words, "(idle)")
	case "stranded":
		words = append(words, "(stranded: "+usage.Reason(r.Reason).Text()+")")
	default:
		words[0] = cmp.Or(r.Name, "-")
	}
	return strings.TrimSpace(strings.Join(words, " "))
}

// Money is an amount for people: to the cent, and smaller amounts to the hundredth of a cent.
func Money(micros int64, currency string) string {
	switch {
	case currency == "":
		return "unpriced"
	case micros > 0 && micros < 10_000:
		return fmt.Sprintf("%.4f %s", float64(micros)/1e6, currency)
	}
	return fmt.Sprintf("%.2f %s", float64(micros)/1e6, currency)
}

// writeCSV writes the rows for spreadsheets: amounts are exact.
func writeCSV(w io.Writer, r *core.Report) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{string(r.By), "what", "reason", "gpuHours", "unpricedGPUHours", "cost", "spread", "currency", "from", "to"}) // Flush tells
	amount := func(micros int64) string { return fmt.Sprintf("%d.%06d", micros/1_000_000, micros%1_000_000) }
	for _, row := range r.Rows {
		_ = out.Write([]string{
			row.Name, row.What, row.Reason, strconv.FormatFloat(row.GPUHours, 'f', -1, 64), strconv.FormatFloat(row.UnpricedGPUHours, 'f', -1, 64),
			amount(row.CostMicros), amount(row.SpreadMicros), row.Currency, r.From.UTC().Format(time.RFC3339), r.To.UTC().Format(time.RFC3339),
		})
	}
	out.Flush()
	return out.Error()
}
