package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/pool"
	"berth.dev/berth/kube/view"
)

// nodesCommand is `berth nodes`.
type nodesCommand struct {
	o        Options
	cluster  clusterFlags
	output   outputFlags
	selector string
	view     string
	all      bool
	watch    bool
}

func newNodes(o Options) *cobra.Command {
	n := &nodesCommand{o: o}
	cmd := &cobra.Command{
		Use:   "nodes",
		Short: "Show the GPUs of each node: allocated, busy, free, unhealthy, and their price",
		Long: "Show the GPUs of each node. All counts are physical GPUs: 7 of 56 MIG devices on 8 GPUs count as 1 GPU.\n" +
			"BUSY is the mean utilization of allocated GPUs, if a DCGM exporter reports it. Unallocated GPUs of a\n" +
			"cordoned or NotReady node do not count as free. Works on any cluster with NVIDIA's device plugin, with\n" +
			"or without Berth.",
		Example: "  berth nodes\n  berth nodes -o wide\n  berth nodes --view allocation\n" +
			"  berth nodes -o jsonpath='{.total.free}'",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return n.run(cmd.Context()) },
	}
	n.cluster.add(cmd, true)
	n.output.add(cmd)
	f := cmd.Flags()
	f.StringVarP(&n.selector, "selector", "l", "", "label selector for nodes")
	f.StringVar(&n.view, "view", "", "allocation: NODE, GPU TOTAL, GPU ALLOCATED, GPU UTILIZATION")
	f.BoolVar(&n.all, "all", false, "also show nodes without GPUs")
	f.BoolVarP(&n.watch, "watch", "w", false, "watch, and print again after each change")
	return cmd
}

func (n *nodesCommand) run(ctx context.Context) error {
	if n.view != "" && n.view != "allocation" {
		return usagef("invalid --view %q: must be allocation", n.view)
	}
	if err := n.output.check(); err != nil {
		return err
	}
	c, err := n.cluster.connect(n.o)
	if err != nil {
		return err
	}
	show := func(w io.Writer) error {
		v, err := c.read(ctx, n.selector)
		if err != nil {
			return err
		}
		busy := c.utilization(ctx, v.exporters)
		v.SetBusy(func(uuid string) (float64, bool) { r, ok := busy[uuid]; return r, ok })
		return n.print(w, v.View, c.growth(ctx, n.o, n.selector, v.nodes))
	}
	if n.watch {
		return c.watch(ctx, n.o, show)
	}
	return show(n.o.Out)
}

// print writes a view in the form asked for.
func (n *nodesCommand) print(w io.Writer, v view.View, pools []pool.Growth) error {
	var shown []devices.Node
	for _, node := range v.Nodes {
		if len(node.GPUs) > 0 || n.all {
			shown = append(shown, narrow(node, n.cluster.namespace()))
		}
	}
	switch {
	case n.output.object():
		l := newList("NodeGPUList", nodeRows(shown))
		l.Total = totalRow(v)
		if len(pools) > 0 {
			l.Pools = poolRows(pools)
		}
		return write(w, &n.output, l)
	case n.output.format == outputName:
		for _, node := range shown {
			printLine(w, "node/"+node.Name)
		}
		return nil
	case len(shown) == 0:
		printLine(n.o.Err, "no node has GPUs (--all shows nodes without)")
		return printPools(w, pools)
	case n.view == "allocation":
		return allocationTable(shown).write(w, screenOf(n.o.Out), n.output.noHeaders)
	}
	if err := nodeTable(shown, v, n.output.format == outputWide).write(w, screenOf(n.o.Out), n.output.noHeaders); err != nil {
		return err
	}
	return printPools(w, pools)
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
