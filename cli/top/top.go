// Package top is `berth top`: what each GPU does for each of its holders, now and as it changes.
package top

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"
	xterm "golang.org/x/term"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/nodes"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/internal/visible"
)

// command is `berth top`.
type command struct {
	o        client.Options
	cluster  client.Flags
	output   term.Output
	selector string
	sortBy   string
	every    time.Duration
	once     bool
	names    []string // of nodes; none is all
	selection
}

// New makes `berth top`.
func New(o client.Options) *cobra.Command {
	c := &command{o: o}
	cmd := &cobra.Command{
		Use:   "top [NODE...]",
		Short: "Show live what each GPU does, and for which pod: utilization, memory, power",
		Long: "Show what each GPU and MIG device does, and for which pod: utilization, memory in use, and power, as a DCGM exporter reports them.\n" +
			"On a terminal the screen follows the cluster until you press q; its last line names the keys. Elsewhere, with --once, and with -o it\n" +
			"prints a table once. The power of a GPU is in its first row. Holders are those of `berth gpus`.",
		Example: "  berth top\n  berth top gpu-a100-1 --held\n  berth top -n vision --sort-by -util --once\n  berth top -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.names = args
			return c.run(cmd.Context())
		},
	}
	c.cluster.AddFlags(cmd, true)
	c.output.AddFlags(cmd, term.Rows{Kind: "GPUUseList", Row: Row{}})
	f := cmd.Flags()
	f.StringVarP(&c.selector, "selector", "l", "", "label selector for nodes")
	f.StringVar(&c.sortBy, "sort-by", "", "column to order rows by: "+strings.Join(columns(), ", ")+"; with - before it the largest first")
	_ = cmd.RegisterFlagCompletionFunc("sort-by", cobra.FixedCompletions(columns(), cobra.ShellCompDirectiveNoFileComp)) // it is there
	f.StringVar(&c.filter, "filter", "", "show only rows that have all of these words")
	f.BoolVar(&c.held, "held", false, "show only what pods hold")
	f.BoolVar(&c.once, "once", false, "print a table once, also on a terminal")
	f.DurationVar(&c.every, "every", 2*time.Second, "how often readings are read again, at most every second")
	return cmd
}

// columns are the names that rows can be ordered by.
func columns() (names []string) {
	for _, o := range orders {
		names = append(names, o.name)
	}
	return names
}

// ordered reads --sort-by.
func (c *command) ordered() error {
	name, down := strings.CutPrefix(strings.ToLower(c.sortBy), "-")
	if name == "" {
		return nil
	}
	c.down = down
	if c.order = slices.Index(columns(), name); c.order >= 0 {
		return nil
	}
	if near := gpu.NearestWord(name, columns()); near != "" {
		return term.Usagef("invalid --sort-by %q: did you mean %q?", c.sortBy, near)
	}
	return term.Usagef("invalid --sort-by %q: must be one of %s", c.sortBy, strings.Join(columns(), ", "))
}

func (c *command) run(ctx context.Context) error {
	if c.every < time.Second {
		return term.Usagef("invalid --every %v: must be at least 1s", c.every)
	}
	if err := errors.Join(c.output.Check(), c.ordered()); err != nil {
		return err
	}
	cluster, err := c.cluster.Connect(c.o)
	if err != nil {
		return err
	}
	seen, err := c.see(ctx, cluster)
	if err != nil {
		return err
	}
	out, isFile := visible.To(c.o.Out).(*os.File)
	in, fromFile := c.o.In.(*os.File)
	if c.once || c.output.Format != "" || !isFile || !fromFile || !term.IsTerminal(c.o.Out) || !xterm.IsTerminal(int(in.Fd())) {
		return c.print(&seen)
	}
	return c.live(ctx, cluster, seen, in, out)
}

// see reads the cluster.
func (c *command) see(ctx context.Context, cluster *client.Cluster) (snapshot, error) {
	v, err := cluster.Read(ctx, c.selector, true)
	if err != nil {
		return snapshot{}, err
	}
	busy, readings := cluster.Readings(ctx, v.Exporters)
	v.SetBusy(func(uuid string) (float64, bool) { r, ok := busy[uuid]; return r, ok })
	if err := nodes.Named(c.names, v.View); err != nil {
		return snapshot{}, err
	}
	list := nodes.Devices(v.View, c.cluster.ShownNamespace())
	if len(c.names) > 0 {
		list = slices.DeleteFunc(list, func(d nodes.Device) bool { return !slices.Contains(c.names, d.Node) })
	}
	return snapshot{at: c.o.Time(), rows: rowsOf(list, readings), total: v.Total, waiting: nodes.WaitingPods(v.View)}, nil
}

// print writes a table, or an object.
func (c *command) print(seen *snapshot) error {
	rows := c.of(seen.rows)
	switch {
	case c.output.Object():
		return term.Write(c.o.Out, &c.output, term.NewList("GPUUseList", rows))
	case c.output.Format == term.OutputName:
		for i := range rows {
			term.Printf(c.o.Out, "gpu/%s/%s\n", rows[i].Node, rows[i].index)
		}
		return nil
	case len(rows) == 0:
		term.PrintLine(c.o.Err, "no GPU is as asked for; "+seen.summary())
		return nil
	}
	if err := table(rows, seen.at, c.output.Format == term.OutputWide, false).Write(c.o.Out, c.output.Screen(c.o.Out), c.output.NoHeaders); err != nil {
		return err
	}
	term.PrintBlock(c.o.Err, term.ScreenOf(c.o.Err).Wrapped(seen.summary()))
	return nil
}

// live shows the screen until the user ends it.
func (c *command) live(ctx context.Context, cluster *client.Cluster, seen snapshot, in, out *os.File) error {
	ctx, stop := context.WithCancel(ctx)
	m := &model{selection: c.selection, seen: seen, color: term.ScreenOf(c.o.Out).Color}
	program := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out))
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := cluster.Follow(ctx, c.selector, c.every, func() error {
			seen, err := c.see(ctx, cluster)
			if err != nil {
				program.Send(failure{err})
				return nil //nolint:nilerr // the screen shows it, and asks again
			}
			program.Send(seen)
			return nil
		})
		program.Send(failure{err}) // after the end the program takes nothing
	}()
	_, err := program.Run()
	stop()
	<-done
	if err != nil && !errors.Is(err, tea.ErrInterrupted) {
		return fmt.Errorf("show the screen: %w", err)
	}
	return nil
}
