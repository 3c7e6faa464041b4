// Package report is `berth report`: one page about the use of GPUs and what it cost, for those who pay.
package report

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
	core "berth.dev/berth/core/cost"
)

// command is `berth report`.
type command struct {
	o       client.Options
	cluster client.Flags
	since   string
	format  string
	target  float64 // percent
}

// New makes `berth report`.
func New(o client.Options) *cobra.Command {
	c := &command{o: o}
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Write one page about the use of GPUs, what it cost, and what was wasted",
		Long: "Write a page from the ledger of the cluster: what GPUs cost, what was held and not used, who should be asked about it, which workloads ask for\n" +
			"more than they use, and how long pods waited; and from its objects: how pods share GPUs, what is left over, and the cluster's own rules.\n" +
			"As HTML it has charts, and needs no other file.",
		Example: "  berth report --since 2026-11\n  berth report --format html > report.html",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	c.cluster.AddFlags(cmd, false)
	f := cmd.Flags()
	f.StringVar(&c.since, "since", "7d", "how far back: a duration such as 24h or 7d, a day such as 2026-11-02, or a month such as 2026-11")
	f.StringVar(&c.format, "format", "markdown", "markdown or html")
	f.Float64Var(&c.target, "target", 100*core.Target, "the mean utilization that held GPUs should have, in percent")
	return cmd
}

func (c *command) run(ctx context.Context) error {
	switch {
	case c.format != "markdown" && c.format != "html":
		return term.Usagef("invalid --format %q: must be markdown or html", c.format)
	case !(c.target > 0 && c.target <= 100):
		return term.Usagef("invalid --target %v: must be a percentage from 1 to 100", c.target)
	}
	from, to, err := client.Since(c.since, c.o.Time())
	if err != nil {
		return err
	}
	cluster, err := c.cluster.Connect(c.o)
	if err != nil {
		return err
	}
	f, err := c.ask(ctx, cluster, from, to)
	if err != nil {
		return err
	}
	p := pageOf(f)
	text := p.markdown()
	if c.format == "html" {
		text = p.html()
	}
	_, err = term.PrintBlock(c.o.Out, term.Block(text))
	return err
}

// most is how many rows a table of the page has.
const most = 15

// pageOf writes the page.
func pageOf(f *facts) *page {
	r := &f.cost
	p := &page{title: "GPUs from " + day(r.From) + " to " + day(r.To), figures: figures(f)}
	if r.Began.After(r.From) {
		p.notes = append(p.notes, "The ledger began at "+day(r.Began)+"; nothing is known of the time before.")
	}
	if f.omitted != "" {
		p.notes = append(p.notes, "What the cluster is like now could not be read: "+f.omitted)
	}
	p.sections = append(p.sections, costs(r), waste(&f.users), missed(f), notables(f), notebooks(&f.workloads), sizes(&f.workloads), waits(&f.audit))
	if f.live != nil {
		p.sections = append(p.sections, shares(f.live), leftovers(f), rules(f))
	}
	return p
}

func day(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }
