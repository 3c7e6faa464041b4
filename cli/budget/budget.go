// Package budget is `berth budget`: what each queue may cost in a month, what it has cost, and what it is likely to.
package budget

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/cost"
	"berth.dev/berth/cli/term"
	core "berth.dev/berth/core/cost"
)

// command is `berth budget`.
type command struct {
	o       client.Options
	cluster client.Flags
	output  term.Output
}

// New makes `berth budget`.
func New(o client.Options) *cobra.Command {
	c := &command{o: o}
	cmd := &cobra.Command{
		Use:   "budget",
		Short: "Show what each queue may cost in this month, what it has cost, and what it is likely to",
		Long: "Show the budgets of Queues (spec.budget) for this month of UTC. The forecast takes what the last seven days cost to go on until the\n" +
			"end of the month. A budget counts what is charged to pods of its queue and of those below it, in its currency; idle GPUs are charged to none.",
		Example: "  berth budget\n  berth budget -o json",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	c.cluster.AddFlags(cmd, false)
	c.output.AddFlags(cmd, term.Rows{Kind: "BudgetList", Row: core.BudgetStanding{}})
	return cmd
}

func (c *command) run(ctx context.Context) error {
	if err := c.output.Check(); err != nil {
		return err
	}
	cluster, err := c.cluster.Connect(c.o)
	if err != nil {
		return err
	}
	r := &core.BudgetReport{}
	if err := cluster.Ledger(ctx, "budget", nil, r); err != nil {
		return err
	}
	return c.print(c.o.Out, r)
}

// print writes the budgets in the form asked for.
func (c *command) print(w io.Writer, r *core.BudgetReport) error {
	switch {
	case c.output.Object():
		return term.Write(w, &c.output, term.NewList("BudgetList", r.Rows))
	case c.output.Format == term.OutputName:
		for i := range r.Rows {
			term.PrintLine(w, "queue/"+r.Rows[i].Queue)
		}
		return nil
	case len(r.Rows) == 0:
		term.PrintLine(c.o.Err, "no queue has a budget; spec.budget.amount of a Queue sets one")
		return nil
	}
	t := &term.Table{Head: []string{"QUEUE", "MONTH", "BUDGET", "SPENT", "", "FORECAST", "SPENT BY"}, Gap: 2, Spare: []string{"MONTH", "SPENT BY"}}
	for i := range r.Rows {
		b := &r.Rows[i]
		t.Add(b.Queue, b.Month, cost.Money(b.BudgetMicros, b.Currency), cost.Money(b.SpentMicros, b.Currency), fmt.Sprintf("%d%%", b.Percent), cost.Money(b.ForecastMicros, b.Currency), ends(b))
	}
	t.Alarm = func(row, column int) bool { return column == 4 && r.Rows[row].Percent >= 100 }
	if err := t.Write(w, c.output.Screen(c.o.Out), c.output.NoHeaders); err != nil {
		return err
	}
	for i := range r.Rows {
		c.notes(w, &r.Rows[i])
	}
	if month := core.BudgetMonth(r.Now); r.Began.After(month.From) {
		term.PrintLine(c.o.Err, "the ledger began at "+r.Began.UTC().Format("2006-01-02 15:04 UTC")+"; nothing is known of the time before")
	}
	return nil
}

// ends is when a budget is spent.
func ends(b *core.BudgetStanding) string {
	switch {
	case b.RunsOut == nil:
		return "-"
	case b.Percent >= 100:
		return "now"
	}
	return b.RunsOut.UTC().Format("2006-01-02 15:04")
}

// notes writes what a budget does not count.
func (c *command) notes(w io.Writer, b *core.BudgetStanding) {
	for _, a := range b.Others {
		term.PrintLine(w, fmt.Sprintf("queue %s has also spent %s, which do not count: the budget is in %s", b.Queue, cost.Money(a.Micros, a.Currency), b.Currency))
	}
	if b.UnpricedGPUHours > 0 {
		term.PrintLine(w, fmt.Sprintf("queue %s has held %.2f GPU-hours without a price, which do not count; `berth price list` shows the nodes", b.Queue, b.UnpricedGPUHours))
	}
}
