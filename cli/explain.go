package cli

import (
	"strings"

	"github.com/spf13/cobra"

	reasons "berth.dev/berth/core/explain"
)

func newExplain(o Options) *cobra.Command {
	return &cobra.Command{
		Use:   "explain [CODE]",
		Short: "Explain a cause that `why` names by its code, or list all causes",
		Long: "Explain a cause by the code that `berth why` prints with it, such as BERTH-C12: what shows it, what helps,\n" +
			"and how to see it in a simulated cluster. Without a code, list all of them. No cluster is needed.",
		Example: "  berth explain BERTH-C12\n  berth explain",
		Args:    cobra.MaximumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var out []string
			for i := range reasons.Catalog {
				out = append(out, string(reasons.Catalog[i].Code))
			}
			return out, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error { return explainCode(o, args) },
	}
}

func explainCode(o Options, args []string) error {
	if len(args) == 0 {
		t := &table{head: []string{"CODE", "CAUSE"}, gap: 2}
		for i := range reasons.Catalog {
			t.add(string(reasons.Catalog[i].Code), reasons.Catalog[i].Title)
		}
		return t.write(o.Out, screenOf(o.Out), false)
	}
	e, ok := reasons.Find(args[0])
	if !ok {
		return usagef("there is no cause %s; `%s explain` lists all", args[0], o.Name)
	}
	var b strings.Builder
	printf(&b, "%s: %s\n\n%-9s%s\n\n%-9s%s\n\n%-9s%s\n", e.Code, e.Title, "PROOF", e.Proof, "HELPS", e.Helps, "TRY", e.Try())
	_, err := printBlock(o.Out, block(b.String()))
	return err
}
