// Package queue is `berth queue`: the queues of a cluster as a tree with what each has and
// holds, and the line of one of them. Package kube/queues counts.
package queue

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
)

// tree is `berth queue`.
type tree struct {
	o       client.Options
	cluster client.Flags
	output  term.Output
	watch   bool
}

// New makes `berth queue` and the commands below it.
func New(o client.Options) *cobra.Command {
	t := &tree{o: o}
	cmd := &cobra.Command{
		Use:     "queue",
		Aliases: []string{"queues"},
		Short:   "Show the quota of each queue: nominal, used, borrowed, lent, and what waits",
		Long: "Show the queues of the cluster as a tree, with what each has and holds, counted from nodes and pods as the\n" +
			"scheduler counts them. Amounts are of a queue and those below it. In the bar, = is nominal quota that the\n" +
			"queue uses, + is borrowed, - is lent to other queues, and . is unused. If you cannot list the pods of all\n" +
			"namespaces, you see the amounts that the status of each Queue reports.",
		Example: "  berth queue\n  berth queue show vision\n  berth queue history vision\n  berth queue check -f queues.yaml\n  berth queue -o jsonpath='{.items[*].queue}'",
		Args:    func(cmd *cobra.Command, args []string) error { return term.UnknownCommand(cmd, args) },
		RunE:    func(cmd *cobra.Command, _ []string) error { return t.run(cmd.Context()) },
	}
	t.cluster.AddFlags(cmd, false)
	t.output.AddFlags(cmd, term.Rows{Kind: "QueueUseList", Row: queueRow{}})
	cmd.Flags().BoolVarP(&t.watch, "watch", "w", false, "watch, and print again after each change")
	cmd.AddCommand(newShow(o), newHistory(o), newAccuracy(o), newCheck(o), newImport(o))
	return cmd
}

func (t *tree) run(ctx context.Context) error {
	if err := t.output.Check(); err != nil {
		return err
	}
	c, err := t.cluster.Connect(t.o)
	if err != nil {
		return err
	}
	show := func(w io.Writer) error {
		s, err := read(ctx, c, t.o)
		if err != nil {
			return err
		}
		return t.print(w, s)
	}
	if t.watch {
		return c.Watch(ctx, t.o, show)
	}
	return show(t.o.Out)
}

// print writes the tree in the form asked for.
func (t *tree) print(w io.Writer, s *state) error {
	rows := s.rows()
	switch {
	case t.output.Object():
		return term.Write(w, &t.output, term.NewList("QueueUseList", rows))
	case t.output.Format == term.OutputName:
		for i := range rows {
			term.PrintLine(w, "queue.berth.dev/"+rows[i].Queue)
		}
		return nil
	case len(rows) == 0:
		term.PrintLine(t.o.Err, "there are no Queues: every pod may use every GPU; `kubectl explain queue.spec` shows what one can say")
		return nil
	}
	if err := treeTable(rows).Write(w, t.output.Screen(t.o.Out), t.output.NoHeaders); err != nil {
		return err
	}
	for i := range rows {
		for _, p := range rows[i].Problems {
			term.Printf(w, "%s: %s\n", rows[i].Queue, p)
		}
	}
	if text := s.outside(); text != "" {
		term.PrintLine(w, text)
	}
	if s.hidden != "" {
		term.PrintLine(w, s.hidden)
	}
	return nil
}
