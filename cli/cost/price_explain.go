package cost

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
	core "berth.dev/berth/core/cost"
	"berth.dev/berth/kube/price"
)

// explained is what decides the price of a node, beside the list of `berth price explain -o json`.
type explained struct {
	Name         string `json:"name"`
	Product      string `json:"product"`
	GPUs         int    `json:"gpus"`
	InstanceType string `json:"instanceType"`
	Region       string `json:"region"`
	CapacityType string `json:"capacityType"` // "" is not known
	Pool         string `json:"pool"`

	candidates []priceCandidate // in the order in which they are asked
}

// priceCandidate is a source of prices.
type priceCandidate struct {
	Source       string   `json:"source"`
	Counts       bool     `json:"counts"`       // it is the node's price
	PricePerHour *float64 `json:"pricePerHour"` // of the whole node; null is that it has none
	Currency     string   `json:"currency"`
	Remark       string   `json:"remark"` // what was assumed, or how it is computed
	Why          string   `json:"why"`    // why it does not count; "" if it does
}

func newPriceExplain(o client.Options) *cobra.Command {
	var cluster client.Flags
	var output term.Output
	cmd := &cobra.Command{
		Use:   "explain NODE",
		Short: "Show where the price of a node is from, and why other prices do not count",
		Long: "Show all sources of a node's price in the order in which they are asked: its annotation, the prices of PriceBooks, and list prices. The\n" +
			"first that has a price counts. Of PriceBooks, the price that asks for most goes first, then the one that counts from later.",
		Example: "  berth price explain gpu-a100-1",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := output.Check(); err != nil {
				return err
			}
			c, err := cluster.Connect(o)
			if err != nil {
				return err
			}
			e, err := explain(cmd.Context(), o, c, args[0])
			if err != nil {
				return err
			}
			return e.print(o, &output)
		},
	}
	cluster.AddFlags(cmd, false)
	output.AddFlags(cmd, term.Rows{Kind: "PriceCandidateList", Row: priceCandidate{}})
	return cmd
}

func explain(ctx context.Context, o client.Options, c *client.Cluster, name string) (*explained, error) {
	node, err := c.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, c.Failed("get node "+name, err)
	}
	books, err := c.PriceBooks(ctx, o)
	if err != nil {
		return nil, err
	}
	n := readNode(node)
	e := &explained{Name: name, Product: n.Product, GPUs: n.GPUs, InstanceType: n.Instance, Region: n.Region, CapacityType: string(n.Capacity), Pool: n.Pool}
	for _, from := range core.Candidates(n, price.Rules(books), o.Time()) {
		row := priceCandidate{Source: cmp.Or(from.Source, from.Name), Counts: from.Counts, Currency: from.Currency, Remark: from.Assumed, Why: from.Why}
		if from.Source != core.Unpriced {
			row.PricePerHour = new(float64(from.Micros) / 1e6)
		}
		e.candidates = append(e.candidates, row)
	}
	return e, nil
}

func (e *explained) print(o client.Options, output *term.Output) error {
	if output.Object() {
		list := term.NewList("PriceCandidateList", e.candidates)
		list.Total = e
		return term.Write(o.Out, output, list)
	}
	if output.Format == term.OutputName {
		term.PrintLine(o.Out, "node/"+e.Name)
		return nil
	}
	term.PrintBlock(o.Out, term.ScreenOf(o.Out).Wrapped(e.headline()))
	t := &term.Table{Head: []string{"", "SOURCE", "PRICE/H", "WHY"}, Gap: 2, Wrap: true}
	for i := range e.candidates {
		c := &e.candidates[i]
		mark, each, why := "", "-", c.Why
		if c.PricePerHour != nil {
			each = Money(int64(*c.PricePerHour*1e6+0.5), c.Currency)
		}
		if c.Counts {
			if mark = "=>"; c.Remark != "" {
				why = "assumed: " + c.Remark
			}
		}
		t.Add(mark, c.Source, each, why)
	}
	return t.Write(o.Out, output.Screen(o.Out), output.NoHeaders)
}

// headline is what of the node decides its price, with the price.
func (e *explained) headline() string {
	text := "unpriced"
	for i := range e.candidates {
		if c := &e.candidates[i]; c.Counts {
			text = Money(int64(*c.PricePerHour*1e6+0.5), c.Currency) + " an hour"
		}
	}
	facts := []string{fmt.Sprintf("%d GPUs", e.GPUs)}
	for _, f := range [][2]string{{"product ", e.Product}, {"instance type ", e.InstanceType}, {"region ", e.Region}, {"capacity type ", e.CapacityType}, {"pool ", e.Pool}} {
		if f[1] != "" {
			facts = append(facts, f[0]+f[1])
		}
	}
	return fmt.Sprintf("node %s: %s (%s)", e.Name, text, strings.Join(facts, ", "))
}
