package cost

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api"
	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
	core "berth.dev/berth/core/cost"
	"berth.dev/berth/kube/price"
)

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
			return term.Usagef("%q is not a price: must be dollars an hour, such as 12.50, from 0 to 10000000, or - to remove it", text)
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
	books, err := c.PriceBooks(ctx, o)
	if err != nil {
		return err
	}
	q := core.PriceOf(readNode(n), price.Rules(books), o.Time())
	if q.Source == core.Unpriced {
		term.PrintLine(o.Out, fmt.Sprintf("node %s is unpriced: %s", node, q.Why))
		return nil
	}
	term.PrintLine(o.Out, fmt.Sprintf("node %s costs %s an hour (%s)", node, Money(q.Micros, q.Currency), q.Source))
	return nil
}
