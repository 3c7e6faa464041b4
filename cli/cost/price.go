package cost

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api"
	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
	core "berth.dev/berth/core/cost"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/price"
)

// NewPrice makes `berth price`.
func NewPrice(o client.Options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "price",
		Short: "Show and set what nodes with GPUs cost",
		Args:  func(cmd *cobra.Command, args []string) error { return term.UnknownCommand(cmd, args) },
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newPriceList(o), newPriceSet(o))
	return cmd
}

// priceRow is a node in `berth price list -o json`.
type priceRow struct {
	Name         string   `json:"name"`
	Product      string   `json:"product"`
	GPUs         int      `json:"gpus"`
	InstanceType string   `json:"instanceType"`
	CapacityType string   `json:"capacityType"` // "" is not known
	PricePerHour *float64 `json:"pricePerHour"` // of the whole node; null is not known
	Currency     string   `json:"currency"`
	Source       string   `json:"source"` // "" is that no price is known
	Remark       string   `json:"remark"` // what was assumed, or why no price is known
}

func newPriceList(o client.Options) *cobra.Command {
	var cluster client.Flags
	var output term.Output
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Show what each node with GPUs costs, and where the price is from",
		Long: "Show the price of each node with GPUs: that of its annotation " + api.AnnotationPrice + ", else the list price of its instance type, with the\n" +
			"date of the list. A node with neither is unpriced: what its GPUs are used for is counted, and not charged.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := output.Check(); err != nil {
				return err
			}
			c, err := cluster.Connect(o)
			if err != nil {
				return err
			}
			nodes, err := c.CoreV1().Nodes().List(cmd.Context(), metav1.ListOptions{})
			if err != nil {
				return c.Failed("list nodes", err)
			}
			return printPrices(o, &output, pricesOf(nodes.Items))
		},
	}
	cluster.AddFlags(cmd, false)
	output.AddFlags(cmd)
	return cmd
}

// pricesOf reads the prices of those of nodes that have GPUs, by name.
func pricesOf(nodes []v1.Node) (rows []priceRow) {
	for i := range nodes {
		n := &nodes[i]
		counted := devices.CountNode(n, nil, nil)
		if counted.Physical == 0 {
			continue
		}
		read := price.Node(n)
		q := core.PriceOf(read)
		row := priceRow{
			Name: n.Name, Product: counted.Product, GPUs: counted.Physical, InstanceType: read.Instance, CapacityType: string(read.Capacity),
			Currency: q.Currency, Source: q.Source, Remark: cmp.Or(q.Assumed, q.Why),
		}
		if q.Source != core.Unpriced {
			row.PricePerHour = new(float64(q.Micros) / 1e6)
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b priceRow) int { return cmp.Compare(a.Name, b.Name) })
	return rows
}

func printPrices(o client.Options, output *term.Output, rows []priceRow) error {
	if output.Object() {
		return term.Write(o.Out, output, term.NewList("PriceList", rows))
	}
	if output.Format == term.OutputName {
		for i := range rows {
			term.PrintLine(o.Out, "node/"+rows[i].Name)
		}
		return nil
	}
	t := &term.Table{Head: []string{"NODE", "GPUS", "PRODUCT", "INSTANCE", "CAPACITY", "$/H", "SOURCE"}, Gap: 2}
	for i := range rows {
		r := &rows[i]
		each, source := "unpriced", r.Remark
		if r.PricePerHour != nil {
			if each, source = fmt.Sprintf("%.2f", *r.PricePerHour), r.Source; r.Remark != "" {
				source += "; assumed: " + r.Remark
			}
		}
		t.Add(r.Name, fmt.Sprint(r.GPUs), r.Product, cmp.Or(r.InstanceType, "-"), cmp.Or(r.CapacityType, "-"), each, source)
	}
	return t.Write(o.Out, term.ScreenOf(o.Out), output.NoHeaders)
}

func newPriceSet(o client.Options) *cobra.Command {
	var cluster client.Flags
	cmd := &cobra.Command{
		Use:     "set NODE PRICE",
		Short:   "Set what a node costs an hour, in dollars; - removes what was set",
		Long:    "Write the annotation " + api.AnnotationPrice + " on a node. Earlier charges stay as they were.",
		Example: "  berth price set gpu-a100-1 12.50\n  berth price set gpu-a100-1 -",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := cluster.Connect(o)
			if err != nil {
				return err
			}
			return setPrice(cmd.Context(), o, c, args[0], strings.TrimPrefix(args[1], "$"))
		},
	}
	cluster.AddFlags(cmd, false)
	return cmd
}

func setPrice(ctx context.Context, o client.Options, c *client.Cluster, node, text string) error {
	var value any
	if text != "-" {
		if _, ok := price.Micros(text); !ok {
			return term.Usagef("%q is not a price: must be dollars an hour, such as 12.50, 0 or more, or - to remove it", text)
		}
		value = text
	}
	raw, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{api.AnnotationPrice: value}}})
	if err != nil {
		return err
	}
	n, err := c.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, raw, metav1.PatchOptions{FieldManager: "berth"})
	if err != nil {
		return c.Failed("set the price of node "+node, err)
	}
	q := core.PriceOf(price.Node(n))
	if q.Source == core.Unpriced {
		term.PrintLine(o.Out, fmt.Sprintf("node %s is unpriced: %s", node, q.Why))
		return nil
	}
	term.PrintLine(o.Out, fmt.Sprintf("node %s costs %s an hour (%s)", node, money(q.Micros, q.Currency), q.Source))
	return nil
}
