// Package alerts is `berth alerts`: what needs a person.
package alerts

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
)

// command is `berth alerts`.
type command struct {
	o       client.Options
	cluster client.Flags
	output  term.Output
	pending bool
}

// New makes `berth alerts`.
func New(o client.Options) *cobra.Command {
	c := &command{o: o}
	cmd := &cobra.Command{
		Use:   "alerts",
		Short: "Show the alerts that fire: idle holders, broken GPUs, long waits, budgets",
		Long: "Show the alerts that fire, the most severe first. They are evaluated every 30 seconds by `berth up`, and by `berth meter` in other clusters.\n" +
			"docs/alerts has a page for each: what it means, what to look at, and what to do.",
		Example: "  berth alerts\n  berth alerts --pending\n  berth alerts -o json",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	c.cluster.AddFlags(cmd, false)
	cmd.Flags().BoolVar(&c.pending, "pending", false, "show also what has not lasted long enough to fire")
	c.output.AddFlags(cmd, term.Rows{Kind: "AlertList", Row: Alert{}})
	return cmd
}

// Alert is one of them.
type Alert struct {
	Name     string            `json:"name"`
	Severity string            `json:"severity"`
	State    string            `json:"state"`
	Since    time.Time         `json:"since"`
	Summary  string            `json:"summary"`
	Page     string            `json:"page"` // of the documentation
	Labels   map[string]string `json:"labels"`
}

func (c *command) run(ctx context.Context) error {
	if err := c.output.Check(); err != nil {
		return err
	}
	cluster, err := c.cluster.Connect(c.o)
	if err != nil {
		return err
	}
	var answer struct {
		Alerts []struct {
			Labels      map[string]string
			Annotations map[string]string
			State       string
			ActiveAt    time.Time
		}
	}
	if err := cluster.Prometheus(ctx, "alerts", nil, &answer); err != nil {
		return err
	}
	list, pending := []Alert{}, 0
	for _, a := range answer.Alerts {
		if a.State == "pending" && !c.pending {
			pending++
			continue
		}
		list = append(list, Alert{a.Labels["alertname"], a.Labels["severity"], a.State, a.ActiveAt.UTC(), a.Annotations["summary"], a.Annotations["runbook"], a.Labels})
	}
	return c.print(list, pending)
}

func (c *command) print(list []Alert, pending int) error {
	switch {
	case c.output.Object():
		return term.Write(c.o.Out, &c.output, term.NewList("AlertList", list))
	case c.output.Format == term.OutputName:
		for _, a := range list {
			term.PrintLine(c.o.Out, "alert/"+a.Name)
		}
		return nil
	case len(list) == 0:
		text := "no alert fires"
		if pending > 0 {
			text += fmt.Sprintf("; %s pending: berth alerts --pending", term.Count(pending, "alert"))
		}
		term.PrintLine(c.o.Err, text)
		return nil
	}
	t := &term.Table{Head: []string{"SEVERITY", "ALERT", "FOR", "WHAT"}, Gap: 2, Wrap: true, Spare: []string{"FOR"}}
	for _, a := range list {
		since := c.o.Time().Sub(a.Since).Truncate(time.Second).String()
		if a.State == "pending" {
			since = "pending " + since
		}
		t.Add(a.Severity, a.Name, since, cmp.Or(a.Summary, "-"))
	}
	t.Alarm = func(row, column int) bool { return column == 0 && list[row].Severity == "critical" }
	return t.Write(c.o.Out, c.output.Screen(c.o.Out), c.output.NoHeaders)
}
