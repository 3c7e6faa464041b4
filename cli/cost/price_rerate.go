package cost

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
	core "berth.dev/berth/core/cost"
)

func newPriceRerate(o client.Options) *cobra.Command {
	var cluster client.Flags
	var since, reason string
	cmd := &cobra.Command{
		Use:   "rerate",
		Short: "Price a time that has passed again, by the PriceBooks of today",
		Long: "Replace the prices of a time that has passed by those that PriceBooks and list prices give now for it. Prices that were annotations of nodes\n" +
			"stay, and those of nodes that are gone. The ledger keeps the earlier prices, the reason, and who asked; closed days are closed again.",
		Example: "  berth price rerate --since 2026-11 --reason 'the contract counts from November'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if since == "" || strings.TrimSpace(reason) == "" {
				return term.Usagef("--since and --reason are needed: say from when prices change, and why")
			}
			from, to, err := client.Since(since, o.Time())
			if err != nil {
				return err
			}
			c, err := cluster.Connect(o)
			if err != nil {
				return err
			}
			return rerate(cmd.Context(), o, c, from, to, strings.TrimSpace(reason))
		},
	}
	cluster.AddFlags(cmd, false)
	cmd.Flags().StringVar(&since, "since", "", "the time to price again: a duration up to now such as 7d, a day such as 2026-11-02 and all after it, or a month such as 2026-11")
	cmd.Flags().StringVar(&reason, "reason", "", "why; the ledger keeps it")
	return cmd
}

func rerate(ctx context.Context, o client.Options, c *client.Cluster, from, to time.Time, reason string) error {
	r := &core.Rerated{}
	err := c.ChangeLedger(ctx, "rerate", map[string]string{"from": from.UTC().Format(time.RFC3339), "to": to.UTC().Format(time.RFC3339), "reason": reason}, r)
	if err != nil {
		return err
	}
	if r.Nodes == 0 {
		term.PrintLine(o.Out, "no price has changed")
	} else {
		term.PrintLine(o.Out, fmt.Sprintf("prices of %d nodes have changed: %s before, %s now", r.Nodes, amounts(r.Before), amounts(r.After)))
	}
	if r.Gone > 0 {
		term.PrintLine(o.Out, fmt.Sprintf("%d nodes that are gone keep their prices, as their labels are not known", r.Gone))
	}
	return nil
}

func amounts(list []core.Amount) string {
	if len(list) == 0 {
		return "no cost"
	}
	texts := make([]string, len(list))
	for i, a := range list {
		texts[i] = Money(a.Micros, a.Currency)
	}
	return strings.Join(texts, " + ")
}
