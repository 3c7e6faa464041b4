package cost

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	cmd.AddCommand(newPriceExplain(o), newPriceList(o), newPriceRerate(o), newPriceSet(o))
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
		Long: "Show the price of each node with GPUs: that of its annotation " + api.AnnotationPrice + ", else that of a PriceBook, else the\n" +
			"list price of its instance type, with the date of the list. A node with none is unpriced: its GPU-hours are counted, and not charged.",
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
			books, err := c.PriceBooks(cmd.Context(), o)
			if err != nil {
				return err
			}
			return printPrices(o, &output, pricesOf(nodes.Items, price.Rules(books), o.Time()))
		},
	}
	cluster.AddFlags(cmd, false)
	output.AddFlags(cmd, term.Rows{Kind: "PriceList", Row: priceRow{}})
	return cmd
}

// pricesOf reads the prices of those of nodes that have GPUs, by name.
func pricesOf(nodes []v1.Node, rules core.Rules, now time.Time) (rows []priceRow) {
	for i := range nodes {
		n := readNode(&nodes[i])
		if n.GPUs == 0 {
			continue
		}
		q := core.PriceOf(n, rules, now)
		row := priceRow{
			Name: nodes[i].Name, Product: n.Product, GPUs: n.GPUs, InstanceType: n.Instance, CapacityType: string(n.Capacity),
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

// readNode reads what decides the price of a node.
func readNode(n *v1.Node) *core.Node {
	counted := devices.CountNode(n, nil, nil)
	return price.Node(n, counted.Product, counted.Physical)
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
	t := &term.Table{Head: []string{"NODE", "GPUS", "PRODUCT", "INSTANCE", "CAPACITY", "PRICE/H", "SOURCE"}, Gap: 2, Wrap: true, Spare: []string{"CAPACITY", "PRODUCT", "INSTANCE"}}
	for i := range rows {
		r := &rows[i]
		each, source := "unpriced", r.Remark
		if r.PricePerHour != nil {
			if each, source = Money(int64(*r.PricePerHour*1e6+0.5), r.Currency), r.Source; r.Remark != "" {
				source += "; assumed: " + r.Remark
			}
		}
		t.Add(r.Name, fmt.Sprint(r.GPUs), r.Product, cmp.Or(r.InstanceType, "-"), cmp.Or(r.CapacityType, "-"), each, source)
	}
	return t.Write(o.Out, output.Screen(o.Out), output.NoHeaders)
}
