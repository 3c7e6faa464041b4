// Package nodes is `berth nodes` and `berth gpus`: tables of the GPUs of a cluster, their
// pods, and the pools that can grow. Package kube/view counts.
package nodes

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/pool"
	"berth.dev/berth/kube/view"
)

// nodesCommand is `berth nodes`.
type nodesCommand struct {
	o        client.Options
	cluster  client.Flags
	output   term.Output
	selector string
	view     string
	by       string // a node label
	sortBy   string
	names    []string // of nodes; none is all
	all      bool
	watch    bool
}

// New makes `berth nodes`.
func New(o client.Options) *cobra.Command {
	n := &nodesCommand{o: o}
	cmd := &cobra.Command{
		Use:   "nodes [NODE...]",
		Short: "Show the GPUs of each node: allocated, busy, free, unhealthy, and their price",
		Long: "Show the GPUs of each node. All counts are physical GPUs: 7 of 56 MIG devices on 8 GPUs count as 1 GPU.\n" +
			"BUSY is the mean utilization of allocated GPUs, if a DCGM exporter reports it. Unallocated GPUs of a\n" +
			"cordoned or NotReady node do not count as free, nor do those that only a DRA driver offers: Berth does not\n" +
			"use these yet. Works on any cluster with NVIDIA's device plugin, with or without Berth.",
		Example: "  berth nodes\n  berth nodes -o wide\n  berth nodes gpu-a100-1\n  berth nodes --sort-by -free\n  berth nodes --view allocation\n  berth nodes --by workload\n" +
			"  berth nodes -o jsonpath='{.total.free}'",
		RunE: func(cmd *cobra.Command, args []string) error {
			n.names = args
			return n.run(cmd.Context())
		},
	}
	n.cluster.AddFlags(cmd, true)
	n.output.AddFlags(cmd, term.Rows{Kind: "NodeGPUList", Row: nodeRow{}}, term.Rows{Kind: "NodePoolList", Row: byRow{}})
	f := cmd.Flags()
	f.StringVarP(&n.selector, "selector", "l", "", "label selector for nodes")
	f.StringVar(&n.view, "view", "", "allocation: NODE, GPU TOTAL, GPU ALLOCATED, GPU UTILIZATION")
	f.StringVar(&n.by, "by", "", "node label: one line for the nodes of each value, instead of one for each node")
	addSortBy(cmd, &n.sortBy, nodeHead)
	f.BoolVar(&n.all, "all", false, "also show nodes without GPUs")
	f.BoolVarP(&n.watch, "watch", "w", false, "watch, and print again after each change")
	return cmd
}

func (n *nodesCommand) run(ctx context.Context) error {
	if n.view != "" && n.view != "allocation" {
		return term.Usagef("invalid --view %q: must be allocation", n.view)
	}
	if n.by != "" && (n.view != "" || n.output.Format == term.OutputName || n.output.Format == term.OutputWide) {
		return term.Usagef("--by does not go with --view, -o name and -o wide")
	}
	if err := n.output.Check(); err != nil {
		return err
	}
	c, err := n.cluster.Connect(n.o)
	if err != nil {
		return err
	}
	show := func(w io.Writer) error {
		v, err := c.Read(ctx, n.selector, false)
		if err != nil {
			return err
		}
		if rules, known := c.PriceRules(ctx, n.o); known {
			v.SetPrices(v.Nodes, rules, n.o.Time())
		}
		busy := c.Utilization(ctx, v.Exporters)
		of := func(uuid string) (float64, bool) { r, ok := busy[uuid]; return r, ok }
		v.SetBusy(of)
		if err := Named(n.names, v.View); err != nil {
			return err
		}
		if n.by != "" {
			return n.printBy(w, n.shown(v.View), of)
		}
		pools := c.Growth(ctx, n.o, n.selector, v.Nodes)
		pool.SetIdle(pools, v.Nodes, v.Holds)
		return n.print(w, v.View, pools)
	}
	if n.watch {
		return c.WatchFleet(ctx, n.o, n.selector, show)
	}
	return show(n.o.Out)
}

// shown are the nodes of a view that are asked for.
func (n *nodesCommand) shown(v view.View) (shown []devices.Node) {
	for _, node := range v.Nodes {
		if asked := slices.Contains(n.names, node.Name); asked || len(n.names) == 0 && (len(node.GPUs) > 0 || node.ClaimOnly > 0 || n.all) {
			shown = append(shown, narrow(node, n.cluster.ShownNamespace()))
		}
	}
	return shown
}

// print writes a view in the form asked for.
func (n *nodesCommand) print(w io.Writer, v view.View, pools []pool.Growth) error {
	shown := n.shown(v)
	switch {
	case n.output.Object():
		l := term.NewList("NodeGPUList", nodeRows(shown))
		if len(n.names) == 0 {
			l.Total = totalRow(v)
		}
		if len(pools) > 0 && len(n.names) == 0 {
			l.Pools = poolRows(pools)
		}
		return term.Write(w, &n.output, l)
	case n.output.Format == term.OutputName:
		for _, node := range shown {
			term.PrintLine(w, "node/"+node.Name)
		}
		return nil
	case len(shown) == 0:
		term.PrintLine(n.o.Err, "no node has GPUs (--all shows nodes without)")
		return printPools(w, pools)
	case n.view == "allocation":
		t := allocationTable(shown)
		if err := t.Sort(n.sortBy, 0); err != nil {
			return err
		}
		return t.Write(w, n.output.Screen(n.o.Out), n.output.NoHeaders)
	}
	t, keep := nodeTable(shown, v, n.output.Format == term.OutputWide), 1
	if len(n.names) > 0 { // the sum of all is not asked for
		t.Rows, keep, pools = t.Rows[:len(shown)], 0, nil
	}
	if err := t.Sort(n.sortBy, keep); err != nil {
		return err
	}
	if err := t.Write(w, n.output.Screen(n.o.Out), n.output.NoHeaders); err != nil {
		return err
	}
	return printPools(w, pools)
}

// addSortBy adds --sort-by, and completes it with columns.
func addSortBy(cmd *cobra.Command, to *string, columns []string) {
	cmd.Flags().StringVar(to, "sort-by", "", "column to order lines by, as the head of the table names it; with - before it the largest first")
	var names []string
	for _, c := range columns {
		names = append(names, strings.ToLower(c), "-"+strings.ToLower(c))
	}
	_ = cmd.RegisterFlagCompletionFunc("sort-by", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)) // it is there
}

// Named reports names that no node has, with the nearest that is one.
func Named(names []string, v view.View) error {
	var all []string
	for i := range v.Nodes {
		all = append(all, v.Nodes[i].Name)
	}
	for _, name := range names {
		if slices.Contains(all, name) {
			continue
		}
		if near := gpu.NearestWord(name, all); near != "" {
			return fmt.Errorf("there is no node %s; did you mean %s?", name, near)
		}
		return fmt.Errorf("there is no node %s; kubectl get nodes lists all", name)
	}
	return nil
}

// narrow leaves only the holders of one namespace in HeldBy; "" is all. Counts
// stay those of the node.
func narrow(node devices.Node, namespace string) devices.Node {
	if namespace == "" {
		return node
	}
	var kept []devices.Holding
	for _, h := range node.HeldBy {
		if h.Namespace == namespace {
			kept = append(kept, h)
		}
	}
	node.HeldBy = kept
	return node
}
