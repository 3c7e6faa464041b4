// Package idle is `berth idle`: who holds GPUs and does next to nothing with them, what that costs, and what to do about it.
package idle

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/cost"
	"berth.dev/berth/cli/term"
	core "berth.dev/berth/core/cost"
)

// command is `berth idle`.
type command struct {
	o       client.Options
	cluster client.Flags
	output  term.Output
	least   time.Duration
	user    string
	nudge   bool
	webhook string
	stop    bool
}

// New makes `berth idle`.
func New(o client.Options) *cobra.Command {
	c := &command{o: o}
	cmd := &cobra.Command{
		Use:   "idle",
		Short: "Show who holds GPUs and does not use them, since when, and what that has cost",
		Long: "Show the pods that hold GPUs and use less than a tenth of them, from the ledger of the cluster, which reads their DCGM exporters.\n" +
			"CPU is what the pod uses now, of its limit: a pod whose CPU is at its limit may not feed its GPUs fast enough. A pod whose GPUs are shared, and\n" +
			"whose own use is not known, is marked: it is the GPUs that do nothing.",
		Example: "  berth idle\n  berth idle --for 2h --for-user ann\n  berth idle --for 4h --nudge\n  berth idle -n research --for 8h --stop",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	c.cluster.AddFlags(cmd, true)
	c.output.AddFlags(cmd, term.Rows{Kind: "IdleList", Row: idleRow{}})
	f := cmd.Flags()
	f.DurationVar(&c.least, "for", core.Grace, "show those that have been idle for at least this long")
	f.StringVar(&c.user, "for-user", "", "show only what this user holds")
	f.BoolVar(&c.nudge, "nudge", false, "write an event on each pod that is shown, for its user")
	f.StringVar(&c.webhook, "webhook", "", "with --nudge: also send what is shown to this URL, as JSON that chat programs accept")
	f.BoolVar(&c.stop, "stop", false, "stop the notebooks and model services that are shown; volumes are kept")
	return cmd
}

func (c *command) run(ctx context.Context) error {
	switch {
	case c.least < 0:
		return term.Usagef("invalid --for %v: must be 0 or more", c.least)
	case c.webhook != "" && !c.nudge:
		return term.Usagef("--webhook goes with --nudge")
	case c.webhook != "" && !strings.HasPrefix(c.webhook, "https://") && !strings.HasPrefix(c.webhook, "http://"):
		return term.Usagef("invalid --webhook %q: must be a URL that begins with https:// or http://", c.webhook)
	}
	if err := c.output.Check(); err != nil {
		return err
	}
	cluster, err := c.cluster.Connect(c.o)
	if err != nil {
		return err
	}
	r := &core.IdleReport{}
	if err := cluster.Ledger(ctx, "idle", map[string]string{"for": c.least.String()}, r); err != nil {
		return err
	}
	r.Rows = slices.DeleteFunc(r.Rows, func(row core.IdleRow) bool {
		space := c.cluster.ShownNamespace()
		return space != "" && row.Namespace != space || c.user != "" && row.User != c.user
	})
	rows := make([]idleRow, len(r.Rows))
	for i := range r.Rows {
		rows[i] = idleRow{IdleRow: r.Rows[i], CPU: cpuOf(ctx, cluster, &r.Rows[i])}
	}
	if err := c.print(c.o.Out, rows, r.Now); err != nil {
		return err
	}
	if c.nudge {
		if err := c.nudgeAll(ctx, cluster, r); err != nil {
			return err
		}
	}
	if c.stop {
		return c.stopAll(ctx, cluster, r)
	}
	return nil
}

// idleRow is a row in -o json.
type idleRow struct {
	core.IdleRow
	CPU *cpu `json:"cpu"` // null is not known
}

// print writes what is idle in the form asked for.
func (c *command) print(w io.Writer, rows []idleRow, now time.Time) error {
	switch {
	case c.output.Object():
		return term.Write(w, &c.output, term.NewList("IdleList", rows))
	case c.output.Format == term.OutputName:
		for i := range rows {
			term.PrintLine(w, "pod/"+rows[i].Pod)
		}
		return nil
	case len(rows) == 0:
		term.PrintLine(c.o.Err, fmt.Sprintf("no pod that holds GPUs has been idle for %v", c.least))
		return nil
	}
	t := &term.Table{Head: []string{"NAMESPACE", "WORKLOAD", "USER", "GPUS", "NODE", "IDLE", "CPU", "COST", "PER HOUR"}, Gap: 2, Spare: []string{"CPU", "PER HOUR", "USER", "NODE"}}
	if c.output.Format == term.OutputWide {
		t.Head = append(t.Head, "POD", "QUEUE", "PRODUCT", "SINCE")
	}
	for i := range rows {
		t.Add(c.cells(&rows[i], now)...)
	}
	if err := t.Write(w, c.output.Screen(c.o.Out), c.output.NoHeaders); err != nil {
		return err
	}
	if slices.ContainsFunc(rows, func(r idleRow) bool { return r.Shared }) {
		term.PrintLine(w, "* device-level: other pods use the same GPUs, and it is not known what each of them does")
	}
	return nil
}

func (c *command) cells(r *idleRow, now time.Time) []string {
	idle := duration.HumanDuration(now.Sub(r.Since))
	if r.Shared {
		idle += " *"
	}
	cells := []string{
		r.Namespace, workload(&r.IdleRow), cmp.Or(r.User, "-"), fmt.Sprintf("%.4g", r.GPUs), r.Node, idle, r.CPU.String(),
		cost.Money(r.CostMicros, r.Currency), cost.Money(r.CostMicrosAnHour, r.Currency),
	}
	if c.output.Format == term.OutputWide {
		cells = append(cells, r.Pod, cmp.Or(r.Queue, "-"), cmp.Or(r.Product, "-"), r.Since.UTC().Format("2006-01-02 15:04 UTC"))
	}
	return cells
}

// workload names what holds the GPUs.
func workload(r *core.IdleRow) string {
	if r.Owner == "" {
		return "Pod/" + r.Pod
	}
	return r.Kind + "/" + r.Owner
}
