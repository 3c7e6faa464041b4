// Package report is `berth report`: one page about the use of GPUs and what it cost, for those who pay.
package report

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/cost"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/core/audit"
	core "berth.dev/berth/core/cost"
)

// command is `berth report`.
type command struct {
	o       client.Options
	cluster client.Flags
	since   string
	format  string
}

// New makes `berth report`.
func New(o client.Options) *cobra.Command {
	c := &command{o: o}
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Write one page about the use of GPUs, what it cost, and what was wasted",
		Long: "Write a page from the ledger of the cluster: what GPUs cost by namespace, what was held and not used, which workloads ask for more than they\n" +
			"use, how long pods waited, and which GPUs nothing could use. As HTML it has charts, and needs no other file.",
		Example: "  berth report --since 2026-11\n  berth report --format html > report.html",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	c.cluster.AddFlags(cmd, false)
	f := cmd.Flags()
	f.StringVar(&c.since, "since", "7d", "how far back: a duration such as 24h or 7d, a day such as 2026-11-02, or a month such as 2026-11")
	f.StringVar(&c.format, "format", "markdown", "markdown or html")
	return cmd
}

func (c *command) run(ctx context.Context) error {
	if c.format != "markdown" && c.format != "html" {
		return term.Usagef("invalid --format %q: must be markdown or html", c.format)
	}
	from, to, err := client.Since(c.since, c.o.Time())
	if err != nil {
		return err
	}
	cluster, err := c.cluster.Connect(c.o)
	if err != nil {
		return err
	}
	var f facts
	params := map[string]string{"from": from.UTC().Format(time.RFC3339), "to": to.UTC().Format(time.RFC3339)}
	ask := func(question, by string, into any) {
		if err == nil {
			params["by"] = by
			err = cluster.Ledger(ctx, question, params, into)
		}
	}
	ask("cost", "namespace", &f.cost)
	ask("use", "user", &f.users)
	ask("use", "workload", &f.workloads)
	ask("audit", "", &f.audit)
	if err != nil {
		return err
	}
	p := pageOf(&f)
	text := p.markdown()
	if c.format == "html" {
		text = p.html()
	}
	_, err = term.PrintBlock(c.o.Out, term.Block(text))
	return err
}

// facts are the answers of the ledger.
type facts struct {
	cost             core.Report
	users, workloads core.UseReport
	audit            audit.Report
}

// most is how many rows a table of the page has.
const most = 15

// pageOf writes the page.
func pageOf(f *facts) *page {
	r := &f.cost
	p := &page{title: "GPUs from " + day(r.From) + " to " + day(r.To)}
	if r.Began.After(r.From) {
		p.note = "The ledger began at " + day(r.Began) + "; nothing is known of the time before."
	}
	p.sections = append(p.sections, costs(r), waste(&f.users), sizes(&f.workloads), waits(f.audit.Rows))
	return p
}

func day(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// costs is what GPUs cost, by namespace, with what was idle and stranded.
func costs(r *core.Report) section {
	s := section{title: "Cost", note: "All rows together are what the nodes cost. Idle GPUs had no holder; stranded ones could not be had.", head: []string{"namespace", "GPU-hours", "cost"}}
	for i := range r.Rows {
		row := &r.Rows[i]
		name := cmp.Or(row.Name, "-")
		switch row.What {
		case "idle":
			name = "(idle)"
		case "stranded":
			name = "(stranded: " + row.Reason + ")"
		}
		s.add(row.GPUHours, name, fmt.Sprintf("%.2f", row.GPUHours), cost.Money(row.CostMicros, row.Currency))
	}
	return s
}

// waste is what users held and did not use.
func waste(r *core.UseReport) section {
	s := section{
		title: "Held and not used", head: []string{"user", "GPU-hours", "idle", "cost", "cost of idle", "mean use"},
		note: fmt.Sprintf("Idle is the time in which a pod used less than a tenth of its GPUs, from when that had lasted for %s.", duration.HumanDuration(time.Duration(r.GraceSeconds)*time.Second)),
	}
	for i := range r.Rows {
		u := &r.Rows[i]
		mean := "not known"
		if u.Utilization != nil {
			mean = fmt.Sprintf("%.0f%%", 100**u.Utilization)
		}
		s.add(u.IdleGPUHours, cmp.Or(u.Name, "-"), fmt.Sprintf("%.2f", u.GPUHours), fmt.Sprintf("%.2f", u.IdleGPUHours), cost.Money(u.CostMicros, u.Currency), cost.Money(u.IdleMicros, u.Currency), mean)
	}
	return s
}

// sizes is which workloads could ask for less.
func sizes(r *core.UseReport) section {
	s := section{title: "Workloads that could ask for less", note: "By the most that they used in this time.", head: []string{"workload", "GPU-hours", "cost", "advice"}}
	for i := range r.Rows {
		if advice := core.Advice(&r.Rows[i]); advice != "" {
			u := &r.Rows[i]
			s.add(u.GPUHours, u.Name, fmt.Sprintf("%.2f", u.GPUHours), cost.Money(u.CostMicros, u.Currency), advice)
		}
	}
	return s
}

// waits is how long pods waited.
func waits(rows []audit.Row) section {
	s := section{title: "Waiting", note: "From when a pod asked until it got its GPUs.", head: []string{"queue", "pods", "median", "9 of 10 at most", "longest", "waiting now"}}
	for _, w := range audit.WaitsOf(rows) {
		s.add(w.Median.Minutes(), cmp.Or(w.Queue, "-"), fmt.Sprint(w.Pods), duration.HumanDuration(w.Median), duration.HumanDuration(w.Most), duration.HumanDuration(w.Longest), fmt.Sprint(w.Waiting))
	}
	return s
}
