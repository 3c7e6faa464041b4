// Package audit is `berth audit` and `berth history`: what happened to those who asked for GPUs, and to nodes and queues.
package audit

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
	core "berth.dev/berth/core/audit"
)

// command is `berth audit` or `berth history`.
type command struct {
	o       client.Options
	cluster client.Flags
	output  term.Output

	user, workload, queue, node, since string
}

// New makes `berth audit`.
func New(o client.Options) *cobra.Command {
	c := &command{o: o}
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show who asked for GPUs, who got them, lost them, and released them, and why",
		Long: "Show each step of the pods that ask for GPUs, from the ledger of the cluster, with its user: asked, waits, admitted, granted,\n" +
			"moved, preempted, evicted, and released; and each change of a queue, with the program that made it.",
		Example: "  berth audit\n  berth audit --for-user ann --since 2026-11\n  berth audit --workload Job/train -n vision -o json",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	c.addFlags(cmd, "24h")
	f := cmd.Flags()
	f.StringVar(&c.user, "for-user", "", "show only what is for this user")
	f.StringVar(&c.workload, "workload", "", "show only this workload: its name, KIND/NAME, or the name of a pod")
	f.StringVar(&c.queue, "queue", "", "show only this queue, and the pods that entered it")
	f.StringVar(&c.node, "node", "", "show only what happened on this node, and to it")
	return cmd
}

// NewHistory makes `berth history`.
func NewHistory(o client.Options) *cobra.Command {
	c := &command{o: o}
	cmd := &cobra.Command{
		Use:   "history NODE|WORKLOAD",
		Short: "Show what happened to a node or to a workload",
		Long: "Show what happened to a node: when it came and went, what it cost, when its GPUs could not be had, and which pods came and went; or to a\n" +
			"workload, by its name, KIND/NAME, or the name of a pod. A name that both have shows the node; KIND/NAME shows the workload.",
		Example: "  berth history gpu-a100-1\n  berth history Job/train -n vision --since 2026-11",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return c.history(cmd.Context(), args[0]) },
	}
	c.addFlags(cmd, "30d")
	return cmd
}

func (c *command) addFlags(cmd *cobra.Command, since string) {
	c.cluster.AddFlags(cmd, true)
	c.output.AddFlags(cmd, term.Rows{Kind: "AuditList", Row: core.Row{}})
	cmd.Flags().StringVar(&c.since, "since", since, "how far back: a duration such as 24h or 7d, a day such as 2026-11-02, or a month such as 2026-11")
}

func (c *command) run(ctx context.Context) error {
	r, err := c.ask(ctx)
	if err != nil {
		return err
	}
	return c.print(c.o.Out, r)
}

// history shows what a name stands for: a node, else a workload.
func (c *command) history(ctx context.Context, name string) error {
	if !strings.Contains(name, "/") {
		c.node = name
		r, err := c.ask(ctx)
		if err != nil || len(r.Rows) > 0 {
			if err == nil {
				err = c.print(c.o.Out, r)
			}
			return err
		}
	}
	c.node, c.workload = "", name
	r, err := c.ask(ctx)
	if err != nil {
		return err
	}
	if len(r.Rows) == 0 {
		return fmt.Errorf("the ledger knows no node and no workload %s since %s; see `berth audit` for those it knows", name, r.From.UTC().Format("2006-01-02 15:04 UTC"))
	}
	return c.print(c.o.Out, r)
}

// ask has the ledger answer.
func (c *command) ask(ctx context.Context) (*core.Report, error) {
	if err := c.output.Check(); err != nil {
		return nil, err
	}
	from, to, err := client.Since(c.since, c.o.Time())
	if err != nil {
		return nil, err
	}
	cluster, err := c.cluster.Connect(c.o)
	if err != nil {
		return nil, err
	}
	r := &core.Report{}
	return r, cluster.Ledger(ctx, "audit", map[string]string{
		"from": from.UTC().Format(time.RFC3339), "to": to.UTC().Add(time.Second).Format(time.RFC3339), "user": c.user, "workload": c.workload, "queue": c.queue, "node": c.node,
		"namespace": c.cluster.ShownNamespace(),
	}, r)
}

// print writes what happened in the form asked for.
func (c *command) print(w io.Writer, r *core.Report) error {
	switch {
	case c.output.Object():
		return term.Write(w, &c.output, term.NewList("AuditList", r.Rows))
	case c.output.Format == term.OutputName:
		for i := range r.Rows {
			term.PrintLine(w, workload(&r.Rows[i]))
		}
		return nil
	case len(r.Rows) == 0:
		term.PrintLine(c.o.Err, "nothing has happened in this time that was asked for")
		return nil
	}
	t := &term.Table{Head: []string{"TIME", "ACT", "NAMESPACE", "WORKLOAD", "USER", "QUEUE", "NODE", "REASON", "DETAIL"}, Gap: 2, Wrap: true, Spare: []string{"QUEUE", "USER", "NODE", "NAMESPACE", "REASON"}}
	for i := range r.Rows {
		row := &r.Rows[i]
		detail := row.Detail
		if c.output.Format != term.OutputWide {
			detail = brief(detail)
		}
		t.Add(row.At.UTC().Format("2006-01-02 15:04:05"), string(row.Act), cmp.Or(row.Namespace, "-"), workload(row), cmp.Or(row.User, "-"), cmp.Or(row.Queue, "-"), cmp.Or(row.Node, "-"), cmp.Or(row.Reason, "-"), detail)
	}
	if err := t.Write(w, c.output.Screen(c.o.Out), c.output.NoHeaders); err != nil {
		return err
	}
	if r.Cut {
		term.PrintLine(c.o.Err, "there is more before these: ask for less time, or for one user or workload")
	}
	return nil
}

// mostDetail is how many characters of a detail a narrow table has.
const mostDetail = 70

// brief is the beginning of a long text.
func brief(text string) string {
	r := []rune(text)
	if len(r) <= mostDetail {
		return text
	}
	return string(r[:mostDetail-1]) + "…"
}

// workload names what a row is about.
func workload(r *core.Row) string {
	switch {
	case r.Owner == "" && r.Pod == "":
		return r.UID
	case r.Owner == "":
		return "Pod/" + r.Pod
	}
	return r.Kind + "/" + r.Owner
}
