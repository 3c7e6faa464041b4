package cost

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
	core "berth.dev/berth/core/cost"
)

func newVerify(o client.Options) *cobra.Command {
	var cluster client.Flags
	var output term.Output
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check that the days of the ledger are as they were closed",
		Long: "Check the chain of hashes that the ledger keeps of its days: a fact or a sum of a closed day that was changed later shows, and so\n" +
			"does what was lost as the file of the ledger was damaged or gone. It exits with code 3 if something is wrong or lost. A day is closed again if facts\n" +
			"of it come late; that is listed, and is not a problem.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := output.Check(); err != nil {
				return err
			}
			c, err := cluster.Connect(o)
			if err != nil {
				return err
			}
			checked := &core.Checked{}
			if err := c.Ledger(cmd.Context(), "verify", nil, checked); err != nil {
				return err
			}
			return printChecked(o, &output, checked)
		},
	}
	cluster.AddFlags(cmd, false)
	output.AddFlags(cmd, term.Rows{Kind: "LedgerProblemList", Row: core.Problem{}})
	return cmd
}

func printChecked(o client.Options, output *term.Output, c *core.Checked) error {
	switch {
	case output.Object():
		list := term.NewList("LedgerProblemList", c.Problems)
		list.Total = c
		if err := term.Write(o.Out, output, list); err != nil {
			return err
		}
	case output.Format == term.OutputName:
		for _, p := range c.Problems {
			term.PrintLine(o.Out, p.Day.Format(time.DateOnly))
		}
	default:
		for _, p := range c.Problems {
			term.PrintLine(o.Out, fmt.Sprintf("%s: %s", p.Day.Format(time.DateOnly), p.What))
		}
		for i := range c.Losses {
			term.PrintLine(o.Out, "lost, as the file was damaged or gone: "+c.Losses[i].String())
		}
		if c.Restored > 0 {
			term.PrintLine(o.Out, fmt.Sprintf("%d days were restored from GPUUsageDays", c.Restored))
		}
		for _, p := range c.Reclosed {
			term.PrintLine(o.Out, fmt.Sprintf("%s was closed again: %s", p.Day.Format(time.DateOnly), p.What))
		}
		switch {
		case len(c.Problems) > 0:
		case c.Days == 0:
			term.PrintLine(o.Out, "no day is closed yet")
		default:
			term.PrintLine(o.Out, fmt.Sprintf("%d days are as they were closed; the last link, of %s, is %s", c.Days, c.HeadDay.Format(time.DateOnly), c.Head))
		}
	}
	if len(c.Problems) > 0 || len(c.Losses) > 0 {
		return term.ErrFound
	}
	return nil
}
